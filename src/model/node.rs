//! A client node, which runs allocations and plugins.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::host_volume::HostVolume;
use super::id::NodeId;
use super::job::Job;
use super::mount_config::MountConfig;

/// The name of the attribute that is the node's name.
const HOST_NAME: &str = "unique.hostname";

/// The references to fields of a node.
const FIELDS: [&str; 6] = [
    "node.class",
    "node.datacenter",
    "node.pool",
    "node.region",
    "node.unique.id",
    "node.unique.name",
];

/// The status of a node on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStatus {
    /// The node can be called.
    Ready,
    /// The node is not connected. What runs there may go on, and is expected to be seen again.
    Disconnected,
    /// The node has not been connected for so long that services are placed elsewhere. What ran there may still run.
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
    /// When it got this status, in nanoseconds since the epoch; 0 if an earlier version recorded it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub status_since: i64,
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
fn is_zero(time: &i64) -> bool {
    *time == 0
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
            status_since: 0,
            is_eligible: true,
            is_draining: false,
            keeps_system_jobs: false,
            drivers: BTreeMap::new(),
            host_volumes: BTreeMap::new(),
            attributes: BTreeMap::new(),
        }
    }

    /// Returns this node with what the server and an operator decided about the known one: a node says what it is, and never
    /// whether it is connected, or takes allocations.
    #[must_use]
    pub fn with_decisions_of(self, known: Option<&Self>) -> Self {
        let Some(known) = known else {
            return self;
        };
        Self {
            status: known.status,
            status_since: known.status_since,
            is_eligible: known.is_eligible,
            is_draining: known.is_draining,
            keeps_system_jobs: known.keeps_system_jobs,
            ..self
        }
    }

    /// Returns what a reference such as `attr.kernel.name` means on this node; `None` if the node does not
    /// have it. Constraints and tasks read the same values.
    pub fn reference(&self, name: &str) -> Option<String> {
        match self.field(name) {
            Some(value) => Some(value.to_owned()),
            None => self.attribute(name.strip_prefix("attr.")?).map(str::to_owned),
        }
    }

    /// Returns the names of all references that have a value on this node.
    pub fn reference_names(&self) -> Vec<String> {
        let fields = FIELDS.map(str::to_owned).into_iter();
        fields.chain(self.all_attributes().into_keys().map(|name| format!("attr.{name}"))).collect()
    }

    /// Returns all attributes, under the names that follow `attr.`.
    pub fn all_attributes(&self) -> BTreeMap<String, String> {
        let mut all = self.attributes.clone();
        all.insert(HOST_NAME.to_owned(), self.name.clone());
        for (driver, config) in &self.drivers {
            all.insert(format!("driver.{driver}"), "1".to_owned());
            all.insert(format!("driver.{driver}.mount_config"), config.as_str().to_owned());
        }
        all
    }

    /// A node has every one of [`FIELDS`]. It has no class, so its class is empty, as in Nomad.
    fn field(&self, name: &str) -> Option<&str> {
        match name {
            "node.unique.id" => Some(self.id.as_str()),
            "node.unique.name" => Some(&self.name),
            "node.datacenter" => Some(&self.datacenter),
            "node.region" => Some(Job::DEFAULT_REGION),
            "node.pool" => Some("default"),
            "node.class" => Some(""),
            _ => None,
        }
    }

    fn attribute(&self, name: &str) -> Option<&str> {
        if name == HOST_NAME {
            return Some(&self.name);
        }
        if let Some(driver) = name.strip_prefix("driver.") {
            return match driver.strip_suffix(".mount_config") {
                Some(driver) => self.drivers.get(driver).map(|config| config.as_str()),
                None => self.drivers.get(driver).map(|_| "1"),
            };
        }
        self.attributes.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_reference_has_a_value() {
        let mut node = Node::new("n1".into(), "alpha", "dc1");
        node.drivers.insert("exec".into(), MountConfig::All);
        node.attributes.insert("kernel.name".into(), "linux".into());
        let names = node.reference_names();
        assert_eq!(names.len(), FIELDS.len() + 4);
        for name in &names {
            assert!(node.reference(name).is_some(), "{name}");
        }
        for (name, value) in node.all_attributes() {
            assert_eq!(node.reference(&format!("attr.{name}")), Some(value), "{name}");
        }
        for name in ["attr.", "attr.node.class", "kernel.name", "meta.rack", "node.Class", ""] {
            assert_eq!(node.reference(name), None, "{name}");
        }
    }
}
