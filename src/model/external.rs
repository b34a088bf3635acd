//! A volume in a provider's list, registered or not.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::id::{ExternalId, ExternalNodeId};

/// A volume in a provider's list (CSI's ListVolumes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalVolume {
    /// The provider's ID of the volume.
    pub external_id: ExternalId,
    /// The size; zero if unknown.
    pub capacity: Bytes,
    /// The provider's volume context, opaque.
    pub context: BTreeMap<String, String>,
    /// The provider's ID of the volume that this one was cloned from.
    pub clone_id: Option<String>,
    /// The provider's ID of the snapshot that this one was restored from.
    pub snapshot_id: Option<String>,
    /// The provider's IDs of the nodes to which the volume is published, if it reports them.
    pub published_nodes: Vec<ExternalNodeId>,
    /// The condition; `None` if the provider does not report it.
    pub condition: Option<Condition>,
}

/// The condition of a volume as its provider reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether the volume has a problem.
    pub abnormal: bool,
    /// A description for users.
    pub message: String,
}
