//! The request for the capacity of a provider.

use std::collections::BTreeMap;

use nomad_csi_model::{Capability, MountOptions, Topology};

/// The request of GetCapacity. Everything narrows what is counted; CSI sends no secrets with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetCapacity {
    /// The capabilities of a new volume, as for CreateVolume; may be empty.
    pub capabilities: Vec<Capability>,
    /// Sent with every file-system capability.
    pub mount_options: MountOptions,
    /// The provider's parameters, as for CreateVolume.
    pub parameters: BTreeMap<String, String>,
    /// Where; only if the plugin supports topologies.
    pub topology: Option<Topology>,
}
