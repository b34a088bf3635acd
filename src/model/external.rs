//! A volume as its provider lists it, whether it is registered anywhere or not.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::id::{ExternalId, ExternalNodeId};

/// A volume of a provider's own list (CSI's ListVolumes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalVolume {
    /// What the provider calls it.
    pub external_id: ExternalId,
    /// Its size; zero if that is not known.
    pub capacity: Bytes,
    /// Opaque, the provider's.
    pub context: BTreeMap<String, String>,
    /// The provider's ID of the volume that it was copied from.
    pub clone_id: Option<String>,
    /// The provider's ID of the snapshot that it was restored from.
    pub snapshot_id: Option<String>,
    /// The provider's names of the nodes that it is published to, as far as it says.
    pub published_nodes: Vec<ExternalNodeId>,
    /// How it is; `None` if the provider does not say.
    pub condition: Option<Condition>,
}

/// How a volume is, in its provider's words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Whether something is wrong.
    pub abnormal: bool,
    /// What; for people.
    pub message: String,
}
