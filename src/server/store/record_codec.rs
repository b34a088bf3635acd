//! The rows of snapshots: a header, and one row per object.
//!
//! The payload of an object that does not exist any more is empty. The numbers of tables never change.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codec::{
    CodecError, RecordKey, RowKey, add_envelope, check_envelope, decode, decode_payload, encode,
};
use nomad_csi_claims::state::{
    ObjectCounts, StateNumbers, StateSnapshot, StoredRecord, Subject, Table,
};
use nomad_csi_model::{AllocId, PluginId};

/// The tag of headers, which is that of no table.
pub(super) const HEADER_TAG: u8 = 0;

/// Everything in a snapshot except the objects.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotHeader {
    pub numbers: StateNumbers,
    pub objects: ObjectCounts,
}

/// Returns the key of an object in the snapshot at `index`.
pub(super) fn record_key(subject: &Subject, index: u64) -> RecordKey {
    let (table, group, name) = subject.place();
    RecordKey { table: tag(table), group: group.to_owned(), name: name.to_owned(), index }
}

fn tag(table: Table) -> u8 {
    match table {
        Table::Nodes => 1,
        Table::Plugins => 2,
        Table::Variables => 3,
        Table::Volumes => 4,
        Table::Claims => 5,
        Table::Allocs => 6,
        Table::Jobs => 7,
        Table::Namespaces => 8,
        Table::Acl => 9,
    }
}

fn table(tag: u8) -> Option<Table> {
    [
        Table::Nodes,
        Table::Plugins,
        Table::Variables,
        Table::Volumes,
        Table::Claims,
        Table::Allocs,
        Table::Jobs,
        Table::Namespaces,
        Table::Acl,
    ]
    .into_iter()
    .find(|table| self::tag(*table) == tag)
}

pub(super) fn encode_header(header: &SnapshotHeader) -> Result<Vec<u8>, CodecError> {
    let index = header.numbers.index;
    encode(&RowKey::SnapshotHeader { index }, header)
}

pub(super) fn decode_header(index: u64, row: &[u8]) -> Result<SnapshotHeader, CodecError> {
    decode(&RowKey::SnapshotHeader { index }, row)
}

/// Encodes the row of an object; `None` if it does not exist.
pub(super) fn encode_record(
    key: RecordKey,
    record: Option<&StoredRecord>,
) -> Result<Vec<u8>, CodecError> {
    let key = RowKey::Record(key);
    match record {
        None => Ok(add_envelope(&key, &[])),
        Some(StoredRecord::Acl(record)) => encode(&key, &**record),
        Some(StoredRecord::Alloc(_, record)) => encode(&key, record),
        Some(StoredRecord::Claims(record)) => encode(&key, &**record),
        Some(StoredRecord::Job(record)) => encode(&key, &**record),
        Some(StoredRecord::Namespace(record)) => encode(&key, &**record),
        Some(StoredRecord::Node(node)) => encode(&key, &**node),
        Some(StoredRecord::Plugin(_, record)) => encode(&key, record),
        Some(StoredRecord::Variable(record)) => encode(&key, &**record),
        Some(StoredRecord::Volume(record)) => encode(&key, &**record),
    }
}

/// Decodes the row of an object; `None` if it does not exist.
pub(super) fn decode_record(
    key: RecordKey,
    row: &[u8],
) -> Result<Option<StoredRecord>, CodecError> {
    let (tag, name) = (key.table, key.name.clone());
    let key = RowKey::Record(key);
    let payload = check_envelope(&key, row)?;
    if payload.is_empty() {
        return Ok(None);
    }
    let Some(table) = table(tag) else {
        return Err(CodecError::Corrupt { what: key });
    };
    let record = match table {
        Table::Acl => StoredRecord::Acl(Arc::new(decode_payload(&key, payload)?)),
        Table::Allocs => StoredRecord::Alloc(AllocId::new(name), decode_payload(&key, payload)?),
        Table::Claims => StoredRecord::Claims(Arc::new(decode_payload(&key, payload)?)),
        Table::Jobs => StoredRecord::Job(Arc::new(decode_payload(&key, payload)?)),
        Table::Namespaces => StoredRecord::Namespace(Arc::new(decode_payload(&key, payload)?)),
        Table::Nodes => StoredRecord::Node(Box::new(decode_payload(&key, payload)?)),
        Table::Plugins => StoredRecord::Plugin(PluginId::new(name), decode_payload(&key, payload)?),
        Table::Variables => StoredRecord::Variable(Arc::new(decode_payload(&key, payload)?)),
        Table::Volumes => StoredRecord::Volume(Arc::new(decode_payload(&key, payload)?)),
    };
    Ok(Some(record))
}

/// Returns the snapshot at `index` that these objects are, sorted by table and key.
///
/// # Errors
/// If they are not as many as its header says.
pub(super) fn complete_snapshot(
    header: Option<SnapshotHeader>,
    records: Vec<StoredRecord>,
    index: u64,
) -> Result<StateSnapshot, CodecError> {
    let header = header.filter(|header| header.numbers.index == index);
    let header = header.ok_or(CodecError::Incomplete { index })?;
    let mut objects = ObjectCounts::new();
    for record in &records {
        *objects.entry(record.subject().place().0).or_default() += 1;
    }
    if objects != header.objects {
        return Err(CodecError::Incomplete { index });
    }
    Ok(StateSnapshot { numbers: header.numbers, records })
}

#[cfg(test)]
mod tests;
