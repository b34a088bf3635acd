//! The settings of the fake plugin.

use nomad_csi_model::{Bytes, ControllerCapabilities, ExternalNodeId, NodeCapabilities, Secrets};
use nomad_csi_ports::{NodeDescription, PluginCapabilities, PluginInfo};

/// The settings of the plugin: its reports and requirements.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per property of a plugin")]
pub struct PluginSettings {
    /// The response of GetPluginInfo.
    pub info: PluginInfo,
    /// The response of GetPluginCapabilities.
    pub plugin: PluginCapabilities,
    /// The response of ControllerGetCapabilities; `None` without a controller service.
    pub controller: Option<ControllerCapabilities>,
    /// The response of NodeGetCapabilities; `None` without a node service.
    pub node: Option<NodeCapabilities>,
    /// The response of NodeGetInfo.
    pub description: NodeDescription,
    /// The response of Probe.
    pub ready: bool,
    /// The secrets that every call must carry, if its RPC supports secrets.
    pub secrets: Secrets,
    /// The size of a volume without a requested size; zero means unknown.
    pub default_capacity: Bytes,
    /// The maximum size of an expansion.
    pub max_capacity: Option<Bytes>,
    /// The maximum number of volumes that are attached to one node.
    pub max_attachments: Option<usize>,
    /// True if every node with the volume must expand it too.
    pub node_expansion_required: bool,
    /// True if new snapshots are ready to use.
    pub snapshots_are_ready: bool,
    /// The largest page of ControllerListVolumeHealth.
    pub health_page: u32,
    /// True if teardown of an unknown volume returns NOT_FOUND, as some drivers do (W28).
    pub unknown_is_not_found: bool,
}

impl Default for PluginSettings {
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
            max_capacity: None,
            max_attachments: None,
            node_expansion_required: false,
            snapshots_are_ready: true,
            health_page: u32::MAX,
            unknown_is_not_found: false,
        }
    }
}
