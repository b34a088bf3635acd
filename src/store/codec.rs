//! The encoding of events and snapshots, with verification on read.
//!
//! Each row has an envelope that never changes: one byte for its kind, two for the version of its
//! payload, eight bytes of SHA-256 over all of it and its key. A torn, changed or moved row is
//! therefore distinct from a row of a later version. Neither is read.
//!
//! **Compatibility.** The meaning of a version never changes. A new kind of event, field or meaning
//! raises the version. Lower versions stay readable. Higher versions are refused with both numbers,
//! because a partial read could lose data.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::{AllocId, Node, NodeId, PluginId};
use crate::state::{
    AllocRecord, ClaimsRecord, Event, NodeLoss, PluginRecord, State, StateSnapshot, VariableRecord,
    VolumeRecord,
};

/// The version of events that this program writes, and the highest that it reads. Version 2 adds
/// variables; version 3 adds sealed mount flags and expansions; version 4 adds allocations of plugins, claims,
/// and lost nodes.
pub const EVENT_VERSION: u16 = 4;
/// The version of snapshots that this program writes, and the highest that it reads. Version 2 adds
/// variables; version 3 adds expansions and sealed mount flags, except flags from earlier versions;
/// version 4 has plugins by allocation instead of by node.
pub const SNAPSHOT_VERSION: u16 = 4;

/// The approximate size of a snapshot part, small enough not to delay an append.
const PART_BYTES: usize = 1 << 20;
const ENVELOPE: usize = 11;

/// Stored bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// A later version of this program wrote the row.
    #[error("{what} has version {found}, and this program reads versions up to {known}")]
    TooNew {
        what: RowKey,
        found: u16,
        known: u16,
    },
    /// Another program wrote the row, or it is incomplete, or it was changed.
    #[error("{what} is incomplete or was changed after it was written")]
    Corrupt { what: RowKey },
    /// The row is intact but cannot be decoded.
    #[error("cannot decode {what}")]
    Undecodable {
        what: RowKey,
        #[source]
        source: serde_json::Error,
    },
    /// Parts of a snapshot are missing.
    #[error("snapshot {index} is incomplete")]
    Incomplete { index: u64 },
}

/// The key of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowKey {
    Event { index: u64 },
    SnapshotPart { index: u64, part: u64 },
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event { index } => write!(f, "event {index}"),
            Self::SnapshotPart { index, part } => write!(f, "part {part} of snapshot {index}"),
        }
    }
}

impl RowKey {
    fn kind(self) -> u8 {
        match self {
            Self::Event { .. } => b'E',
            Self::SnapshotPart { .. } => b'S',
        }
    }

    fn version(self) -> u16 {
        match self {
            Self::Event { .. } => EVENT_VERSION,
            Self::SnapshotPart { .. } => SNAPSHOT_VERSION,
        }
    }

    fn checksum(self, version: u16, payload: &[u8]) -> [u8; 8] {
        let (index, part) = match self {
            Self::Event { index } => (index, 0),
            Self::SnapshotPart { index, part } => (index, part),
        };
        let mut hash = Sha256::new();
        hash.update([self.kind()]);
        hash.update(version.to_be_bytes());
        hash.update(index.to_be_bytes());
        hash.update(part.to_be_bytes());
        hash.update(payload);
        let digest = hash.finalize();
        std::array::from_fn(|at| digest[at])
    }
}

/// Encodes the row of an event.
pub(super) fn encode_event(index: u64, event: &Event) -> Result<Vec<u8>, CodecError> {
    encode(RowKey::Event { index }, event)
}

/// Decodes the row of an event.
pub(super) fn decode_event(index: u64, row: &[u8]) -> Result<Event, CodecError> {
    decode(RowKey::Event { index }, row)
}

/// The first part of a snapshot: everything except volumes and variables. Parts with volumes follow,
/// then parts with variables.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SnapshotHeader {
    origin: String,
    volumes_index: u64,
    plugins_index: u64,
    plugins: Vec<(PluginId, PluginRecord)>,
    nodes: Vec<Node>,
    volumes: usize,
    #[serde(default = "first_index")]
    variables_index: u64,
    #[serde(default)]
    variables: usize,
    #[serde(default)]
    boots: BTreeMap<NodeId, String>,
    #[serde(default)]
    losses: BTreeMap<NodeId, NodeLoss>,
    #[serde(default = "first_index")]
    nodes_index: u64,
    #[serde(default)]
    claims: Vec<ClaimsRecord>,
    #[serde(default = "first_index")]
    claims_index: u64,
    #[serde(default)]
    allocs: BTreeMap<AllocId, AllocRecord>,
    #[serde(default = "first_index")]
    allocs_index: u64,
}

/// The index of a table that an earlier version did not have.
fn first_index() -> u64 {
    State::FIRST_INDEX
}

