//! The stored data of one plugin: its allocations, each with what its last fingerprint found.
//!
//! A controller allocation and a node allocation of one plugin on one node are two entries, and so
//! are the old and the new allocation of an upgrade (B68, B71). Readers get one instance per node and
//! service, as in Nomad: the newest healthy one, or the newest one if none is healthy.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use nomad_csi_model::{AllocId, NodeId, PluginInstance};

/// An allocation of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginAlloc {
    /// The node that runs it.
    pub node: NodeId,
    /// The index of its first fingerprint. A higher index is a newer allocation. One that was gone and returns under its ID,
    /// as a plugin behind the same endpoint, is a new one.
    pub create_index: u64,
    /// The index of the first fingerprint of the program that it runs: another process or version is another program. Since
    /// version 9.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub program_index: u64,
    /// The result of its last fingerprint, with the services that it has.
    pub instance: PluginInstance,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_zero(index: &u64) -> bool {
    *index == 0
}

/// The stored data of a plugin. It exists while it has an allocation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, from = "StoredPluginRecord")]
pub struct PluginRecord {
    /// The allocations by their IDs.
    pub allocs: BTreeMap<AllocId, PluginAlloc>,
    /// The index of the first fingerprint of the first allocation.
    pub create_index: u64,
    /// The index of the last change of any allocation.
    pub modify_index: u64,
    /// The time of the first fingerprint, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last change of any allocation, in nanoseconds since the epoch.
    pub modify_time: i64,
}

impl PluginRecord {
    /// Returns the allocations that have a controller, in the order in which they are called: by node
    /// ID, and the newest of a node first.
    pub fn controllers(&self) -> Vec<&PluginAlloc> {
        let has_controller = |alloc: &&PluginAlloc| alloc.instance.controller.is_some();
        let mut controllers: Vec<_> = self.allocs.values().filter(has_controller).collect();
        controllers.sort_by_key(|alloc| (&alloc.node, Reverse(alloc.create_index)));
        controllers
    }

    /// Returns the newest allocation on the node.
    pub fn newest_on(&self, node: &NodeId) -> Option<&PluginAlloc> {
        let here = self.allocs.values().filter(|alloc| alloc.node == *node);
        here.max_by_key(|alloc| alloc.create_index)
    }

    /// Returns one instance per node of those that have the service.
    pub(super) fn by_node(
        &self,
        has_service: fn(&PluginInstance) -> bool,
    ) -> BTreeMap<&NodeId, &PluginInstance> {
        let mut serving: Vec<_> =
            self.allocs.values().filter(|alloc| has_service(&alloc.instance)).collect();
        serving.sort_by_key(|alloc| (alloc.instance.health.healthy, alloc.create_index));
        let pairs = serving.iter().map(|alloc| (&alloc.node, &alloc.instance));
        pairs.collect()
    }
}

/// A plugin as snapshots contain it. Up to version 3 it has one instance per node.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPluginRecord {
    #[serde(default)]
    allocs: BTreeMap<AllocId, PluginAlloc>,
    #[serde(default)]
    instances: BTreeMap<NodeId, PluginInstance>,
    create_index: u64,
    modify_index: u64,
    create_time: i64,
    modify_time: i64,
}

impl From<StoredPluginRecord> for PluginRecord {
    fn from(stored: StoredPluginRecord) -> Self {
        let mut allocs = stored.allocs;
        allocs.extend(stored.instances.into_iter().map(|(node, instance)| {
            let (create_index, program_index) = (stored.create_index, 0);
            let alloc = PluginAlloc { node, create_index, program_index, instance };
            (alloc.instance.alloc_id.clone(), alloc)
        }));
        Self {
            allocs,
            create_index: stored.create_index,
            modify_index: stored.modify_index,
            create_time: stored.create_time,
            modify_time: stored.modify_time,
        }
    }
}
