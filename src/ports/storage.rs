//! Requests to a controller for lists, snapshots and expansion.
//!
//! The plugin splits a list into pages. Volumes come and go between two pages, so an entry may
//! appear on both or on none. Tokens belong to the plugin. After an unknown token the caller
//! restarts the list (CSI, "ListVolumes").

use std::collections::BTreeMap;

use nomad_csi_model::{
    Bytes, Capability, CapacityRange, ExternalId, MountOptions, Secrets, SnapshotId,
};

/// The request for one page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// The maximum number of entries; 0 leaves it to the plugin.
    pub entries: u32,
    /// The token from the previous page; empty for the first page.
    pub starting_token: String,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The entries in the plugin's order.
    pub entries: Vec<T>,
    /// The token of the next page; `None` on the last page.
    pub next_token: Option<String>,
}

/// The request of CreateSnapshot. The name is the idempotency key: one name is one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSnapshot {
    /// The volume of the snapshot: CSI's `source_volume_id`.
    pub source: ExternalId,
    /// The idempotency key, with the same valid characters as a volume name.
    pub name: String,
    /// The provider's parameters, opaque.
    pub parameters: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The request of ListSnapshots. All given filters must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSnapshots {
    /// The page to return.
    pub page: PageRequest,
    /// Only snapshots of this volume.
    pub source: Option<ExternalId>,
    /// Only this snapshot.
    pub id: Option<SnapshotId>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The request of ControllerModifyVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModifyVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The mutable parameters that change, at least one. Others stay as they are.
    pub parameters: BTreeMap<String, String>,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The request of ControllerExpandVolume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// The requested size; never unset.
    pub capacity: CapacityRange,
    /// The capability in use; `None` if the volume is not in use.
    pub capability: Option<Capability>,
    /// The mount options in use.
    pub mount_options: MountOptions,
    /// The provider's secrets.
    pub secrets: Secrets,
}

/// The response of ControllerExpandVolume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandedVolume {
    /// The new size; zero if the plugin does not report it.
    pub capacity: Bytes,
    /// True if every node with the volume must expand it too (NodeExpandVolume).
    pub node_expansion_required: bool,
}
