//! The catalogue's snapshots and groups of them.
//!
//! A group and its members change in one transaction: there is never a group with some of them.

use redb::{ReadableTable as _, TableDefinition, WriteTransaction};

use super::records::{GroupRecord, SnapshotRecord, Stage};
use super::{Catalog, CatalogError, after, damaged, decode, encode};

const SNAPSHOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshots");
const SNAPSHOT_NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("snapshot-names");
const OF_VOLUME: TableDefinition<'_, (&str, &str), ()> = TableDefinition::new("snapshots-of");
const UNFINISHED: TableDefinition<'_, &str, ()> = TableDefinition::new("unfinished-snapshots");
const GROUPS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("groups");
const GROUP_NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("group-names");

/// Makes the tables, so that reading never finds one missing.
pub(super) fn make_tables(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    transaction.open_table(SNAPSHOTS)?;
    transaction.open_table(SNAPSHOT_NAMES)?;
    transaction.open_table(OF_VOLUME)?;
    transaction.open_table(UNFINISHED)?;
    transaction.open_table(GROUPS)?;
    transaction.open_table(GROUP_NAMES)?;
    Ok(())
}

/// One page of snapshots: those of a volume, or all.
pub(in crate::hostpath) struct SnapshotPage {
    pub(in crate::hostpath) snapshots: Vec<SnapshotRecord>,
    pub(in crate::hostpath) has_more: bool,
}

impl Catalog {
    /// The snapshot of that ID, whatever its stage.
    pub(in crate::hostpath) fn snapshot(
        &self,
        id: &str,
    ) -> Result<Option<SnapshotRecord>, CatalogError> {
        self.record(SNAPSHOTS, id)
    }

    /// The snapshot that holds that name.
    pub(in crate::hostpath) fn snapshot_named(
        &self,
        name: &str,
    ) -> Result<Option<SnapshotRecord>, CatalogError> {
        match self.text(SNAPSHOT_NAMES, name)? {
            Some(id) => self.snapshot(&id),
            None => Ok(None),
        }
    }

    /// The group of that ID, whatever its stage.
    pub(in crate::hostpath) fn group(&self, id: &str) -> Result<Option<GroupRecord>, CatalogError> {
        self.record(GROUPS, id)
    }

    /// The group that holds that name.
    pub(in crate::hostpath) fn group_named(
        &self,
        name: &str,
    ) -> Result<Option<GroupRecord>, CatalogError> {
        match self.text(GROUP_NAMES, name)? {
            Some(id) => self.group(&id),
            None => Ok(None),
        }
    }

    /// Up to `limit` ready snapshots with IDs after `after`, in order: all, or those of one volume.
    pub(in crate::hostpath) fn snapshot_page(
        &self,
        source: Option<&str>,
        start: Option<&str>,
        limit: usize,
    ) -> Result<SnapshotPage, CatalogError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.read(|transaction| {
            let table = transaction.open_table(SNAPSHOTS)?;
            let mut page = SnapshotPage {
                snapshots: vec![],
                has_more: false,
            };
            let mut take = |bytes: &[u8]| {
                let record: SnapshotRecord = decode(bytes)?;
                if record.stage != Stage::Ready {
                    return Ok(true);
                }
                page.has_more = page.snapshots.len() == limit;
                if !page.has_more {
                    page.snapshots.push(record);
                }
                Ok::<_, CatalogError>(!page.has_more)
            };
            if let Some(volume) = source {
                let index = transaction.open_table(OF_VOLUME)?;
                let end = after(volume);
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

    /// Snapshots whose cutting or removing was begun and not finished, and the groups of them.
    pub(in crate::hostpath) fn unfinished_snapshots(
        &self,
    ) -> Result<Vec<SnapshotRecord>, CatalogError> {
        self.read(|transaction| {
            let unfinished = transaction.open_table(UNFINISHED)?;
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

    /// Puts snapshots down, and the group they are of: `Creating` takes the names, `Deleting` gives
    /// them back.
    pub(in crate::hostpath) fn put_snapshots(
        &self,
        snapshots: &[SnapshotRecord],
        group: Option<&GroupRecord>,
    ) -> Result<(), CatalogError> {
        self.write(|transaction| {
            for record in snapshots {
                put_one(transaction, record)?;
            }
            let Some(group) = group else {
                return Ok(());
            };
            let mut names = transaction.open_table(GROUP_NAMES)?;
            match group.stage {
                Stage::Creating => drop(names.insert(group.name.as_str(), group.id.as_str())?),
                Stage::Ready => {}
                Stage::Deleting => drop(names.remove(group.name.as_str())?),
            }
            let bytes = encode(group)?;
            transaction
                .open_table(GROUPS)?
                .insert(group.id.as_str(), bytes.as_slice())?;
            Ok(())
        })
    }

    /// Removes snapshots, and the group they are of, with all that is remembered of them.
    pub(in crate::hostpath) fn forget_snapshots(
        &self,
        snapshots: &[SnapshotRecord],
        group: Option<&GroupRecord>,
    ) -> Result<(), CatalogError> {
        self.write(|transaction| {
            for record in snapshots {
                forget_one(transaction, record)?;
            }
            let Some(group) = group else {
                return Ok(());
            };
            let mut names = transaction.open_table(GROUP_NAMES)?;
            give_back(&mut names, &group.name, &group.id)?;
            transaction.open_table(GROUPS)?.remove(group.id.as_str())?;
            Ok(())
        })
    }
}

fn put_one(transaction: &WriteTransaction, record: &SnapshotRecord) -> Result<(), CatalogError> {
    let id = record.id.as_str();
    let mut unfinished = transaction.open_table(UNFINISHED)?;
    let mut names = transaction.open_table(SNAPSHOT_NAMES)?;
    // A member of a group has no name of its own.
    let is_named = !record.name.is_empty();
    match record.stage {
        Stage::Creating => {
            unfinished.insert(id, ())?;
            if is_named {
                names.insert(record.name.as_str(), id)?;
            }
        }
        Stage::Ready => drop(unfinished.remove(id)?),
        Stage::Deleting => {
            unfinished.insert(id, ())?;
            give_back(&mut names, &record.name, id)?;
        }
    }
    transaction
        .open_table(OF_VOLUME)?
        .insert((record.source.as_str(), id), ())?;
    let bytes = encode(record)?;
    transaction
        .open_table(SNAPSHOTS)?
        .insert(id, bytes.as_slice())?;
    Ok(())
}

fn forget_one(transaction: &WriteTransaction, record: &SnapshotRecord) -> Result<(), CatalogError> {
    let id = record.id.as_str();
    let mut names = transaction.open_table(SNAPSHOT_NAMES)?;
    give_back(&mut names, &record.name, id)?;
    transaction.open_table(UNFINISHED)?.remove(id)?;
    transaction
        .open_table(OF_VOLUME)?
        .remove((record.source.as_str(), id))?;
    transaction.open_table(SNAPSHOTS)?.remove(id)?;
    Ok(())
}

/// Frees a name, if it is that one's.
fn give_back(
    names: &mut redb::Table<'_, &'static str, &'static str>,
    name: &str,
    id: &str,
) -> Result<(), CatalogError> {
    let is_holder = names.get(name)?.is_some_and(|holder| holder.value() == id);
    if is_holder {
        names.remove(name)?;
    }
    Ok(())
}
