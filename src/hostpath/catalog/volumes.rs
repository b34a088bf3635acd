//! The records of volumes and of the paths where each is staged or published.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use redb::{ReadableTable as _, WriteTransaction};

use super::database::Catalog;
use super::records::{CatalogVolume, PathRecord, RecordState};
use super::store::{CatalogError, damaged, decode, encode, key_after};
use super::tables::{META, NAMES, PATHS, UNFINISHED, VOLUMES};

/// The key of the bytes that all volumes together may use.
const PROVISIONED: &str = "promised";
/// The key of the number of attached volumes.
const ATTACHED: &str = "attached";

impl Catalog {
    /// Returns the volume with this ID, in any state.
    pub(crate) fn volume(&self, id: &str) -> Result<Option<CatalogVolume>, CatalogError> {
        self.record(VOLUMES, id)
    }

    /// Returns the volume that owns this name.
    pub(crate) fn volume_by_name(&self, name: &str) -> Result<Option<CatalogVolume>, CatalogError> {
        match self.text(NAMES, name)? {
            Some(id) => self.volume(&id),
            None => Ok(None),
        }
    }

    /// Returns the bytes that all volumes together may use.
    pub(crate) fn provisioned_bytes(&self) -> Result<u64, CatalogError> {
        self.number(PROVISIONED)
    }

    /// Returns the number of attached volumes.
    #[cfg(test)]
    pub(crate) fn attached_count(&self) -> Result<u64, CatalogError> {
        self.number(ATTACHED)
    }

    /// Returns up to `limit` ready volumes with IDs after `after`, in order, and whether more
    /// follow.
    pub(crate) fn volume_page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<CatalogVolume>, bool), CatalogError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.read(|transaction| {
            let volumes = transaction.open_table(VOLUMES)?;
            let start = after.map_or(Unbounded, Excluded);
            let mut page = vec![];
            for entry in volumes.range::<&str>((start, Unbounded))? {
                let record: CatalogVolume = decode(entry?.1.value())?;
                if record.state != RecordState::Ready {
                    continue;
                }
                if page.len() == limit {
                    return Ok((page, true));
                }
                page.push(record);
            }
            Ok((page, false))
        })
    }

    /// Returns the volumes whose creation or deletion is unfinished.
    pub(crate) fn unfinished_volumes(&self) -> Result<Vec<CatalogVolume>, CatalogError> {
        self.read(|transaction| {
            let unfinished = transaction.open_table(UNFINISHED)?;
            let volumes = transaction.open_table(VOLUMES)?;
            let mut records = vec![];
            for entry in unfinished.iter()? {
                let entry = entry?;
                let id = entry.0.value();
                let record = volumes
                    .get(id)?
                    .ok_or_else(|| damaged(format_args!("volume {id} has no record")))?;
                records.push(decode(record.value())?);
            }
            Ok(records)
        })
    }

    /// Writes a volume. A new record reserves its name, `Deleting` releases it.
    pub(crate) fn put_volume(&self, record: &CatalogVolume) -> Result<(), CatalogError> {
        self.put_volume_within(record, CatalogLimits::default()).map(drop)
    }

    /// Writes a volume within limits. Changes nothing and returns `false` if it exceeds one.
    pub(crate) fn put_volume_within(
        &self,
        record: &CatalogVolume,
        limits: CatalogLimits,
    ) -> Result<bool, CatalogError> {
        let written = record.clone();
        let is_within = self.write(move |transaction| put(transaction, &written, limits))?;
        if is_within {
            self.publish(record)?;
        }
        Ok(is_within)
    }

    /// Writes the record of a volume to the file that nodes read, if they do. It is written again if an earlier call could
    /// not.
    pub(crate) fn publish(&self, record: &CatalogVolume) -> Result<(), CatalogError> {
        let published = self.published.as_ref().map_or(Ok(()), |files| files.publish(record));
        Ok(published?)
    }

    /// Removes all records of a volume.
    pub(crate) fn remove_volume(&self, record: &CatalogVolume) -> Result<(), CatalogError> {
        let removed = record.clone();
        self.write(move |transaction| remove(transaction, &removed))?;
        let withdrawn = self.published.as_ref().map_or(Ok(()), |files| files.withdraw(&record.id));
        Ok(withdrawn?)
    }

    /// Removes all records of a volume whose data was removed from `directory`, with the next
    /// transaction. After a crash before that, the next start removes them.
    pub(crate) fn remove_volume_later(&self, record: CatalogVolume, directory: Arc<OwnedFd>) {
        self.write_later(directory, move |transaction| remove(transaction, &record));
    }

    /// Returns the staging and target paths of a volume.
    pub(crate) fn paths(&self, id: &str) -> Result<BTreeMap<String, PathRecord>, CatalogError> {
        self.read(|transaction| {
            let paths = transaction.open_table(PATHS)?;
            let mut found = BTreeMap::new();
            for entry in paths.range((id, "")..(key_after(id).as_str(), ""))? {
                let (key, value) = entry?;
                found.insert(key.value().1.to_owned(), decode(value.value())?);
            }
            Ok(found)
        })
    }

    /// Returns the IDs of the volumes that have a path.
    pub(crate) fn volumes_with_paths(&self) -> Result<Vec<String>, CatalogError> {
        self.read(|transaction| {
            let paths = transaction.open_table(PATHS)?;
            let mut ids: Vec<String> = vec![];
            for entry in paths.iter()? {
                let key = entry?.0;
                let id = key.value().0;
                if ids.last().is_none_or(|last| last != id) {
                    ids.push(id.to_owned());
                }
            }
            Ok(ids)
        })
    }

    /// Writes the purpose of a path and, if it changed, the record of the volume.
    pub(crate) fn put_path(
        &self,
        id: &str,
        path: &str,
        record: &PathRecord,
        volume: Option<&CatalogVolume>,
    ) -> Result<(), CatalogError> {
        let bytes = encode(record)?;
        let (id, path, written) = (id.to_owned(), path.to_owned(), volume.cloned());
        self.write(move |transaction| {
            let mut paths = transaction.open_table(PATHS)?;
            paths.insert((id.as_str(), path.as_str()), bytes.as_slice())?;
            if let Some(volume) = &written {
                put(transaction, volume, CatalogLimits::default())?;
            }
            Ok(())
        })?;
        volume.map_or(Ok(()), |volume| self.publish(volume))
    }

    /// Gives the record of a path to another one.
    pub(crate) fn rename_path(&self, id: &str, from: &str, to: &str) -> Result<(), CatalogError> {
        let (id, from, to) = (id.to_owned(), from.to_owned(), to.to_owned());
        self.write(move |transaction| {
            let mut paths = transaction.open_table(PATHS)?;
            let record = paths.remove((id.as_str(), from.as_str()))?;
            let record = record.map(|record| record.value().to_vec());
            if let Some(record) = record {
                paths.insert((id.as_str(), to.as_str()), record.as_slice())?;
            }
            Ok(())
        })
    }

    /// Removes the record of a path.
    pub(crate) fn remove_path(&self, id: &str, path: &str) -> Result<(), CatalogError> {
        let (id, path) = (id.to_owned(), path.to_owned());
        self.write(move |transaction| {
            let mut paths = transaction.open_table(PATHS)?;
            paths.remove((id.as_str(), path.as_str()))?;
            Ok(())
        })
    }
}

