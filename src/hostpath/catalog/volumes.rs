//! The records of volumes and of the paths where each is staged or published.

use std::collections::BTreeMap;

use redb::{ReadableTable as _, WriteTransaction};

use super::database::{Catalog, CatalogError, damaged, decode, encode, key_after};
use super::records::{PathRecord, RecordState, VolumeRecord};
use super::tables::{META, NAMES, PATHS, UNFINISHED, VOLUMES};

/// The key of the bytes that all volumes together may use.
const PROVISIONED: &str = "promised";
/// The key of the number of attached volumes.
const ATTACHED: &str = "attached";

impl Catalog {
    /// Returns the volume with this ID, in any state.
    pub(in crate::hostpath) fn volume(
        &self,
        id: &str,
    ) -> Result<Option<VolumeRecord>, CatalogError> {
        self.record(VOLUMES, id)
    }

    /// Returns the volume that owns this name.
    pub(in crate::hostpath) fn volume_by_name(
        &self,
        name: &str,
    ) -> Result<Option<VolumeRecord>, CatalogError> {
        match self.text(NAMES, name)? {
            Some(id) => self.volume(&id),
            None => Ok(None),
        }
    }

    /// Returns the bytes that all volumes together may use.
    pub(in crate::hostpath) fn provisioned_bytes(&self) -> Result<u64, CatalogError> {
        self.number(PROVISIONED)
    }

    /// Returns the number of attached volumes.
    #[cfg(test)]
    pub(in crate::hostpath) fn attached_count(&self) -> Result<u64, CatalogError> {
        self.number(ATTACHED)
    }

    /// Returns up to `limit` ready volumes with IDs after `after`, in order, and whether more
    /// follow.
    pub(in crate::hostpath) fn volume_page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<VolumeRecord>, bool), CatalogError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.read(|transaction| {
            let volumes = transaction.open_table(VOLUMES)?;
            let start = after.map_or(Unbounded, Excluded);
            let mut page = vec![];
            for entry in volumes.range::<&str>((start, Unbounded))? {
                let record: VolumeRecord = decode(entry?.1.value())?;
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
    pub(in crate::hostpath) fn unfinished_volumes(
        &self,
    ) -> Result<Vec<VolumeRecord>, CatalogError> {
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

    /// Writes a volume. `Creating` reserves its name, `Deleting` releases it.
    pub(in crate::hostpath) fn put_volume(
        &self,
        record: &VolumeRecord,
    ) -> Result<(), CatalogError> {
        let bytes = encode(record)?;
        let id = record.id.as_str();
        self.write(|transaction| {
            let mut names = transaction.open_table(NAMES)?;
            let mut unfinished = transaction.open_table(UNFINISHED)?;
            match record.state {
                RecordState::Creating => {
                    names.insert(record.name.as_str(), id)?;
                    unfinished.insert(id, ())?;
                }
                RecordState::Ready => drop(unfinished.remove(id)?),
                RecordState::Deleting => {
                    names.remove(record.name.as_str())?;
                    unfinished.insert(id, ())?;
                }
            }
            let mut volumes = transaction.open_table(VOLUMES)?;
            let before = volumes.insert(id, bytes.as_slice())?;
            let before = before.map(|bytes| decode(bytes.value())).transpose()?;
            update_totals(transaction, before.as_ref(), Some(record))
        })
    }

    /// Writes a volume that becomes attached. Changes nothing and returns `false` if `limit`
    /// volumes are attached.
    pub(in crate::hostpath) fn put_attached(
        &self,
        record: &VolumeRecord,
        limit: u64,
    ) -> Result<bool, CatalogError> {
        let bytes = encode(record)?;
        self.write(|transaction| {
            let attached = {
                let meta = transaction.open_table(META)?;
                meta.get(ATTACHED)?.map_or(0, |number| number.value())
            };
            if attached >= limit {
                return Ok(false);
            }
            let mut volumes = transaction.open_table(VOLUMES)?;
            let before = volumes.insert(record.id.as_str(), bytes.as_slice())?;
            let before = before.map(|bytes| decode(bytes.value())).transpose()?;
            update_totals(transaction, before.as_ref(), Some(record))?;
            Ok(true)
        })
    }

    /// Removes all records of a volume.
    pub(in crate::hostpath) fn remove_volume(
        &self,
        record: &VolumeRecord,
    ) -> Result<(), CatalogError> {
        let id = record.id.as_str();
        self.write(|transaction| {
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
            update_totals(transaction, before.as_ref(), None)?;
            transaction
                .open_table(PATHS)?
                .retain_in((id, "")..(key_after(id).as_str(), ""), |_, _| false)?;
            Ok(())
        })
    }

    /// Returns the staging and target paths of a volume.
    pub(in crate::hostpath) fn paths(
        &self,
        id: &str,
    ) -> Result<BTreeMap<String, PathRecord>, CatalogError> {
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
    pub(in crate::hostpath) fn volumes_with_paths(&self) -> Result<Vec<String>, CatalogError> {
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

    /// Writes the purpose of a path.
    pub(in crate::hostpath) fn put_path(
        &self,
        id: &str,
        path: &str,
        record: &PathRecord,
    ) -> Result<(), CatalogError> {
        let bytes = encode(record)?;
        self.write(|transaction| {
            let mut paths = transaction.open_table(PATHS)?;
            paths.insert((id, path), bytes.as_slice())?;
            Ok(())
        })
    }

    /// Removes the record of a path.
    pub(in crate::hostpath) fn remove_path(
        &self,
        id: &str,
        path: &str,
    ) -> Result<(), CatalogError> {
        self.write(|transaction| {
            transaction.open_table(PATHS)?.remove((id, path))?;
            Ok(())
        })
    }
}

/// Updates the totals for a changed record.
fn update_totals(
    transaction: &WriteTransaction,
    before: Option<&VolumeRecord>,
    now: Option<&VolumeRecord>,
) -> Result<(), CatalogError> {
    let totals =
        |record: Option<&VolumeRecord>| record.map(VolumeRecord::totals).unwrap_or_default();
    let (before, now) = (totals(before), totals(now));
    if before == now {
        return Ok(());
    }
    let mut meta = transaction.open_table(META)?;
    for (key, minus, plus) in [(PROVISIONED, before.0, now.0), (ATTACHED, before.1, now.1)] {
        let sum = meta.get(key)?.map_or(0, |number| number.value());
        meta.insert(key, sum.saturating_sub(minus).saturating_add(plus))?;
    }
    Ok(())
}
