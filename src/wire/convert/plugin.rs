//! Conversion of plugins, their instances, and nodes.
//!
//! Nomad represents "no limit" of volumes per node as 2^63-1 and never as 0; both convert to `None`.
//! The model has no indexes and times of a plugin; the server sets them in the JSON.

use std::collections::BTreeMap;

use super::allocation::{allocation_from_wire, allocation_to_wire};
use super::volume::{count, health, topology_from_wire, topology_to_wire};
use crate::node::{DriverDocument, NodeStub};
use crate::plugin::{
    ControllerInfoDocument, InstanceDocument, NodeInfoDocument, PluginDocument, PluginStub,
    StorageStatusDocument,
};
use crate::time;
use nomad_csi_model::{
    AllocId, AttachmentMode, ControllerCapabilities, ControllerInfo, ExternalNodeId, Health, Job,
    MountConfig, Node, NodeCapabilities, NodeId, NodeInfo, NodeStatus, Plugin, PluginId,
    PluginInstance, PluginSummary, StorageStatus, StorageStatusKind,
};

/// Converts a plugin from JSON.
pub fn plugin_from_wire(document: &PluginDocument) -> Plugin {
    let instances = |instances: &BTreeMap<String, InstanceDocument>| {
        instances
            .iter()
            .map(|(node, instance)| (NodeId::new(node), instance_from_wire(instance)))
            .collect()
    };
    let allocations = document.allocations.iter().flatten();
    Plugin {
        summary: PluginSummary {
            id: PluginId::new(&document.id),
            provider: document.provider.clone(),
            controller_required: document.controller_required,
            controllers: health(document.controllers_healthy, document.controllers_expected),
            nodes: health(document.nodes_healthy, document.nodes_expected),
        },
        version: document.version.clone(),
        controllers: instances(&document.controllers),
        nodes: instances(&document.nodes),
        allocs: allocations.map(allocation_from_wire).collect(),
    }
}

/// Converts a plugin to JSON, with zero indexes and times. An instance with both services appears in
/// both maps, each with one service.
pub fn plugin_to_wire(plugin: &Plugin) -> PluginDocument {
    let Plugin { summary, .. } = plugin;
    let instances = |instances: &BTreeMap<NodeId, PluginInstance>| {
        let documents = instances.iter();
        documents
            .map(|(node, instance)| (node.to_string(), instance_to_wire(&summary.id, instance)))
            .collect::<BTreeMap<_, _>>()
    };
    let mut controllers = instances(&plugin.controllers);
    let mut nodes = instances(&plugin.nodes);
    controllers.values_mut().for_each(|i| i.node_info = None);
    nodes.values_mut().for_each(|i| i.controller_info = None);
    let allocations: Vec<_> = plugin.allocs.iter().map(allocation_to_wire).collect();
    PluginDocument {
        allocations: (!allocations.is_empty()).then_some(allocations),
        controller_required: summary.controller_required,
        controllers,
        controllers_expected: count(summary.controllers.expected),
        controllers_healthy: count(summary.controllers.healthy),
        create_index: 0,
        create_time: 0,
        id: summary.id.to_string(),
        modify_index: 0,
        modify_time: 0,
        nodes,
        nodes_expected: count(summary.nodes.expected),
        nodes_healthy: count(summary.nodes.healthy),
        provider: summary.provider.clone(),
        reports_capacity: false,
        version: plugin.version.clone(),
    }
}

/// Converts a plugin in a list from JSON.
pub fn plugin_summary_from_wire(stub: &PluginStub) -> PluginSummary {
    PluginSummary {
        id: PluginId::new(&stub.id),
        provider: stub.provider.clone(),
        controller_required: stub.controller_required,
        controllers: health(stub.controllers_healthy, stub.controllers_expected),
        nodes: health(stub.nodes_healthy, stub.nodes_expected),
    }
}

/// Converts a plugin in a list to JSON, with zero indexes.
pub fn plugin_summary_to_wire(summary: &PluginSummary) -> PluginStub {
    PluginStub {
        controller_required: summary.controller_required,
        controllers_expected: count(summary.controllers.expected),
        controllers_healthy: count(summary.controllers.healthy),
        create_index: 0,
        id: summary.id.to_string(),
        modify_index: 0,
        nodes_expected: count(summary.nodes.expected),
        nodes_healthy: count(summary.nodes.healthy),
        provider: summary.provider.clone(),
    }
}

/// Converts a node in a list to JSON.
pub fn node_to_wire(node: &Node) -> NodeStub {
    let status = match node.status {
        NodeStatus::Ready => "ready",
        NodeStatus::Disconnected => "disconnected",
        NodeStatus::Down => "down",
    };
    let eligibility = if node.is_eligible { "eligible" } else { "ineligible" };
    NodeStub {
        datacenter: node.datacenter.clone(),
        id: node.id.to_string(),
        name: node.name.clone(),
        node_pool: Job::DEFAULT_NODE_POOL.to_owned(),
        drain: node.is_draining,
        drivers: node.drivers.iter().map(driver_to_wire).collect(),
        scheduling_eligibility: eligibility.to_owned(),
        status: status.to_owned(),
        ..NodeStub::default()
    }
}

/// A driver of a node with what it can mount.
fn driver_to_wire((name, config): (&String, &MountConfig)) -> (String, DriverDocument) {
    let attributes = [
        (format!("driver.{name}"), "true".to_owned()),
        (format!("driver.{name}.mount_config"), config.as_str().to_owned()),
    ];
    let document = DriverDocument {
        attributes: attributes.into(),
        detected: true,
        health_description: "Healthy".to_owned(),
        healthy: true,
        update_time: None,
    };
    (name.clone(), document)
}

