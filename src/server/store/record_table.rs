//! The table of snapshot rows.
//!
//! An object has a row for each snapshot in which it changed, under the index of the snapshot. The
//! active snapshot consists of the last row of each object up to its index, and of the rows since the
//! last complete snapshot. Rows with a higher index belong to a snapshot that was not finished. So a
//! snapshot is written in any number of transactions, becomes active with one, and after a crash the
//! replay begins exactly at its index.
//!
//! An unfinished snapshot is harmless for later ones, also before its rows are removed: a later
//! snapshot has rows for every object that changed since the active one.

use redb::{ReadOnlyTable, ReadableTable as _, Table, TableDefinition};

use super::codec::{CodecError, RecordKey};
use super::failure::Failure;
use super::record_codec::{
    HEADER_TAG as HEADER, SnapshotHeader, complete_snapshot, decode_header, decode_record,
    encode_header, encode_record, record_key,
};
use nomad_csi_claims::state::{StateSnapshot, StoredRecord, Subject};

/// The tag of the object's table, the two parts of its key, and the index of the snapshot.
type Key = (u8, &'static str, &'static str, u64);
pub(super) type RecordTable<'a> = Table<'a, Key, &'static [u8]>;
pub(super) const RECORDS: TableDefinition<Key, &[u8]> = TableDefinition::new("records");

/// The most rows in one transaction, so that an append does not wait long for it.
pub(super) const ROWS_PER_TRANSACTION: usize = 128;
/// The bytes after which a transaction takes no more rows.
const BYTES_PER_TRANSACTION: usize = 512 << 10;

/// An object with its data; `None` if it does not exist any more.
type Changed = (Subject, Option<StoredRecord>);

/// Writes the first of these objects into the snapshot at `index`. Returns how many.
pub(super) fn write_some(
    table: &mut RecordTable<'_>,
    index: u64,
    records: &[Changed],
) -> Result<usize, Failure> {
    let (mut written, mut bytes) = (0, 0);
    for (subject, record) in records.iter().take(ROWS_PER_TRANSACTION) {
        let key = record_key(subject, index);
        let row = encode_record(key.clone(), record.as_ref())?;
        table.insert(borrowed(&key), row.as_slice())?;
        written += 1;
        bytes += row.len();
        if bytes >= BYTES_PER_TRANSACTION {
            break;
        }
    }
    Ok(written)
}

/// Writes the header of a snapshot.
pub(super) fn write_header(
    table: &mut RecordTable<'_>,
    header: &SnapshotHeader,
) -> Result<(), Failure> {
    let row = encode_header(header)?;
    table.insert((HEADER, "", "", header.numbers.index), row.as_slice())?;
    Ok(())
}

/// Removes the rows of these objects that the active snapshot at `index` replaced.
pub(super) fn remove_superseded(
    table: &mut RecordTable<'_>,
    index: u64,
    records: &[Changed],
) -> Result<(), Failure> {
    table.retain_in((HEADER, "", "", 0)..(HEADER, "", "", index), |_, _| false)?;
    for (subject, record) in records {
        let RecordKey { table: tag, group, name, .. } = record_key(subject, index);
        let (group, name) = (group.as_str(), name.as_str());
        let end = match record {
            Some(_) => index,
            None => index + 1,
        };
        table.retain_in((tag, group, name, 0)..(tag, group, name, end), |_, _| false)?;
    }
    Ok(())
}

/// Removes these rows.
pub(super) fn remove_rows(table: &mut RecordTable<'_>, keys: &[RecordKey]) -> Result<(), Failure> {
    for key in keys {
        table.remove(borrowed(key))?;
    }
    Ok(())
}

fn borrowed(key: &RecordKey) -> (u8, &str, &str, u64) {
    (key.table, &key.group, &key.name, key.index)
}

/// The active snapshot, and the rows that do not belong to it.
pub(super) struct LoadedRecords {
    pub snapshot: StateSnapshot,
    /// In the order in which they can be removed one by one.
    pub leftovers: Vec<RecordKey>,
}

/// Reads the snapshot at `index` from the rows since the complete snapshot at `base`.
pub(super) fn load_records(
    table: &ReadOnlyTable<Key, &'static [u8]>,
    base: u64,
    index: u64,
) -> Result<LoadedRecords, Failure> {
    let mut loader = Loader::default();
    for row in table.iter()? {
        let (key, row) = row?;
        let (table, group, name, at) = key.value();
        let key = RecordKey { table, group: group.to_owned(), name: name.to_owned(), index: at };
        match (base..=index).contains(&at) {
            true => loader.add(key, row.value())?,
            false => loader.leftovers.push(key),
        }
    }
    loader.finish(index)
}

#[derive(Default)]
struct Loader {
    header: Option<SnapshotHeader>,
    records: Vec<StoredRecord>,
    leftovers: Vec<RecordKey>,
    /// The last row so far, which a later one of the same object would replace.
    last: Option<(RecordKey, Vec<u8>)>,
}

impl Loader {
    fn add(&mut self, key: RecordKey, row: &[u8]) -> Result<(), CodecError> {
        let next = (key, row.to_vec());
        match self.last.replace(next) {
            Some((last, row)) if !self.is_same_object(&last) => self.keep(last, &row),
            Some((replaced, _)) => {
                self.leftovers.push(replaced);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn is_same_object(&self, key: &RecordKey) -> bool {
        let object = |key: &RecordKey| (key.table, key.group.clone(), key.name.clone());
        self.last.as_ref().is_some_and(|(last, _)| object(last) == object(key))
    }

    fn keep(&mut self, key: RecordKey, row: &[u8]) -> Result<(), CodecError> {
        if key.table == HEADER {
            self.header = Some(decode_header(key.index, row)?);
            return Ok(());
        }
        match decode_record(key.clone(), row)? {
            Some(record) => self.records.push(record),
            None => self.leftovers.push(key),
        }
        Ok(())
    }

    fn finish(mut self, index: u64) -> Result<LoadedRecords, Failure> {
        if let Some((last, row)) = self.last.take() {
            self.keep(last, &row)?;
        }
        let snapshot = complete_snapshot(self.header, self.records, index)?;
        Ok(LoadedRecords { snapshot, leftovers: self.leftovers })
    }
}
