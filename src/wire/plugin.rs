//! A plugin, and a plugin in a list, in the responses of Nomad's plugin APIs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allocation::AllocationStub;
use super::volume::TopologyDocument;

/// The capabilities of a controller, one flag per CSI capability.
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
    /// GET_VOLUME_HEALTH; ours, only present if `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_get_volume_health: bool,
    /// LIST_VOLUME_HEALTH; ours, only present if `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_list_volume_health: bool,
    /// MODIFY_VOLUME; ours, only present if `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_modify_volume: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A condition of the storage behind a plugin; ours.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct StorageStatusDocument {
    /// `STORAGE_DEGRADED` or `STORAGE_UNREACHABLE`, or `TYPE_` and a number that is not known.
    pub status: String,
    /// A short word for machines.
    pub reason: String,
    /// A description for people.
    pub message: String,
    /// The attachment mode of the affected volumes; missing if all are.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attachment_mode: String,
}

/// The capabilities of a node plugin, and its topology.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
#[expect(clippy::struct_excessive_bools, reason = "one flag per CSI capability")]
pub struct NodeInfoDocument {
    /// The topology of the node.
    pub accessible_topology: Option<TopologyDocument>,
    /// The provider's ID of the node.
    #[serde(rename = "ID")]
    pub id: String,
    /// The maximum number of volumes; 2^63-1 means no limit.
    pub max_volumes: i64,
    /// STAGE_UNSTAGE_VOLUME.
    pub requires_node_stage_volume: bool,
    /// VOLUME_CONDITION.
    pub supports_condition: bool,
    /// EXPAND_VOLUME.
    pub supports_expand: bool,
    /// GET_VOLUME_STATS.
    pub supports_stats: bool,
    /// GET_VOLUME_HEALTH; ours, only present if `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_get_volume_health: bool,
    /// GET_STORAGE_HEALTH; ours, only present if `true`.
    #[serde(skip_serializing_if = "is_false")]
    pub supports_storage_health: bool,
    /// The conditions of the storage; ours, only present if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_health: Vec<StorageStatusDocument>,
}

/// One instance of a plugin on one node: Nomad's `CSIInfo`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct InstanceDocument {
    /// The allocation that runs the instance.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// Present in every entry of `Controllers` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller_info: Option<ControllerInfoDocument>,
    /// `healthy`, `unhealthy` or the plugin's message.
    pub health_description: String,
    /// True if the last probe succeeded.
    pub healthy: bool,
    /// Present in every entry of `Nodes` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_info: Option<NodeInfoDocument>,
    /// The plugin's ID.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The plugin's name; missing before 1.3.
    pub provider: String,
    /// The plugin's version; missing before 1.3.
    pub provider_version: String,
    /// CONTROLLER_SERVICE.
    pub requires_controller_plugin: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub requires_topologies: bool,
    /// The time of the last probe, or `null`.
    pub update_time: Option<String>,
}

/// A plugin in the response of `GET /v1/plugin/csi/:id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PluginDocument {
    /// Allocations of the plugin; `null` if the token may see none.
    pub allocations: Option<Vec<AllocationStub>>,
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// Instances with the controller service, by node ID.
    pub controllers: BTreeMap<String, InstanceDocument>,
    /// The number of expected controllers.
    pub controllers_expected: i64,
    /// The number of healthy controllers.
    pub controllers_healthy: i64,
    /// The index of the creation.
    pub create_index: u64,
    /// Nanoseconds since the epoch; missing before 1.10.
    pub create_time: i64,
    /// The plugin's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of the last change.
    pub modify_index: u64,
    /// Nanoseconds since the epoch; missing before 1.10.
    pub modify_time: i64,
    /// Instances with the node service, by node ID.
    pub nodes: BTreeMap<String, InstanceDocument>,
    /// The number of expected node plugins.
    pub nodes_expected: i64,
    /// The number of healthy node plugins.
    pub nodes_healthy: i64,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// Embedded agent only: whether the plugin reports capacity, which `GET /v1/plugin/csi/:id/capacity` returns.
    #[serde(skip_serializing_if = "is_false")]
    pub reports_capacity: bool,
    /// The plugin's version from GetPluginInfo.
    pub version: String,
}

/// A plugin in the response of `GET /v1/plugins?type=csi`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct PluginStub {
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// The number of expected controllers.
    pub controllers_expected: i64,
    /// The number of healthy controllers.
    pub controllers_healthy: i64,
    /// The index of the creation.
    pub create_index: u64,
    /// The plugin's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of the last change.
    pub modify_index: u64,
    /// The number of expected node plugins.
    pub nodes_expected: i64,
    /// The number of healthy node plugins.
    pub nodes_healthy: i64,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
}
