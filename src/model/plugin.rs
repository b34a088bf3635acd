//! A CSI plugin: its capabilities and its health.
//!
//! Health counts are computed from instances where those are known. A [`PluginSummary`] is an entry
//! of a server's list, which contains no instances.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::alloc::Alloc;
use super::health::StorageStatus;
use super::id::{AllocId, ExternalNodeId, NodeId, PluginId};
use super::topology::Topology;

/// The number of healthy and of expected instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthCount {
    /// The number of healthy instances.
    pub healthy: u64,
    /// The number of expected instances.
    pub expected: u64,
}

/// The health of one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// True if the last probe succeeded.
    pub healthy: bool,
    /// `healthy`, or the reason why not.
    pub description: String,
}

/// The capabilities of a controller: CSI's `ControllerServiceCapability.RPC.Type`, one flag each.
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
    /// GET_VOLUME_HEALTH.
    #[serde(default)]
    pub get_volume_health: bool,
    /// LIST_VOLUME_HEALTH.
    #[serde(default)]
    pub list_volume_health: bool,
    /// MODIFY_VOLUME.
    #[serde(default)]
    pub modify_volume: bool,
}

impl ControllerCapabilities {
    /// Returns the capabilities with these names of CSI; other names are left out.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut capabilities = Self::default();
        for name in names {
            let flags = capabilities.flags();
            if let Some((_, flag)) = flags.into_iter().find(|(known, _)| *known == name) {
                *flag = true;
            }
        }
        capabilities
    }

    /// Returns the names of the capabilities in CSI.
    pub fn names(mut self) -> Vec<&'static str> {
        let flags = self.flags();
        flags.into_iter().filter(|(_, flag)| **flag).map(|(name, _)| name).collect()
    }

    fn flags(&mut self) -> [(&'static str, &mut bool); 15] {
        [
            ("CREATE_DELETE_VOLUME", &mut self.create_delete_volume),
            ("PUBLISH_UNPUBLISH_VOLUME", &mut self.publish_unpublish_volume),
            ("LIST_VOLUMES", &mut self.list_volumes),
            ("GET_CAPACITY", &mut self.get_capacity),
            ("CREATE_DELETE_SNAPSHOT", &mut self.create_delete_snapshot),
            ("LIST_SNAPSHOTS", &mut self.list_snapshots),
            ("CLONE_VOLUME", &mut self.clone_volume),
            ("PUBLISH_READONLY", &mut self.publish_readonly),
            ("EXPAND_VOLUME", &mut self.expand_volume),
            ("LIST_VOLUMES_PUBLISHED_NODES", &mut self.list_volumes_published_nodes),
            ("VOLUME_CONDITION", &mut self.volume_condition),
            ("GET_VOLUME", &mut self.get_volume),
            ("GET_VOLUME_HEALTH", &mut self.get_volume_health),
            ("LIST_VOLUME_HEALTH", &mut self.list_volume_health),
            ("MODIFY_VOLUME", &mut self.modify_volume),
        ]
    }
}

/// The capabilities of a node plugin: CSI's `NodeServiceCapability.RPC.Type`, one flag each.
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
    /// GET_VOLUME_HEALTH.
    #[serde(default)]
    pub get_volume_health: bool,
    /// GET_STORAGE_HEALTH.
    #[serde(default)]
    pub get_storage_health: bool,
}

impl NodeCapabilities {
    /// Returns the capabilities with these names of CSI; other names are left out.
    pub fn of_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut capabilities = Self::default();
        for name in names {
            let flags = capabilities.flags();
            if let Some((_, flag)) = flags.into_iter().find(|(known, _)| *known == name) {
                *flag = true;
            }
        }
        capabilities
    }

    /// Returns the names of the capabilities in CSI.
    pub fn names(mut self) -> Vec<&'static str> {
        let flags = self.flags();
        flags.into_iter().filter(|(_, flag)| **flag).map(|(name, _)| name).collect()
    }

    fn flags(&mut self) -> [(&'static str, &mut bool); 6] {
        [
            ("STAGE_UNSTAGE_VOLUME", &mut self.stage_unstage_volume),
            ("GET_VOLUME_STATS", &mut self.get_volume_stats),
            ("EXPAND_VOLUME", &mut self.expand_volume),
            ("VOLUME_CONDITION", &mut self.volume_condition),
            ("GET_VOLUME_HEALTH", &mut self.get_volume_health),
            ("GET_STORAGE_HEALTH", &mut self.get_storage_health),
        ]
    }

    /// Returns whether the node reports statistics of published volumes: VOLUME_CONDITION made that mandatory until CSI 1.12.
    pub const fn reports_stats(&self) -> bool {
        self.get_volume_stats || self.volume_condition
    }
}

/// The controller service of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerInfo {
    /// The capabilities of the controller.
    pub capabilities: ControllerCapabilities,
}

/// The node service of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// The capabilities of the node plugin.
    pub capabilities: NodeCapabilities,
    /// The provider's ID of this node.
    pub external_node_id: ExternalNodeId,
    /// The maximum number of volumes on the node; `None` if the plugin reports no limit.
    pub max_volumes: Option<u64>,
    /// The topology of the node.
    pub accessible_topology: Option<Topology>,
    /// The adverse conditions of the storage, if the plugin reports them.
    #[serde(default)]
    pub storage: Vec<StorageStatus>,
}

/// A running instance of a plugin on one node, from its last fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginInstance {
    /// The allocation that runs the instance; on the agent, the ID of its supervised task.
    pub alloc_id: AllocId,
    /// The health of the instance.
    pub health: Health,
    /// When the fingerprint was taken, in nanoseconds since the epoch.
    pub updated_at: i64,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// The plugin's version from GetPluginInfo.
    pub provider_version: String,
    /// The process that answered, by a text that no other process of the instance has; `None` if it is not known, and in records of
    /// earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// CONTROLLER_SERVICE: the plugin needs its controller, even if no controller runs yet (W18).
    pub requires_controller: bool,
    /// VOLUME_ACCESSIBILITY_CONSTRAINTS: volumes may be inaccessible from some nodes.
    pub requires_topologies: bool,
    /// The controller service, if the instance serves it.
    pub controller: Option<ControllerInfo>,
    /// The node service, if the instance serves it.
    pub node: Option<NodeInfo>,
}

/// A plugin in a server's list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSummary {
    /// The plugin's ID.
    pub id: PluginId,
    /// The plugin's name from GetPluginInfo.
    pub provider: String,
    /// True if the plugin needs a controller.
    pub controller_required: bool,
    /// The health of controllers.
    pub controllers: HealthCount,
    /// The health of node plugins.
    pub nodes: HealthCount,
}

/// A plugin with its instances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The entry in the server's list.
    pub summary: PluginSummary,
    /// The plugin's version from GetPluginInfo.
    pub version: String,
    /// Instances with the controller service, by node.
    pub controllers: BTreeMap<NodeId, PluginInstance>,
    /// Instances with the node service, by node.
    pub nodes: BTreeMap<NodeId, PluginInstance>,
    /// Allocations that run the plugin, if the token may see them.
    pub allocs: Vec<Alloc>,
}