/// Encodes a snapshot as an iterator of parts.
pub(super) fn encode_snapshot(
    snapshot: &StateSnapshot,
) -> impl Iterator<Item = Result<Vec<u8>, CodecError>> {
    let place = |part| RowKey::SnapshotPart {
        index: snapshot.index,
        part,
    };
    let plugins = snapshot.plugins.iter();
    let head = SnapshotHeader {
        origin: snapshot.origin.clone(),
        volumes_index: snapshot.volumes_index,
        plugins_index: snapshot.plugins_index,
        plugins: plugins.map(|(id, p)| (id.clone(), p.clone())).collect(),
        nodes: snapshot.nodes.clone(),
        volumes: snapshot.volumes.len(),
        variables_index: snapshot.variables_index,
        variables: snapshot.variables.len(),
        boots: snapshot.boots.clone(),
        losses: snapshot.losses.clone(),
        nodes_index: snapshot.nodes_index,
        claims: snapshot
            .claims
            .iter()
            .map(|record| ClaimsRecord::clone(record))
            .collect(),
        claims_index: snapshot.claims_index,
        allocs: snapshot.allocs.clone(),
        allocs_index: snapshot.allocs_index,
    };
    let mut volumes = snapshot.volumes.as_slice();
    let mut variables = snapshot.variables.as_slice();
    let mut part = 0;
    let records = std::iter::from_fn(move || {
        part += 1;
        if !volumes.is_empty() {
            return Some(encode_records(place(part), &mut volumes));
        }
        (!variables.is_empty()).then(|| encode_records(place(part), &mut variables))
    });
    std::iter::once_with(move || encode(place(0), &head)).chain(records)
}

/// Encodes as many of `rest` as fit in a part, at least one, as one JSON document per line.
fn encode_records<T: Serialize>(
    place: RowKey,
    rest: &mut &[Arc<T>],
) -> Result<Vec<u8>, CodecError> {
    let mut payload = Vec::with_capacity(PART_BYTES + PART_BYTES / 8);
    while let Some((first, others)) = rest.split_first() {
        if payload.len() >= PART_BYTES {
            break;
        }
        serde_json::to_writer(&mut payload, &**first).map_err(|source| {
            CodecError::Undecodable {
                what: place,
                source,
            }
        })?;
        payload.push(b'\n');
        *rest = others;
    }
    Ok(add_envelope(place, &payload))
}

/// Decodes the parts of the snapshot at `index`.
pub(super) fn decode_snapshot<R: AsRef<[u8]>>(
    index: u64,
    parts: impl IntoIterator<Item = R>,
) -> Result<StateSnapshot, CodecError> {
    let mut parts = (0..).zip(parts);
    let place = |part| RowKey::SnapshotPart { index, part };
    let (_, first) = parts.next().ok_or(CodecError::Incomplete { index })?;
    let head: SnapshotHeader = decode(place(0), first.as_ref())?;
    let mut volumes: Vec<Arc<VolumeRecord>> = Vec::new();
    let mut variables: Vec<Arc<VariableRecord>> = Vec::new();
    for (part, row) in parts {
        let what = place(part);
        let payload = check_envelope(what, row.as_ref())?;
        if volumes.len() < head.volumes {
            decode_records(what, payload, &mut volumes)?;
        } else {
            decode_records(what, payload, &mut variables)?;
        }
    }
    if volumes.len() != head.volumes || variables.len() != head.variables {
        return Err(CodecError::Incomplete { index });
    }
    Ok(StateSnapshot {
        index,
        origin: head.origin,
        volumes_index: head.volumes_index,
        plugins_index: head.plugins_index,
        volumes,
        plugins: head.plugins.into_iter().collect(),
        nodes: head.nodes,
        boots: head.boots,
        losses: head.losses,
        nodes_index: head.nodes_index,
        claims: head.claims.into_iter().map(Arc::new).collect(),
        claims_index: head.claims_index,
        allocs: head.allocs,
        allocs_index: head.allocs_index,
        variables_index: head.variables_index,
        variables,
    })
}

fn decode_records<T: DeserializeOwned>(
    what: RowKey,
    payload: &[u8],
    records: &mut Vec<Arc<T>>,
) -> Result<(), CodecError> {
    for record in serde_json::Deserializer::from_slice(payload).into_iter::<T>() {
        let record = record.map_err(|source| CodecError::Undecodable { what, source })?;
        records.push(Arc::new(record));
    }
    Ok(())
}

fn encode(place: RowKey, value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let payload = serde_json::to_vec(value).map_err(|source| CodecError::Undecodable {
        what: place,
        source,
    })?;
    Ok(add_envelope(place, &payload))
}

fn add_envelope(place: RowKey, payload: &[u8]) -> Vec<u8> {
    let version = place.version();
    let mut row = Vec::with_capacity(ENVELOPE + payload.len());
    row.push(place.kind());
    row.extend(version.to_be_bytes());
    row.extend(place.checksum(version, payload));
    row.extend(payload);
    row
}

fn decode<T: DeserializeOwned>(place: RowKey, row: &[u8]) -> Result<T, CodecError> {
    let payload = check_envelope(place, row)?;
    serde_json::from_slice(payload).map_err(|source| CodecError::Undecodable {
        what: place,
        source,
    })
}

fn check_envelope(what: RowKey, row: &[u8]) -> Result<&[u8], CodecError> {
    let Some((envelope, payload)) = row.split_first_chunk::<ENVELOPE>() else {
        return Err(CodecError::Corrupt { what });
    };
    let [kind, high, low, seal @ ..] = envelope;
    let found = u16::from_be_bytes([*high, *low]);
    if *kind != what.kind() || *seal != what.checksum(found, payload) {
        return Err(CodecError::Corrupt { what });
    }
    let known = what.version();
    if found > known {
        return Err(CodecError::TooNew { what, found, known });
    }
    Ok(payload)
}

#[cfg(test)]
mod tests;
