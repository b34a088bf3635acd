//! The encoding of rows, with verification on read.
//!
//! Each row has an envelope that never changes: one byte for its kind, two for the version of its
//! payload, eight bytes of SHA-256 over all of it and its key. A torn, changed or moved row is
//! therefore distinct from a row of a later version. Neither is read.
//!
//! **Compatibility.** The meaning of a version never changes. A new kind of event, field or meaning
//! raises the version. Lower versions stay readable. Higher versions are refused with both numbers,
//! because a partial read could lose data.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};

use nomad_csi_claims::state::Event;

/// The version of events that this program writes, and the highest that it reads. Version 2 adds
/// variables; version 3 adds sealed mount flags and expansions; version 4 adds allocations of plugins, claims,
/// and lost nodes; version 5 adds jobs, placed allocations, and drivers of nodes; version 6 adds namespaces and
/// the host volumes of nodes; version 7 adds rotations of the key, and system jobs that stay on a node;
/// version 8 adds the earlier requests of a creation, what a step sends, the registration whose claims a forced deregistration releases, mounts
/// that vanished, and `meta` and `reschedule` of jobs; version 9 adds leaders, the sessions and
/// secrets of nodes, and the requests of intents; version 10 adds nodes that are not connected; version 11 adds how many
/// earlier versions of a job are kept; version 12 adds the ACL.
pub const EVENT_VERSION: u16 = 12;
/// The version of snapshots that this program writes, and the highest that it reads. Version 2 adds
/// variables; version 3 adds expansions and sealed mount flags, except flags from earlier versions;
/// version 4 has plugins by allocation instead of by node; version 5 has one row per object
/// (`record_codec`) instead of parts; version 6 adds jobs and placed allocations; version 7 adds namespaces and the
/// host volumes of nodes; version 8 adds system jobs that stay on a node; version 9 adds what steps of claims send,
/// the earlier requests of a creation, and a tombstone for each registration that is gone; version 10 adds the sessions and
/// secrets of nodes, and the requests of intents; version 11 adds when a node got its status; version 12 adds
/// earlier versions of jobs; version 13 adds the ACL.
pub const SNAPSHOT_VERSION: u16 = 13;
/// The last version of snapshots in parts. This program only reads them.
const LAST_PARTS_VERSION: u16 = 4;

const ENVELOPE: usize = 11;

/// Stored bytes cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// A later version of this program wrote the row.
    #[error("{what} has version {found}, and this program reads versions up to {known}")]
    TooNew { what: RowKey, found: u16, known: u16 },
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
    /// Parts or objects of a snapshot are missing.
    #[error("snapshot {index} is incomplete")]
    Incomplete { index: u64 },
}

/// The key of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowKey {
    Event { index: u64 },
    SnapshotPart { index: u64, part: u64 },
    SnapshotHeader { index: u64 },
    Record(RecordKey),
}

/// The key of an object's row: the tag of its table, the two parts of its key, and the index of the
/// snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey {
    pub table: u8,
    pub group: String,
    pub name: String,
    pub index: u64,
}

impl std::fmt::Display for RowKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Event { index } => write!(f, "event {index}"),
            Self::SnapshotPart { index, part } => write!(f, "part {part} of snapshot {index}"),
            Self::SnapshotHeader { index } => write!(f, "the header of snapshot {index}"),
            Self::Record(RecordKey { group, name, index, .. }) => {
                write!(f, "record `{group}` `{name}` of snapshot {index}")
            }
        }
    }
}

impl RowKey {
    fn kind(&self) -> u8 {
        match self {
            Self::Event { .. } => b'E',
            Self::SnapshotPart { .. } => b'S',
            Self::SnapshotHeader { .. } => b'H',
            Self::Record(_) => b'R',
        }
    }

    fn version(&self) -> u16 {
        match self {
            Self::Event { .. } => EVENT_VERSION,
            Self::SnapshotPart { .. } => LAST_PARTS_VERSION,
            Self::SnapshotHeader { .. } | Self::Record(_) => SNAPSHOT_VERSION,
        }
    }

    fn checksum(&self, version: u16, payload: &[u8]) -> [u8; 8] {
        let (index, part) = match self {
            Self::Event { index } | Self::SnapshotHeader { index } => (*index, 0),
            Self::SnapshotPart { index, part } => (*index, *part),
            Self::Record(key) => (key.index, u64::from(key.table)),
        };
        let mut hash = Sha256::new();
        hash.update([self.kind()]);
        hash.update(version.to_be_bytes());
        hash.update(index.to_be_bytes());
        hash.update(part.to_be_bytes());
        if let Self::Record(key) = self {
            for text in [&key.group, &key.name] {
                hash.update(text.len().to_be_bytes());
                hash.update(text);
            }
        }
        hash.update(payload);
        let digest = hash.finalize();
        std::array::from_fn(|at| digest[at])
    }
}

/// Encodes the row of an event.
pub(super) fn encode_event(index: u64, event: &Event) -> Result<Vec<u8>, CodecError> {
    encode(&RowKey::Event { index }, event)
}

/// Decodes the row of an event.
pub(super) fn decode_event(index: u64, row: &[u8]) -> Result<Event, CodecError> {
    decode(&RowKey::Event { index }, row)
}

pub(super) fn encode(place: &RowKey, value: &impl Serialize) -> Result<Vec<u8>, CodecError> {
    let payload = serde_json::to_vec(value)
        .map_err(|source| CodecError::Undecodable { what: place.clone(), source })?;
    Ok(add_envelope(place, &payload))
}

pub(super) fn add_envelope(place: &RowKey, payload: &[u8]) -> Vec<u8> {
    let version = place.version();
    let mut row = Vec::with_capacity(ENVELOPE + payload.len());
    row.push(place.kind());
    row.extend(version.to_be_bytes());
    row.extend(place.checksum(version, payload));
    row.extend(payload);
    row
}

pub(super) fn decode<T: DeserializeOwned>(place: &RowKey, row: &[u8]) -> Result<T, CodecError> {
    decode_payload(place, check_envelope(place, row)?)
}

pub(super) fn decode_payload<T: DeserializeOwned>(
    place: &RowKey,
    payload: &[u8],
) -> Result<T, CodecError> {
    serde_json::from_slice(payload)
        .map_err(|source| CodecError::Undecodable { what: place.clone(), source })
}

/// Returns the payload of an intact row.
pub(super) fn check_envelope<'a>(what: &RowKey, row: &'a [u8]) -> Result<&'a [u8], CodecError> {
    let corrupt = || CodecError::Corrupt { what: what.clone() };
    let (envelope, payload) = row.split_first_chunk::<ENVELOPE>().ok_or_else(corrupt)?;
    let [kind, high, low, seal @ ..] = envelope;
    let found = u16::from_be_bytes([*high, *low]);
    if *kind != what.kind() || *seal != what.checksum(found, payload) {
        return Err(corrupt());
    }
    let known = what.version();
    if found > known {
        let what = what.clone();
        return Err(CodecError::TooNew { what, found, known });
    }
    Ok(payload)
}

#[cfg(test)]
pub(super) mod tests;
