//! The records of snapshots and groups.
//!
//! A group and its members change in one transaction, so a partial group never exists.

use redb::{ReadableTable as _, WriteTransaction};

use super::database::Catalog;
use super::records::{GroupRecord, RecordState, SnapshotRecord};
use super::store::{CatalogError, damaged, decode, encode, key_after};
use super::tables::{
    GROUP_NAMES, GROUPS, SNAPSHOT_NAMES, SNAPSHOTS, SNAPSHOTS_OF_VOLUME, UNFINISHED_SNAPSHOTS,
};

/// One page of snapshots.
pub(crate) struct SnapshotPage {
    pub(crate) snapshots: Vec<SnapshotRecord>,
    pub(crate) has_more: bool,
}

impl Catalog {
    /// Returns the snapshot with this ID, in any state.
    pub(crate) fn snapshot(&self, id: &str) -> Result<Option<SnapshotRecord>, CatalogError> {
        self.record(SNAPSHOTS, id)
    }

    /// Returns the snapshot that owns this name.
    pub(crate) fn snapshot_by_name(
        &self,
        name: &str,
    ) -> Result<Option<SnapshotRecord>, CatalogError> {
        match self.text(SNAPSHOT_NAMES, name)? {
            Some(id) => self.snapshot(&id),
            None => Ok(None),
        }
    }

    /// Returns the group with this ID, in any state.
    pub(crate) fn group(&self, id: &str) -> Result<Option<GroupRecord>, CatalogError> {
        self.record(GROUPS, id)
    }

    /// Returns the group that owns this name.
    pub(crate) fn group_by_name(&self, name: &str) -> Result<Option<GroupRecord>, CatalogError> {
        match self.text(GROUP_NAMES, name)? {
            Some(id) => self.group(&id),
            None => Ok(None),
        }
    }

    /// Returns up to `limit` ready snapshots with IDs after `start`, in order. With `source`, only
    /// those of that volume.
    pub(crate) fn snapshot_page(
        &self,
        source: Option<&str>,
        start: Option<&str>,
        limit: usize,
    ) -> Result<SnapshotPage, CatalogError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.read(|transaction| {
            let table = transaction.open_table(SNAPSHOTS)?;
            let mut page = SnapshotPage { snapshots: vec![], has_more: false };
            let mut take = |bytes: &[u8]| {
                let record: SnapshotRecord = decode(bytes)?;
                if record.state != RecordState::Ready {
                    return Ok(true);
                }
                page.has_more = page.snapshots.len() == limit;
                if !page.has_more {
                    page.snapshots.push(record);
                }
                Ok::<_, CatalogError>(!page.has_more)
            };
            if let Some(volume) = source {
                let index = transaction.open_table(SNAPSHOTS_OF_VOLUME)?;
                let end = key_after(volume);
                let first = (volume, start.unwrap_or_default());
                for entry in index.range((Excluded(first), Excluded((end.as_str(), ""))))? {
                    let entry = entry?;
                    let id = entry.0.value().1;
                    let record = table
                        .get(id)?
                        .ok_or_else(|| damaged(format_args!("snapshot {id} has no record")))?;
                    if !take(record.value())? {
                        break;
                    }
                }
            } else {
                let first = start.map_or(Unbounded, Excluded);
                for entry in table.range::<&str>((first, Unbounded))? {
                    if !take(entry?.1.value())? {
                        break;
                    }
                }
            }
            Ok(page)
        })
    }

    /// Returns the snapshots whose creation or deletion is unfinished, members of groups included.
    pub(crate) fn unfinished_snapshots(&self) -> Result<Vec<SnapshotRecord>, CatalogError> {
        self.read(|transaction| {
            let unfinished = transaction.open_table(UNFINISHED_SNAPSHOTS)?;
            let table = transaction.open_table(SNAPSHOTS)?;
            let mut records = vec![];
            for entry in unfinished.iter()? {
                let entry = entry?;
                let id = entry.0.value();
                let record = table
                    .get(id)?
                    .ok_or_else(|| damaged(format_args!("snapshot {id} has no record")))?;
                records.push(decode(record.value())?);
            }
            Ok(records)
        })
    }

    /// Writes snapshots and their group. `Creating` reserves the names, `Deleting` releases them.
    pub(crate) fn put_snapshots(
        &self,
        snapshots: &[SnapshotRecord],
        group: Option<&GroupRecord>,
    ) -> Result<(), CatalogError> {
        let (snapshots, group) = (snapshots.to_vec(), group.cloned());
        self.write(move |transaction| {
            for record in &snapshots {
                put_snapshot(transaction, record)?;
            }
            let Some(group) = &group else {
                return Ok(());
            };
            let mut names = transaction.open_table(GROUP_NAMES)?;
            match group.state {
                RecordState::Creating => {
                    drop(names.insert(group.name.as_str(), group.id.as_str())?);
                }
                RecordState::Ready => {}
                RecordState::Deleting => drop(names.remove(group.name.as_str())?),
            }
            let bytes = encode(group)?;
            transaction.open_table(GROUPS)?.insert(group.id.as_str(), bytes.as_slice())?;
            Ok(())
        })
    }

    /// Removes all records of snapshots and their group.
    pub(crate) fn remove_snapshots(
        &self,
        snapshots: &[SnapshotRecord],
        group: Option<&GroupRecord>,
    ) -> Result<(), CatalogError> {
        let (snapshots, group) = (snapshots.to_vec(), group.cloned());
        self.write(move |transaction| {
            for record in &snapshots {
                remove_snapshot(transaction, record)?;
            }
            let Some(group) = &group else {
                return Ok(());
            };
            let mut names = transaction.open_table(GROUP_NAMES)?;
            release_name(&mut names, &group.name, &group.id)?;
            transaction.open_table(GROUPS)?.remove(group.id.as_str())?;
            Ok(())
        })
    }
}

