//! The rows of a journal that is not a file: events, and snapshots as sets of rows.
//!
//! A set is everything, or what changed since the set before. [`SnapshotRows`] composes a snapshot of the sets of a
//! chain, in their order: the last row of an object counts. Each row has the envelope of `codec`, so a row that was torn,
//! changed or moved is refused.

use std::collections::BTreeMap;

use super::codec::{CodecError, RecordKey};
use super::record_codec::{
    HEADER_TAG, SnapshotHeader, complete_snapshot, decode_header, decode_record, encode_header,
    encode_record, record_key,
};
use crate::journal::JournalErrorKind;
use nomad_csi_claims::state::{Event, SnapshotChanges, StateSnapshot};

/// A row cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RowError(#[from] CodecError);

impl RowError {
    /// Returns the kind of journal failure.
    pub fn kind(&self) -> JournalErrorKind {
        match self.0 {
            CodecError::TooNew { .. } => JournalErrorKind::TooNew,
            CodecError::Corrupt { .. }
            | CodecError::Undecodable { .. }
            | CodecError::Incomplete { .. } => JournalErrorKind::Damaged,
        }
    }
}

/// One row of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotRow {
    /// The tag of the object's table; that of the header is 0.
    pub table: u8,
    /// The first part of the object's key.
    pub group: String,
    /// The second part of the object's key.
    pub name: String,
    /// The row with its envelope.
    pub row: Vec<u8>,
}

/// Encodes the row of an event.
///
/// # Errors
/// If the event cannot be encoded.
pub fn encode_event_row(index: u64, event: &Event) -> Result<Vec<u8>, RowError> {
    Ok(super::codec::encode_event(index, event)?)
}

/// Decodes the row of an event.
///
/// # Errors
/// If the row is not that of this event, is damaged, or is of a later version.
pub fn decode_event_row(index: u64, row: &[u8]) -> Result<Event, RowError> {
    Ok(super::codec::decode_event(index, row)?)
}

/// Returns the rows of a set: its header, then one for each object.
pub fn snapshot_rows(
    changes: &SnapshotChanges,
) -> impl Iterator<Item = Result<SnapshotRow, RowError>> {
    let index = changes.numbers.index;
    let header =
        SnapshotHeader { numbers: changes.numbers.clone(), objects: changes.objects.clone() };
    let header = std::iter::once_with(move || {
        let row = encode_header(&header)?;
        Ok(SnapshotRow { table: HEADER_TAG, group: String::new(), name: String::new(), row })
    });
    let records = changes.records.iter().map(move |(subject, record)| {
        let key = record_key(subject, index);
        let row = encode_record(key.clone(), record.as_ref())?;
        Ok(SnapshotRow { table: key.table, group: key.group, name: key.name, row })
    });
    header.chain(records)
}

/// The rows of a chain of sets.
#[derive(Debug, Default)]
pub struct SnapshotRows {
    header: Option<SnapshotHeader>,
    rows: BTreeMap<(u8, String, String), (u64, Vec<u8>)>,
}

impl SnapshotRows {
    /// Adds a row of the set at `index`, which replaces an earlier row of the same object.
    ///
    /// # Errors
    /// If it is a header that cannot be decoded.
    pub fn add(&mut self, index: u64, row: SnapshotRow) -> Result<(), RowError> {
        let SnapshotRow { table, group, name, row } = row;
        if table == HEADER_TAG {
            self.header = Some(decode_header(index, &row)?);
            return Ok(());
        }
        self.rows.insert((table, group, name), (index, row));
        Ok(())
    }

    /// Returns the snapshot at the index of the last set.
    ///
    /// # Errors
    /// If a row is damaged or of a later version, or objects are missing.
    pub fn finish(self, index: u64) -> Result<StateSnapshot, RowError> {
        let mut records = vec![];
        for ((table, group, name), (index, row)) in self.rows {
            let key = RecordKey { table, group, name, index };
            records.extend(decode_record(key, &row)?);
        }
        Ok(complete_snapshot(self.header, records, index)?)
    }
}

#[cfg(test)]
mod tests;
