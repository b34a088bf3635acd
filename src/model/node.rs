//! A client node, which runs allocations and plugins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::host_volume::HostVolume;
use super::id::NodeId;
use super::mount_config::MountConfig;

/// The status of a node on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// The node accepts allocations.
    Ready,
    /// The node missed its heartbeats.
    Down,
}

/// A Nomad client node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The ID, a UUID.
    pub id: NodeId,
    /// The name, usually the host name.
    pub name: String,
    /// The datacenter.
    pub datacenter: String,
    /// The status on the server.
    pub status: NodeStatus,
    /// True if allocations may be placed there. An operator changes it.
    #[serde(default = "eligible", skip_serializing_if = "is_eligible")]
    pub is_eligible: bool,
    /// True if its allocations must leave it. Only an ineligible node drains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draining: bool,
    /// True if system jobs stay while it drains.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_system_jobs: bool,
    /// The drivers that run tasks there, and what each can mount.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drivers: BTreeMap<String, MountConfig>,
    /// The directories that jobs can mount by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub host_volumes: BTreeMap<String, HostVolume>,
    /// Other attributes that constraints can compare, such as `kernel.name`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
}

fn eligible() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_eligible(is_eligible: &bool) -> bool {
    *is_eligible
}

impl Node {
    /// Creates a ready node that runs no tasks.
    pub fn new(id: NodeId, name: impl Into<String>, datacenter: impl Into<String>) -> Self {
        Self {
            id,
            name: name.into(),
            datacenter: datacenter.into(),
            status: NodeStatus::Ready,
            is_eligible: true,
            is_draining: false,
            keeps_system_jobs: false,
            drivers: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }

    /// Returns what a reference such as `attr.kernel.name` means on this node; `None` if the node does not
    /// have it.
    pub fn reference(&self, name: &str) -> Option<String> {
        match name {
            "node.unique.id" => Some(self.id.to_string()),
            "node.unique.name" | "attr.unique.hostname" => Some(self.name.clone()),
            "node.datacenter" => Some(self.datacenter.clone()),
            "node.pool" => Some("default".to_owned()),
            "node.class" => None,
            name => self.attribute(name.strip_prefix("attr.")?),
        }
    }

    fn attribute(&self, name: &str) -> Option<String> {
        if let Some(driver) = name.strip_prefix("driver.") {
            let (driver, is_mount_config) = match driver.strip_suffix(".mount_config") {
                Some(driver) => (driver, true),
                None => (driver, false),
            };
            let config = self.drivers.get(driver)?;
            let value = match is_mount_config {
                true => config.as_str(),
                false => "1",
            };
            return Some(value.to_owned());
        }
        self.attributes.get(name).cloned()
    }
}
