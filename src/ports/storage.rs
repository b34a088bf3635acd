//! What a controller is asked besides the life of a volume: its lists, snapshots, more room.
//!
//! A list comes in pages, as the plugin cuts them: between two pages volumes come and go, so an
//! entry may stand on both or on none (`csi-spec` 5.7). Tokens are the plugin's own; one that it does
//! not know is refused for good, and the list is to be begun anew.

use std::collections::BTreeMap;

use crate::model::{
    Bytes, Capability, CapacityRange, ExternalId, MountOptions, Secrets, SnapshotId,
};

/// Which part of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    /// At most so many entries; 0 leaves it to the plugin.
    pub entries: u32,
    /// Where it begins, as the page before said; empty for the first.
    pub token: String,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// In the plugin's order.
    pub entries: Vec<T>,
    /// Where the next part begins; `None` if this is the last.
    pub next: Option<String>,
}

/// CreateSnapshot (section 5.11). Its name is the idempotency key: of one name there is one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateSnapshot {
    /// The volume to be cut: CSI's `source_volume_id`.
    pub source: ExternalId,
    /// The idempotency key; of the same characters as a volume's name.
    pub name: String,
    /// Opaque.
    pub parameters: BTreeMap<String, String>,
    /// For the provider.
    pub secrets: Secrets,
}

/// ListSnapshots (section 5.13). Filters that are set hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListSnapshots {
    /// Which part.
    pub page: PageRequest,
    /// Only those of this volume.
    pub source: Option<ExternalId>,
    /// Only this one.
    pub id: Option<SnapshotId>,
    /// For the provider.
    pub secrets: Secrets,
}

/// ControllerExpandVolume (section 5.15).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandVolume {
    /// CSI's `volume_id`.
    pub external_id: ExternalId,
    /// How large it shall be; never unset.
    pub capacity: CapacityRange,
    /// How it is used now; `None` if it is not.
    pub capability: Option<Capability>,
    /// With which options it is used.
    pub mount_options: MountOptions,
    /// For the provider.
    pub secrets: Secrets,
}

/// ControllerExpandVolume's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpandedVolume {
    /// How large it is now; zero if the plugin does not say.
    pub capacity: Bytes,
    /// Whether every node that has it has to grow its part too (NodeExpandVolume).
    pub node_expansion_required: bool,
}
