//! A snapshot: a provider's copy of a volume at one moment.
//!
//! No server remembers snapshots; what is known of one is what its provider says
//! (`nomad-http-api` 3.10).

use super::bytes::Bytes;
use super::id::{ExternalId, SnapshotId};

/// A snapshot as its provider tells of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What the provider calls it.
    pub id: SnapshotId,
    /// The provider's ID of the volume that it was cut from.
    pub source: ExternalId,
    /// How large a volume made from it is at least; zero if that is not known.
    pub size: Bytes,
    /// When it was cut, nanoseconds since the epoch; 0 if that is not known.
    pub create_time: i64,
    /// Whether a volume can be made from it now; if not, the provider is still working on it.
    pub is_ready: bool,
}
