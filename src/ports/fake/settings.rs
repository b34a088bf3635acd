//! What the fake plugin says of itself.

use crate::model::{Bytes, ControllerCapabilities, ExternalNodeId, NodeCapabilities, Secrets};
use crate::ports::plugin::{NodeDescription, PluginCapabilities, PluginInfo};

/// What the plugin says of itself, and what it wants.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "one flag per property of a plugin"
)]
pub struct Settings {
    /// GetPluginInfo.
    pub info: PluginInfo,
    /// GetPluginCapabilities.
    pub plugin: PluginCapabilities,
    /// ControllerGetCapabilities; `None` if there is no controller service.
    pub controller: Option<ControllerCapabilities>,
    /// NodeGetCapabilities; `None` if there is no node service.
    pub node: Option<NodeCapabilities>,
    /// NodeGetInfo.
    pub description: NodeDescription,
    /// Probe.
    pub ready: bool,
    /// What every call that can carry secrets has to carry.
    pub secrets: Secrets,
    /// What a new volume's size is if nothing is asked for; zero is "unknown".
    pub default_capacity: Bytes,
    /// Above this nothing grows.
    pub largest_capacity: Option<Bytes>,
    /// Whether growth has a second half on every node that has the volume.
    pub node_expansion_required: bool,
    /// Whether snapshots are ready to use; if not, the plugin still works on them.
    pub snapshots_are_ready: bool,
    /// Whether an unknown volume is NOT_FOUND on the way down too, as some drivers have it (W28).
    pub unknown_is_not_found: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            info: PluginInfo {
                name: "fake.csi.nomad-csi.test".to_owned(),
                vendor_version: "1.0.0".to_owned(),
            },
            plugin: PluginCapabilities {
                controller_service: true,
                volume_accessibility_constraints: false,
            },
            controller: Some(ControllerCapabilities {
                create_delete_volume: true,
                ..ControllerCapabilities::default()
            }),
            node: Some(NodeCapabilities {
                stage_unstage_volume: true,
                ..NodeCapabilities::default()
            }),
            description: NodeDescription {
                external_node_id: ExternalNodeId::new("fake-node"),
                max_volumes: None,
                accessible_topology: None,
            },
            ready: true,
            secrets: Secrets::default(),
            default_capacity: Bytes::ZERO,
            largest_capacity: None,
            node_expansion_required: false,
            snapshots_are_ready: true,
            unknown_is_not_found: false,
        }
    }
}
