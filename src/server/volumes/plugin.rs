//! The plugin that a volume names, and checks of what it supports.

use std::collections::{BTreeMap, BTreeSet};

use crate::candidates::{Candidates, InstanceEnd, NoController, candidates};
use crate::error::{CopySource, ServerError};
use nomad_csi_claims::state::{PluginAlloc, State, plugin};
use nomad_csi_model::{
    AllocId, ControllerCapabilities, NodeId, NodeStatus, Plugin, PluginId, PluginInstance,
    Topology, VolumeRequest,
};

/// A plugin as it was at one moment.
#[derive(Clone, Debug)]
pub(super) struct VolumePlugin {
    plugin: Plugin,
    /// The allocations that have a controller, in the order in which they are called.
    controllers: Vec<PluginAlloc>,
    /// Who ends each instance.
    ends: BTreeMap<AllocId, InstanceEnd>,
    /// The status of every node with an instance.
    nodes: BTreeMap<NodeId, NodeStatus>,
}

impl VolumePlugin {
    /// Returns `None` if no instance was ever fingerprinted. The plugin's requirements are then
    /// unknown, and the agent does not guess them.
    pub(super) fn read(state: &State, id: &PluginId) -> Option<Self> {
        let plugin = plugin(state, id)?.plugin;
        let record = state.plugin_record(id)?;
        let nodes = record.allocs.values().filter_map(|alloc| state.node(&alloc.node));
        let nodes = nodes.map(|node| (node.id.clone(), node.status));
        let controllers = record.controllers();
        let end =
            |alloc: (&AllocId, &PluginAlloc)| (alloc.0.clone(), InstanceEnd::of(state, alloc));
        Some(Self {
            ends: record.allocs.iter().map(end).collect(),
            plugin,
            controllers: controllers.into_iter().cloned().collect(),
            nodes: nodes.collect(),
        })
    }

    pub(super) fn id(&self) -> &PluginId {
        &self.plugin.summary.id
    }

    pub(super) fn provider(&self) -> (&str, &str) {
        (&self.plugin.summary.provider, &self.plugin.version)
    }

    pub(super) fn needs_controller(&self) -> bool {
        self.plugin.summary.controller_required
    }

    /// Refuses a plugin that needs a controller and has no healthy one.
    pub(super) fn check_controller(&self) -> Result<(), ServerError> {
        if self.needs_controller() && self.plugin.summary.controllers.healthy == 0 {
            return Err(ServerError::NoHealthyController(self.id().clone()));
        }
        Ok(())
    }

    /// Refuses a plugin that cannot create volumes.
    pub(super) fn check_create(&self) -> Result<(), ServerError> {
        self.check_controller()?;
        if !self.needs_controller() {
            return Err(ServerError::PluginHasNoController(self.id().clone()));
        }
        if !self.can(|controller| controller.create_delete_volume) {
            return Err(ServerError::CannotCreate(self.id().clone()));
        }
        Ok(())
    }

    /// Refuses a source that the plugin does not advertise (CSI 1.12, CreateVolume).
    pub(super) fn check_source(&self, request: &VolumeRequest) -> Result<(), ServerError> {
        let refused = |source| Err(ServerError::CannotCopy { plugin: self.id().clone(), source });
        if request.clone_id.is_some() && !self.can(|controller| controller.clone_volume) {
            return refused(CopySource::Volume);
        }
        if request.snapshot_id.is_some() && !self.can(|c| c.create_delete_snapshot) {
            return refused(CopySource::Snapshot);
        }
        Ok(())
    }

    /// Returns whether a controller has the capability. All are expected to agree; healthy ones decide if there
    /// are any.
    pub(super) fn can(&self, has: impl Fn(&ControllerCapabilities) -> bool) -> bool {
        let has_capability = |instance: &PluginInstance| {
            let controller = instance.controller.as_ref();
            controller.is_some_and(|controller| has(&controller.capabilities))
        };
        let instances = || self.plugin.controllers.values();
        let mut healthy = instances().filter(|i| i.health.healthy).peekable();
        if healthy.peek().is_some() {
            return healthy.any(has_capability);
        }
        instances().any(has_capability)
    }

    /// The healthy nodes that report the health of volumes, with the allocation of each instance.
    pub(super) fn nodes_with_health(&self) -> Vec<(NodeId, AllocId)> {
        let nodes = self.plugin.nodes.iter().filter(|(_, instance)| {
            let node = instance.node.as_ref();
            instance.health.healthy && node.is_some_and(|node| node.capabilities.get_volume_health)
        });
        nodes.map(|(node, instance)| (node.clone(), instance.alloc_id.clone())).collect()
    }

    /// Returns whether an instance has VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub(super) fn has_topology(&self) -> bool {
        let mut instances = self.plugin.controllers.values().chain(self.plugin.nodes.values());
        instances.any(|instance| instance.requires_topologies)
    }

    /// The topologies of the nodes, if the plugin supports topologies.
    pub(super) fn topologies(&self) -> BTreeSet<Topology> {
        if !self.has_topology() {
            return BTreeSet::new();
        }
        let nodes = self.plugin.nodes.values();
        let nodes = nodes.filter_map(|instance| instance.node.as_ref());
        nodes.filter_map(|node| node.accessible_topology.clone()).collect()
    }

    /// The controllers that can be called, of those that a volume may be bound to.
    pub(super) fn candidates(&self, bound: Option<&AllocId>) -> Result<Candidates, NoController> {
        let bound = bound.map(|instance| {
            let end = self.ends.get(instance).cloned();
            (instance, end.unwrap_or(InstanceEnd::Server))
        });
        let controllers: Vec<_> = self.controllers.iter().collect();
        candidates(self.id(), bound, &controllers, |node| self.nodes.get(node).copied())
    }
}
