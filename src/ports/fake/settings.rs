//! What the fake plugin says of itself.

use crate::model::{Bytes, ControllerCapabilities, ExternalNodeId, NodeCapabilities, Secrets};
use crate::ports::plugin::{NodeDescription, PluginCapabilities, PluginInfo};

/// What the plugin says of itself, and what it wants.
#[derive(Clone, Debug)]
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
            unknown_is_not_found: false,
        }
    }
}
