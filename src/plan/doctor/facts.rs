//! [`VolumeFacts`]: everything that the rules know about one volume.

use crate::{DetachRule, PluginState, ProviderList};
use nomad_csi_model::{
    Alloc, AllocId, BlockedEvaluation, ClientNode, ExternalNodeId, NodeId, Plugin, PluginInstance,
    SeenNodes, UnstartedAlloc, Volume, VolumeClaim, VolumeHealth, one_line,
};

/// The facts about one volume, as they were read.
#[derive(Clone, Copy, Debug)]
pub struct VolumeFacts<'a> {
    /// The volume with the allocations that claim it.
    pub volume: &'a Volume,
    /// Its claims; `None` if the server hides them, as Nomad does.
    pub claims: Option<&'a [VolumeClaim]>,
    /// Its plugin.
    pub plugin: &'a PluginState,
    /// All nodes, or why they could not be read.
    pub nodes: &'a SeenNodes,
    /// The effect of a request to detach the volume from a node.
    pub detach: DetachRule,
    /// The provider's list of volumes.
    pub provider: &'a ProviderList,
    /// The health of the volume as its controller and the nodes that use it report it; `None` if it was not read.
    pub health: Option<&'a VolumeHealth>,
    /// Evaluations that wait in the volume's namespace. Empty if they could not be read.
    pub evaluations: &'a [BlockedEvaluation],
    /// Allocations whose job names the volume, which do not claim it, and whose end is not proven; `None` if they were
    /// not read.
    pub unclaimed: Option<&'a [Alloc]>,
    /// Allocations whose job names the volume, which should run, and whose tasks did not start. Empty if they were not
    /// read.
    pub unstarted: &'a [UnstartedAlloc],
    /// The other registrations of the same data; `None` if they were not read.
    pub sharing: Option<&'a [Volume]>,
    /// The time of the reading, in nanoseconds since the epoch.
    pub now: i64,
}

impl<'a> VolumeFacts<'a> {
    /// Returns the plugin, if it could be read.
    pub(super) fn known_plugin(&self) -> Option<&'a Plugin> {
        match self.plugin {
            PluginState::Known(plugin) => Some(plugin),
            PluginState::Missing | PluginState::Unknown => None,
        }
    }

    /// Returns the plugin's instance with the node service on a node.
    pub(super) fn node_instance(&self, node: &NodeId) -> Option<&'a PluginInstance> {
        self.known_plugin()?.nodes.get(node)
    }

    /// Returns the provider's ID of a node.
    pub(super) fn external_node(&self, node: &NodeId) -> Option<&'a ExternalNodeId> {
        let instance = self.node_instance(node)?;
        instance.node.as_ref().map(|info| &info.external_node_id)
    }

    /// Returns a node; `None` if the nodes are unknown or it is not among them.
    pub(super) fn node(&self, id: &NodeId) -> Option<&'a ClientNode> {
        match self.nodes {
            SeenNodes::Unread(_) => None,
            SeenNodes::Read(nodes) => nodes.iter().find(|node| node.id == *id),
        }
    }

    /// Returns every allocation that is known to concern the volume.
    fn allocs(&self) -> impl Iterator<Item = &'a Alloc> {
        let unclaimed = self.unclaimed.into_iter().flatten();
        self.volume.allocs.iter().chain(unclaimed)
    }

    /// Returns the name of a node for people: the name that operators gave it, or its ID.
    pub(super) fn node_name(&self, id: &NodeId) -> String {
        let listed = self.node(id).map(|node| node.name.as_str());
        let allocs = self.allocs();
        let placed =
            allocs.filter(|alloc| alloc.node_id == *id).map(|alloc| alloc.node_name.as_str());
        let name = listed.into_iter().chain(placed).find(|name| !name.is_empty());
        one_line(name.unwrap_or(id.as_str()))
    }

    /// Returns the allocation with its job: ``allocation `a1` (job `web`)``.
    pub(super) fn alloc_name(&self, id: &AllocId) -> String {
        let allocs = self.allocs();
        let job = allocs
            .filter(|alloc| alloc.id == *id && !alloc.job_id.is_empty())
            .map(|alloc| alloc.job_id.as_str())
            .next();
        let name = format!("allocation `{}`", one_line(id.as_str()));
        match job {
            Some(job) => format!("{name} (job `{}`)", one_line(job)),
            None => name,
        }
    }
}
