//! A snapshot of a volume at a provider.
//!
//! Servers do not store snapshots. Every fact about a snapshot comes from its provider.

use super::bytes::Bytes;
use super::id::{ExternalId, SnapshotId};

/// A snapshot as its provider reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The provider's ID of the snapshot.
    pub id: SnapshotId,
    /// The provider's ID of the volume of the snapshot.
    pub source: ExternalId,
    /// The minimum size of a volume created from the snapshot; zero if unknown.
    pub size: Bytes,
    /// The creation time in nanoseconds since the epoch; 0 if unknown.
    pub create_time: i64,
    /// True if a volume can be created from the snapshot now.
    pub is_ready: bool,
}