fn instance_from_wire(document: &InstanceDocument) -> PluginInstance {
    PluginInstance {
        alloc_id: AllocId::new(&document.alloc_id),
        health: Health {
            healthy: document.healthy,
            description: document.health_description.clone(),
        },
        updated_at: time::from_wire(document.update_time.as_deref()),
        provider: document.provider.clone(),
        provider_version: document.provider_version.clone(),
        process: None,
        requires_controller: document.requires_controller_plugin,
        requires_topologies: document.requires_topologies,
        controller: document.controller_info.map(controller_from_wire),
        node: document.node_info.as_ref().map(node_from_wire),
    }
}

/// Converts an instance of a plugin to JSON.
pub fn instance_to_wire(plugin: &PluginId, instance: &PluginInstance) -> InstanceDocument {
    InstanceDocument {
        alloc_id: instance.alloc_id.to_string(),
        controller_info: instance.controller.as_ref().map(controller_to_wire),
        health_description: instance.health.description.clone(),
        healthy: instance.health.healthy,
        node_info: instance.node.as_ref().map(node_info_to_wire),
        plugin_id: plugin.to_string(),
        provider: instance.provider.clone(),
        provider_version: instance.provider_version.clone(),
        requires_controller_plugin: instance.requires_controller,
        requires_topologies: instance.requires_topologies,
        update_time: time::to_wire(instance.updated_at),
    }
}

fn controller_from_wire(document: ControllerInfoDocument) -> ControllerInfo {
    ControllerInfo {
        capabilities: ControllerCapabilities {
            create_delete_volume: document.supports_create_delete,
            publish_unpublish_volume: document.supports_attach_detach,
            list_volumes: document.supports_list_volumes,
            get_capacity: document.supports_get_capacity,
            create_delete_snapshot: document.supports_create_delete_snapshot,
            list_snapshots: document.supports_list_snapshots,
            clone_volume: document.supports_clone,
            publish_readonly: document.supports_read_only_attach,
            expand_volume: document.supports_expand,
            list_volumes_published_nodes: document.supports_list_volumes_attached_nodes,
            volume_condition: document.supports_condition,
            get_volume: document.supports_get,
            get_volume_health: document.supports_get_volume_health,
            list_volume_health: document.supports_list_volume_health,
            modify_volume: document.supports_modify_volume,
        },
    }
}

fn controller_to_wire(controller: &ControllerInfo) -> ControllerInfoDocument {
    let can = &controller.capabilities;
    ControllerInfoDocument {
        supports_attach_detach: can.publish_unpublish_volume,
        supports_clone: can.clone_volume,
        supports_condition: can.volume_condition,
        supports_create_delete: can.create_delete_volume,
        supports_create_delete_snapshot: can.create_delete_snapshot,
        supports_expand: can.expand_volume,
        supports_get: can.get_volume,
        supports_get_capacity: can.get_capacity,
        supports_list_snapshots: can.list_snapshots,
        supports_list_volumes: can.list_volumes,
        supports_list_volumes_attached_nodes: can.list_volumes_published_nodes,
        supports_read_only_attach: can.publish_readonly,
        supports_get_volume_health: can.get_volume_health,
        supports_list_volume_health: can.list_volume_health,
        supports_modify_volume: can.modify_volume,
    }
}

fn node_from_wire(document: &NodeInfoDocument) -> NodeInfo {
    let limit = u64::try_from(document.max_volumes).ok();
    NodeInfo {
        capabilities: NodeCapabilities {
            stage_unstage_volume: document.requires_node_stage_volume,
            get_volume_stats: document.supports_stats,
            expand_volume: document.supports_expand,
            volume_condition: document.supports_condition,
            get_volume_health: document.supports_get_volume_health,
            get_storage_health: document.supports_storage_health,
        },
        storage: document.storage_health.iter().map(storage_from_wire).collect(),
        external_node_id: ExternalNodeId::new(&document.id),
        max_volumes: limit.filter(|limit| *limit != 0 && document.max_volumes != i64::MAX),
        accessible_topology: document.accessible_topology.as_ref().map(topology_from_wire),
    }
}

fn node_info_to_wire(node: &NodeInfo) -> NodeInfoDocument {
    let can = &node.capabilities;
    NodeInfoDocument {
        accessible_topology: node.accessible_topology.as_ref().map(topology_to_wire),
        id: node.external_node_id.to_string(),
        max_volumes: node.max_volumes.map_or(i64::MAX, count),
        requires_node_stage_volume: can.stage_unstage_volume,
        supports_condition: can.volume_condition,
        supports_expand: can.expand_volume,
        supports_stats: can.get_volume_stats,
        supports_get_volume_health: can.get_volume_health,
        supports_storage_health: can.get_storage_health,
        storage_health: node.storage.iter().map(storage_to_wire).collect(),
    }
}

fn storage_from_wire(document: &StorageStatusDocument) -> StorageStatus {
    StorageStatus {
        kind: StorageStatusKind::parse(&document.status),
        reason: document.reason.clone(),
        message: document.message.clone(),
        attachment_mode: AttachmentMode::parse(&document.attachment_mode),
    }
}

fn storage_to_wire(status: &StorageStatus) -> StorageStatusDocument {
    let mode = status.attachment_mode;
    StorageStatusDocument {
        status: status.kind.to_string(),
        reason: status.reason.clone(),
        message: status.message.clone(),
        attachment_mode: mode.map_or_else(String::new, |mode| mode.as_str().to_owned()),
    }
}
