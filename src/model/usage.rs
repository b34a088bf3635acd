//! How a volume is used on a node.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::capability::Capability;
use super::mount_options::MountOptions;

/// The usage that a staging and an attachment are made for, compared by value. Read-only belongs to a target and
/// is not part of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// The access and attachment mode.
    pub capability: Capability,
    /// The mount options; sent with a file system only.
    pub mount_options: MountOptions,
}

/// The answer of ControllerPublishVolume, opaque. NodeStageVolume and NodePublishVolume receive it
/// unchanged (B93).
pub type PublishContext = BTreeMap<String, String>;