fn put_snapshot(
    transaction: &WriteTransaction,
    record: &SnapshotRecord,
) -> Result<(), CatalogError> {
    let id = record.id.as_str();
    let mut unfinished = transaction.open_table(UNFINISHED_SNAPSHOTS)?;
    let mut names = transaction.open_table(SNAPSHOT_NAMES)?;
    // A member of a group has no name.
    let is_named = !record.name.is_empty();
    match record.state {
        RecordState::Creating => {
            unfinished.insert(id, ())?;
            if is_named {
                names.insert(record.name.as_str(), id)?;
            }
        }
        RecordState::Ready => drop(unfinished.remove(id)?),
        RecordState::Deleting => {
            unfinished.insert(id, ())?;
            release_name(&mut names, &record.name, id)?;
        }
    }
    transaction.open_table(SNAPSHOTS_OF_VOLUME)?.insert((record.source.as_str(), id), ())?;
    let bytes = encode(record)?;
    transaction.open_table(SNAPSHOTS)?.insert(id, bytes.as_slice())?;
    Ok(())
}

fn remove_snapshot(
    transaction: &WriteTransaction,
    record: &SnapshotRecord,
) -> Result<(), CatalogError> {
    let id = record.id.as_str();
    let mut names = transaction.open_table(SNAPSHOT_NAMES)?;
    release_name(&mut names, &record.name, id)?;
    transaction.open_table(UNFINISHED_SNAPSHOTS)?.remove(id)?;
    transaction.open_table(SNAPSHOTS_OF_VOLUME)?.remove((record.source.as_str(), id))?;
    transaction.open_table(SNAPSHOTS)?.remove(id)?;
    Ok(())
}

/// Releases a name, if this ID owns it.
fn release_name(
    names: &mut redb::Table<'_, &'static str, &'static str>,
    name: &str,
    id: &str,
) -> Result<(), CatalogError> {
    let is_owner = names.get(name)?.is_some_and(|owner| owner.value() == id);
    if is_owner {
        names.remove(name)?;
    }
    Ok(())
}
