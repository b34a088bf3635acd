//! A CSI plugin: what it can do, and how well it is.
//!
//! Counts are derived from instances when they are known, never stored beside them; a
//! [`PluginSummary`] is what a server's list says without its instances.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::alloc::Alloc;
use super::id::{AllocId, ExternalNodeId, NodeId, PluginId};
use super::topology::Topology;

/// How many are healthy of how many there should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCount {
    /// Healthy.
    pub healthy: u64,
    /// Expected.
    pub expected: u64,
}

/// Whether an instance works, and its own words if it does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether the last probe went well.
    pub healthy: bool,
    /// `healthy`, or why it is not.
    pub description: String,
}

/// What a controller can do: CSI's `ControllerServiceCapability.RPC.Type`, one flag each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per CSI capability")]
pub struct ControllerCapabilities {
    /// CREATE_DELETE_VOLUME.
    pub create_delete_volume: bool,
    /// PUBLISH_UNPUBLISH_VOLUME.
    pub publish_unpublish_volume: bool,
    /// LIST_VOLUMES.
    pub list_volumes: bool,
    /// GET_CAPACITY.
    pub get_capacity: bool,
    /// CREATE_DELETE_SNAPSHOT.
    pub create_delete_snapshot: bool,
    /// LIST_SNAPSHOTS.
    pub list_snapshots: bool,
    /// CLONE_VOLUME.
    pub clone_volume: bool,
    /// PUBLISH_READONLY.
    pub publish_readonly: bool,
    /// EXPAND_VOLUME.
    pub expand_volume: bool,
    /// LIST_VOLUMES_PUBLISHED_NODES.
    pub list_volumes_published_nodes: bool,
    /// VOLUME_CONDITION.
    pub volume_condition: bool,
    /// GET_VOLUME.
    pub get_volume: bool,
}

/// What a node plugin can do: CSI's `NodeServiceCapability.RPC.Type`, one flag each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "one flag per CSI capability")]
pub struct NodeCapabilities {
    /// STAGE_UNSTAGE_VOLUME.
    pub stage_unstage_volume: bool,
    /// GET_VOLUME_STATS.
    pub get_volume_stats: bool,
    /// EXPAND_VOLUME.
    pub expand_volume: bool,
    /// VOLUME_CONDITION.
    pub volume_condition: bool,
}

/// The controller half of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerInfo {
    /// What it can do.
    pub capabilities: ControllerCapabilities,
}

/// The node half of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// What it can do.
    pub capabilities: NodeCapabilities,
    /// The provider's name of this node.
    pub external_node_id: ExternalNodeId,
    /// How many volumes fit on the node; `None` if the plugin sets no limit.
    pub max_volumes: Option<u64>,
    /// Where the node is.
    pub accessible_topology: Option<Topology>,
}

/// One running instance of a plugin on one node, as its last fingerprint found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInstance {
    /// The allocation that runs it; on the agent, the ID of its supervised task.
    pub alloc_id: AllocId,
    /// How it is.
    pub health: Health,
    /// When that was found, nanoseconds since the epoch.
    pub updated_at: i64,
    /// GetPluginInfo's name.
    pub provider: String,
    /// GetPluginInfo's version.
    pub provider_version: String,
    /// CONTROLLER_SERVICE: the plugin cannot be used without its controller (W18).
    pub requires_controller: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS: volumes are not reachable from everywhere.
    pub requires_topologies: bool,
    /// Set if the instance serves the controller service.
    pub controller: Option<ControllerInfo>,
    /// Set if the instance serves the node service.
    pub node: Option<NodeInfo>,
}

/// A plugin as a server's list shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSummary {
    /// Its ID.
    pub id: PluginId,
    /// GetPluginInfo's name.
    pub provider: String,
    /// Whether it cannot be used without a controller.
    pub controller_required: bool,
    /// Controllers.
    pub controllers: HealthCount,
    /// Nodes.
    pub nodes: HealthCount,
}

/// A plugin with its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// What the list shows.
    pub summary: PluginSummary,
    /// GetPluginInfo's version.
    pub version: String,
    /// Instances that serve the controller service, by node.
    pub controllers: BTreeMap<NodeId, PluginInstance>,
    /// Instances that serve the node service, by node.
    pub nodes: BTreeMap<NodeId, PluginInstance>,
    /// Allocations that run it, as far as they may be seen.
    pub allocs: Vec<Alloc>,
}
