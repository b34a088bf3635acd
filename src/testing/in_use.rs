//! What the fake plugin has attached, staged and published.

use std::path::PathBuf;

use nomad_csi_model::{Capability, MountOptions, PublishContext};

/// A volume that is attached to one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeAttachment {
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// True if the node may only read.
    pub read_only: bool,
    /// The publish context, which stage and publish must send back.
    pub publish_context: PublishContext,
}

/// A staged volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeStaging {
    /// The staging path, the only one on its node.
    pub path: PathBuf,
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
}

/// A published volume at one target path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeTarget {
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options.
    pub mount_options: MountOptions,
    /// True if the target refuses writes.
    pub read_only: bool,
}
