//! A node: in a list, and alone with its drivers, plugins, events and attributes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::node_drain::{DrainStrategyDocument, LastDrainDocument};
use super::node_resources::{NodeReservedDocument, NodeResourcesDocument};
use super::plugin::InstanceDocument;

/// A node in the response of `GET /v1/nodes`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeStub {
    /// The address of the node, without the port.
    pub address: String,
    /// The index of the creation.
    pub create_index: u64,
    /// The datacenter.
    pub datacenter: String,
    /// True if the node is draining.
    pub drain: bool,
    /// The drivers by name.
    pub drivers: BTreeMap<String, DriverDocument>,
    /// True if an operator declared the node lost. Only the agent has it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub fenced: bool,
    /// True if a node that was declared lost has returned, and is being swept. Only the agent has it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub returned: bool,
    /// The node's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The last drain, if it was ever drained.
    pub last_drain: Option<LastDrainDocument>,
    /// The index of the last change.
    pub modify_index: u64,
    /// The node's name.
    pub name: String,
    /// The node class, usually empty.
    pub node_class: String,
    /// The node pool.
    pub node_pool: String,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
    /// Why it has this status.
    pub status_description: String,
    /// The Nomad version of the node, which clients parse.
    pub version: String,
}

/// A node in the response of `GET /v1/node/:id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeDocument {
    /// The attributes of the node, such as `kernel.name` and `nomad.version`.
    pub attributes: BTreeMap<String, String>,
    /// The plugins with the controller service, by ID.
    #[serde(rename = "CSIControllerPlugins")]
    pub controller_plugins: BTreeMap<String, InstanceDocument>,
    /// The plugins with the node service, by ID.
    #[serde(rename = "CSINodePlugins")]
    pub node_plugins: BTreeMap<String, InstanceDocument>,
    /// The index of the creation.
    pub create_index: u64,
    /// The datacenter.
    pub datacenter: String,
    /// True if the node is draining.
    pub drain: bool,
    /// How the node is drained; `null` if it is not.
    pub drain_strategy: Option<DrainStrategyDocument>,
    /// The drivers by name.
    pub drivers: BTreeMap<String, DriverDocument>,
    /// The newest events, oldest first.
    pub events: Vec<NodeEventDocument>,
    /// Where the node answers requests about logs; empty if only the server does.
    #[serde(rename = "HTTPAddr")]
    pub http_address: String,
    /// The host volumes by name.
    pub host_volumes: BTreeMap<String, HostVolumeDocument>,
    /// The node's ID.
    #[serde(rename = "ID")]
    pub id: String,
    /// The last drain, if it was ever drained.
    pub last_drain: Option<LastDrainDocument>,
    /// Metadata that an operator has set.
    pub meta: BTreeMap<String, String>,
    /// The index of the last change.
    pub modify_index: u64,
    /// The node's name.
    pub name: String,
    /// The node class, usually empty.
    pub node_class: String,
    /// The node pool.
    pub node_pool: String,
    /// The resources of the node. Nomad's CLI fails without the object.
    pub node_resources: NodeResourcesDocument,
    /// The resources that jobs cannot use. Nomad's CLI fails without the object.
    pub reserved_resources: NodeReservedDocument,
    /// `eligible` or `ineligible`.
    pub scheduling_eligibility: String,
    /// `initializing`, `ready`, `down` or `disconnected`.
    pub status: String,
    /// Why it has this status.
    pub status_description: String,
    /// When the status changed, in seconds since the epoch.
    pub status_updated_at: i64,
    /// True if `HTTPAddr` requires TLS.
    #[serde(rename = "TLSEnabled")]
    pub requires_tls: bool,
}

/// A driver on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct DriverDocument {
    /// The abilities of the driver.
    pub attributes: BTreeMap<String, String>,
    /// True if the node has the driver.
    pub detected: bool,
    /// Why it is healthy or not.
    pub health_description: String,
    /// True if it can start tasks.
    pub healthy: bool,
    /// The time of the last check, or `null`.
    pub update_time: Option<String>,
}

/// Something that happened to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NodeEventDocument {
    /// The index of the event.
    pub create_index: u64,
    /// The details that programs read, such as `volume_id`.
    pub details: Option<BTreeMap<String, String>>,
    /// A description of the event, for people.
    pub message: String,
    /// `Cluster`, `Drain`, `Storage` or `CSI`.
    pub subsystem: String,
    /// The time, or `null`.
    pub timestamp: Option<String>,
}

/// A directory of a node that jobs can mount.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct HostVolumeDocument {
    /// The name.
    pub name: String,
    /// The path on the node.
    pub path: String,
    /// True if jobs only read it.
    pub read_only: bool,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::decode_value;

    #[test]
    fn a_recorded_node_is_read() {
        let node: NodeDocument = decode_value(&json!({
            "ID": "84124d0e", "Name": "rec2", "Datacenter": "dc1", "NodePool": "default", "NodeClass": "",
            "HTTPAddr": "127.0.0.1:4646", "TLSEnabled": false, "Status": "ready",
            "SchedulingEligibility": "eligible", "Drain": false, "DrainStrategy": null,
            "LastDrain": {"StartedAt": "2026-11-22T02:44:13Z", "Status": "complete", "Meta": {}},
            "NodeResources": {"Cpu": {"CpuShares": 8000, "TotalCpuCores": 2}, "Memory": {"MemoryMB": 24105},
                "Disk": {"DiskMB": 258_019}},
            "ReservedResources": {"Cpu": {"CpuShares": 0}, "Networks": {"ReservedHostPorts": ""}},
            "Drivers": {"exec": {"Attributes": {"driver.exec": "true"}, "Detected": true, "Healthy": true,
                "HealthDescription": "Healthy", "UpdateTime": "2026-11-22T02:44:13.93Z"}},
            "CSINodePlugins": {"hp": {"PluginID": "hp", "Healthy": true, "NodeInfo": {"ID": "rec2"}}},
            "HostVolumes": null, "Meta": {"rack": "r1"},
            "Events": [{"Message": "Node registered", "Subsystem": "Cluster", "Details": null},
                {"Message": "Mount volume", "Subsystem": "Storage",
                    "Details": {"volume_id": "vol1", "success": "true"}, "CreateIndex": 37}],
        }))
        .expect("cannot decode");
        assert_eq!(node.node_resources.cpu.cpu_shares, 8000);
        assert!(node.drivers["exec"].healthy && node.node_plugins["hp"].healthy);
        assert_eq!(node.last_drain.expect("no drain").status, "complete");
        let volume = node.events[1].details.as_ref().expect("no details");
        assert_eq!(volume["volume_id"], "vol1");
    }

    #[test]
    fn a_node_has_everything_that_nomads_cli_requires() {
        let written = json!(NodeDocument::default());
        for (object, part) in [
            ("NodeResources", "Cpu"),
            ("NodeResources", "Memory"),
            ("NodeResources", "Disk"),
            ("ReservedResources", "Cpu"),
            ("ReservedResources", "Memory"),
            ("ReservedResources", "Disk"),
        ] {
            assert!(written[object][part].is_object(), "{object}.{part}");
        }
    }
}
