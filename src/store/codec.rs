//! Events and snapshots to bytes, and back with suspicion.
//!
//! Each row has an envelope that never changes: one byte for its kind, two for the version of what is
//! inside, eight of SHA-256 over all of it and its place. So a row that was torn, changed, or put in
//! another place is told from one that a later version wrote, and neither is read.
//!
//! **Compatibility.** What a version means never changes. A new kind of event, a new field or a new
//! meaning raises the version; a version that is lower than the newest stays readable; one that is
//! higher is refused with both numbers, because reading half of it could lose the other half.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::model::{Node, PluginId};
use crate::state::{Event, PluginRecord, State, StateSnapshot, VariableRecord, VolumeRecord};

/// The version of events that this program writes, and the newest that it reads. 2 has variables; since
/// 3 mount flags are sealed, and expansions are on record.
pub const EVENT_VERSION: u16 = 3;
/// The version of snapshots that this program writes, and the newest that it reads. 2 has variables;
/// since 3 mount flags are sealed, but for those that were read out of earlier ones, and expansions are
/// on record.
pub const SNAPSHOT_VERSION: u16 = 3;

/// Snapshots are cut into parts of about this size, so that none of them holds up an append.
const PART_BYTES: usize = 1 << 20;
const ENVELOPE: usize = 11;

/// Bytes are not what they are said to be.
#[derive(Debug, thiserror::Error)]
pub(super) enum CodecError {
    /// A later version wrote it.
    #[error("{what} was written in version {found}, and this program reads up to version {known}")]
    TooNew { what: Place, found: u16, known: u16 },
    /// It was not written by this program at this place, or not to its end, or it has changed.
    #[error("{what} is torn or has changed since it was written")]
    Changed { what: Place },
    /// It is as it was written, and makes no sense all the same.
    #[error("{what} cannot be understood")]
    Meaningless {
        what: Place,
        #[source]
        source: serde_json::Error,
    },
    /// Parts do not make a whole.
    #[error("snapshot {index} is incomplete")]
    Incomplete { index: u64 },
}

/// Where bytes stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Event { index: u64 },
    SnapshotPart { index: u64, part: u64 },
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event { index } => write!(f, "event {index}"),
            Self::SnapshotPart { index, part } => write!(f, "part {part} of snapshot {index}"),
        }
    }
}

impl Place {
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

    fn seal(self, version: u16, payload: &[u8]) -> [u8; 8] {
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

/// An event as its row at `index`.
pub(super) fn encode_event(index: u64, event: &Event) -> Result<Vec<u8>, CodecError> {
    encode(Place::Event { index }, event)
}

/// The event that stands at `index`.
pub(super) fn decode_event(index: u64, row: &[u8]) -> Result<Event, CodecError> {
    decode(Place::Event { index }, row)
}

/// What a snapshot holds besides volumes and variables: its first part. The volumes follow, some in
/// each part, then the variables likewise.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
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
}

/// Of a snapshot that was taken before there were variables.
fn first_index() -> u64 {
    State::FIRST_INDEX
}

/// A snapshot's parts, in order; each is made when it is asked for.
pub(super) fn encode_snapshot(
    snapshot: &StateSnapshot,
) -> impl Iterator<Item = Result<Vec<u8>, CodecError>> {
    let place = |part| Place::SnapshotPart {
        index: snapshot.index,
        part,
    };
    let plugins = snapshot.plugins.iter();
    let head = Head {
        origin: snapshot.origin.clone(),
        volumes_index: snapshot.volumes_index,
        plugins_index: snapshot.plugins_index,
        plugins: plugins.map(|(id, p)| (id.clone(), p.clone())).collect(),
        nodes: snapshot.nodes.clone(),
        volumes: snapshot.volumes.len(),
        variables_index: snapshot.variables_index,
        variables: snapshot.variables.len(),
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

/// As many of `rest` as fit in a part, one document a line; at least one.
fn encode_records<T: Serialize>(place: Place, rest: &mut &[Arc<T>]) -> Result<Vec<u8>, CodecError> {
    let mut payload = Vec::with_capacity(PART_BYTES + PART_BYTES / 8);
    while let Some((first, others)) = rest.split_first() {
        if payload.len() >= PART_BYTES {
            break;
        }
        serde_json::to_writer(&mut payload, &**first).map_err(|source| {
            CodecError::Meaningless {
                what: place,
                source,
            }
        })?;
        payload.push(b'\n');
        *rest = others;
    }
    Ok(enclose(place, &payload))
}

/// The snapshot that was taken at `index`.
pub(super) fn decode_snapshot<R: AsRef<[u8]>>(
    index: u64,
    parts: impl IntoIterator<Item = R>,
) -> Result<StateSnapshot, CodecError> {
    let mut parts = (0..).zip(parts);
    let place = |part| Place::SnapshotPart { index, part };
    let (_, first) = parts.next().ok_or(CodecError::Incomplete { index })?;
    let head: Head = decode(place(0), first.as_ref())?;
    let mut volumes: Vec<Arc<VolumeRecord>> = Vec::new();
    let mut variables: Vec<Arc<VariableRecord>> = Vec::new();
    for (part, row) in parts {
        let what = place(part);
        let payload = open(what, row.as_ref())?;
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
        variables_index: head.variables_index,
        variables,
    })
}

fn decode_records<T: DeserializeOwned>(
    what: Place,
    payload: &[u8],
    records: &mut Vec<Arc<T>>,
) -> Result<(), CodecError> {
    for record in serde_json::Deserializer::from_slice(payload).into_iter::<T>() {
        let record = record.map_err(|source| CodecError::Meaningless { what, source })?;
        records.push(Arc::new(record));
    }
    Ok(())
}

fn encode(place: Place, value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let payload = serde_json::to_vec(value).map_err(|source| CodecError::Meaningless {
        what: place,
        source,
    })?;
    Ok(enclose(place, &payload))
}

fn enclose(place: Place, payload: &[u8]) -> Vec<u8> {
    let version = place.version();
    let mut row = Vec::with_capacity(ENVELOPE + payload.len());
    row.push(place.kind());
    row.extend(version.to_be_bytes());
    row.extend(place.seal(version, payload));
    row.extend(payload);
    row
}

fn decode<T: DeserializeOwned>(place: Place, row: &[u8]) -> Result<T, CodecError> {
    let payload = open(place, row)?;
    serde_json::from_slice(payload).map_err(|source| CodecError::Meaningless {
        what: place,
        source,
    })
}

fn open(what: Place, row: &[u8]) -> Result<&[u8], CodecError> {
    let Some((envelope, payload)) = row.split_first_chunk::<ENVELOPE>() else {
        return Err(CodecError::Changed { what });
    };
    let [kind, high, low, seal @ ..] = envelope;
    let found = u16::from_be_bytes([*high, *low]);
    if *kind != what.kind() || *seal != what.seal(found, payload) {
        return Err(CodecError::Changed { what });
    }
    let known = what.version();
    if found > known {
        return Err(CodecError::TooNew { what, found, known });
    }
    Ok(payload)
}

#[cfg(test)]
mod tests;
