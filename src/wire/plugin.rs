//! A plugin, and a plugin in a list, as Nomad's servers answer them (`nomad-http-api` 4.5, 4.6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allocation::AllocationStub;
use super::volume::TopologyDocument;

/// What a controller can do, one flag per CSI capability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "one flag per CSI capability")]
pub struct ControllerInfoDocument {
    /// PUBLISH_UNPUBLISH_VOLUME.
    pub supports_attach_detach: bool,
    /// CLONE_VOLUME.
    pub supports_clone: bool,
    /// VOLUME_CONDITION.
    pub supports_condition: bool,
    /// CREATE_DELETE_VOLUME.
    pub supports_create_delete: bool,
    /// CREATE_DELETE_SNAPSHOT.
    pub supports_create_delete_snapshot: bool,
    /// EXPAND_VOLUME.
    pub supports_expand: bool,
    /// GET_VOLUME.
    pub supports_get: bool,
    /// GET_CAPACITY.
    pub supports_get_capacity: bool,
    /// LIST_SNAPSHOTS.
    pub supports_list_snapshots: bool,
    /// LIST_VOLUMES.
    pub supports_list_volumes: bool,
    /// LIST_VOLUMES_PUBLISHED_NODES.
    pub supports_list_volumes_attached_nodes: bool,
    /// PUBLISH_READONLY.
    pub supports_read_only_attach: bool,
}

/// What a node plugin can do, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "one flag per CSI capability")]
pub struct NodeInfoDocument {
    /// Where the node is.
    pub accessible_topology: Option<TopologyDocument>,
    /// The provider's ID of the node.
    #[serde(rename = "ID")]
    pub id: String,
    /// How many volumes fit; 2^63-1 stands for "no limit".
    pub max_volumes: i64,
    /// STAGE_UNSTAGE_VOLUME.
    pub requires_node_stage_volume: bool,
    /// VOLUME_CONDITION.
    pub supports_condition: bool,
    /// EXPAND_VOLUME.
    pub supports_expand: bool,
    /// GET_VOLUME_STATS.
    pub supports_stats: bool,
}

/// One instance of a plugin on one node: Nomad's `CSIInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct InstanceDocument {
    /// The allocation that runs it.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// There on every entry of `Controllers`, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_info: Option<ControllerInfoDocument>,
    /// `healthy`, `unhealthy` or the plugin's own words.
    pub health_description: String,
    /// Whether the last probe went well.
    pub healthy: bool,
    /// There on every entry of `Nodes`, and nowhere else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfoDocument>,
    /// Its plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The provider's name; absent before 1.3.
    pub provider: String,
    /// The provider's version; absent before 1.3.
    pub provider_version: String,
    /// CONTROLLER_SERVICE.
    pub requires_controller_plugin: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub requires_topologies: bool,
    /// A time, or `null` if it was never probed.
    pub update_time: Option<String>,
}

/// A plugin as `GET /v1/plugin/csi/:id` answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PluginDocument {
    /// Allocations that run it; `null` if none may be seen.
    pub allocations: Option<Vec<AllocationStub>>,
    /// Whether it cannot do without a controller.
    pub controller_required: bool,
    /// Controllers, by node ID.
    pub controllers: BTreeMap<String, InstanceDocument>,
    /// Controllers there should be.
    pub controllers_expected: i64,
    /// Controllers that are well.
    pub controllers_healthy: i64,
    /// Index of its creation.
    pub create_index: u64,
    /// Nanoseconds; absent before 1.10.
    pub create_time: i64,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nanoseconds; absent before 1.10.
    pub modify_time: i64,
    /// Node services, by node ID.
    pub nodes: BTreeMap<String, InstanceDocument>,
    /// Nodes there should be.
    pub nodes_expected: i64,
    /// Nodes that are well.
    pub nodes_healthy: i64,
    /// The provider's name.
    pub provider: String,
    /// The provider's version.
    pub version: String,
}

/// A plugin as `GET /v1/plugins?type=csi` answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PluginStub {
    /// Whether it cannot do without a controller.
    pub controller_required: bool,
    /// Controllers there should be.
    pub controllers_expected: i64,
    /// Controllers that are well.
    pub controllers_healthy: i64,
    /// Index of its creation.
    pub create_index: u64,
    /// Its ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// Index of its last change.
    pub modify_index: u64,
    /// Nodes there should be.
    pub nodes_expected: i64,
    /// Nodes that are well.
    pub nodes_healthy: i64,
    /// The provider's name.
    pub provider: String,
}