/// The largest totals that a write may reach by raising them; `None` means no limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CatalogLimits {
    /// The bytes that all volumes together may use.
    pub(crate) provisioned_bytes: Option<u64>,
    /// The number of attached volumes.
    pub(crate) attached: Option<u64>,
}

fn put(
    transaction: &WriteTransaction,
    record: &CatalogVolume,
    limits: CatalogLimits,
) -> Result<bool, CatalogError> {
    let id = record.id.as_str();
    let mut volumes = transaction.open_table(VOLUMES)?;
    let before: Option<CatalogVolume> = match volumes.get(id)? {
        Some(bytes) => Some(decode(bytes.value())?),
        None => None,
    };
    if !update_totals(transaction, before.as_ref(), Some(record), limits)? {
        return Ok(false);
    }
    volumes.insert(id, encode(record)?.as_slice())?;
    let state = before.map(|before| before.state);
    if state == Some(record.state) {
        return Ok(true);
    }
    let mut names = transaction.open_table(NAMES)?;
    if record.state == RecordState::Deleting {
        names.remove(record.name.as_str())?;
    } else if state.is_none() {
        names.insert(record.name.as_str(), id)?;
    }
    let mut unfinished = transaction.open_table(UNFINISHED)?;
    if record.state != RecordState::Ready {
        unfinished.insert(id, ())?;
    } else if state.is_some() {
        unfinished.remove(id)?;
    }
    Ok(true)
}

fn remove(transaction: &WriteTransaction, record: &CatalogVolume) -> Result<(), CatalogError> {
    let id = record.id.as_str();
    let mut names = transaction.open_table(NAMES)?;
    let owner = names.get(record.name.as_str())?;
    let is_owner = owner.is_some_and(|owner| owner.value() == id);
    if is_owner {
        names.remove(record.name.as_str())?;
    }
    transaction.open_table(UNFINISHED)?.remove(id)?;
    let mut volumes = transaction.open_table(VOLUMES)?;
    let before = volumes.remove(id)?;
    let before = before.map(|bytes| decode(bytes.value())).transpose()?;
    update_totals(transaction, before.as_ref(), None, CatalogLimits::default())?;
    transaction
        .open_table(PATHS)?
        .retain_in((id, "")..(key_after(id).as_str(), ""), |_, _| false)?;
    Ok(())
}

/// Updates the totals for a changed record. Changes nothing and returns `false` if one rises above its
/// limit.
fn update_totals(
    transaction: &WriteTransaction,
    before: Option<&CatalogVolume>,
    now: Option<&CatalogVolume>,
    limits: CatalogLimits,
) -> Result<bool, CatalogError> {
    let totals =
        |record: Option<&CatalogVolume>| record.map(CatalogVolume::totals).unwrap_or_default();
    let (before, now) = (totals(before), totals(now));
    if before == now {
        return Ok(true);
    }
    let mut meta = transaction.open_table(META)?;
    let mut sums = vec![];
    for (key, minus, plus, limit) in [
        (PROVISIONED, before.0, now.0, limits.provisioned_bytes),
        (ATTACHED, before.1, now.1, limits.attached),
    ] {
        let sum = meta.get(key)?.map_or(0, |number| number.value());
        let sum = sum.saturating_sub(minus).saturating_add(plus);
        if plus > minus && limit.is_some_and(|limit| sum > limit) {
            return Ok(false);
        }
        sums.push((key, sum));
    }
    for (key, sum) in sums {
        meta.insert(key, sum)?;
    }
    Ok(true)
}
