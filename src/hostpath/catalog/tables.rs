//! The tables of the catalogue. Their names are stored: they never change.

use redb::{TableDefinition, WriteTransaction};

pub(super) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
pub(super) const VOLUMES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("volumes");
pub(super) const NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("names");
pub(super) const UNFINISHED: TableDefinition<'_, &str, ()> = TableDefinition::new("unfinished");
pub(super) const PATHS: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("places");
pub(super) const SNAPSHOTS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshots");
pub(super) const SNAPSHOT_NAMES: TableDefinition<'_, &str, &str> =
    TableDefinition::new("snapshot-names");
pub(super) const SNAPSHOTS_OF_VOLUME: TableDefinition<'_, (&str, &str), ()> =
    TableDefinition::new("snapshots-of");
pub(super) const UNFINISHED_SNAPSHOTS: TableDefinition<'_, &str, ()> =
    TableDefinition::new("unfinished-snapshots");
pub(super) const GROUPS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("groups");
pub(super) const GROUP_NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("group-names");

/// Creates every table, so that a read never finds one missing.
pub(super) fn create_all(transaction: &WriteTransaction) -> Result<(), redb::TableError> {
    transaction.open_table(VOLUMES)?;
    transaction.open_table(NAMES)?;
    transaction.open_table(UNFINISHED)?;
    transaction.open_table(PATHS)?;
    transaction.open_table(SNAPSHOTS)?;
    transaction.open_table(SNAPSHOT_NAMES)?;
    transaction.open_table(SNAPSHOTS_OF_VOLUME)?;
    transaction.open_table(UNFINISHED_SNAPSHOTS)?;
    transaction.open_table(GROUPS)?;
    transaction.open_table(GROUP_NAMES)?;
    Ok(())
}
