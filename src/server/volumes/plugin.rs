//! What is known of the plugin that a volume names, and the calls that are made to it.

use std::collections::BTreeMap;

use crate::model::{
    ControllerCapabilities, Node, NodeId, Plugin, PluginId, PluginInstance, VolumeRequest,
};
use crate::server::error::{CopySource, ServerError};
use crate::server::forward::{Candidates, NoController, candidates};
use crate::state::{State, plugin};

/// A plugin as it was at one moment.
#[derive(Clone, Debug)]
pub(super) struct PluginFacts {
    plugin: Plugin,
    nodes: BTreeMap<NodeId, Node>,
}

impl PluginFacts {
    /// `None` if no instance was ever fingerprinted: what the plugin needs is not known then, and
    /// nothing is guessed (W18).
    pub(super) fn look(state: &State, id: &PluginId) -> Option<Self> {
        let plugin = plugin(state, id)?.plugin;
        let nodes = state.nodes().map(|node| (node.id.clone(), node.clone()));
        Some(Self {
            plugin,
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

    /// `csi-orchestration` 2.2.
    pub(super) fn check(&self) -> Result<(), ServerError> {
        if self.needs_controller() && self.plugin.summary.controllers.healthy == 0 {
            return Err(ServerError::NoHealthyController(self.id().clone()));
        }
        Ok(())
    }

    /// `csi-orchestration` 2.6.
    pub(super) fn check_create(&self) -> Result<(), ServerError> {
        self.check()?;
        if !self.needs_controller() {
            return Err(ServerError::PluginHasNoController(self.id().clone()));
        }
        if !self.can(|controller| controller.create_delete_volume) {
            return Err(ServerError::CannotCreate(self.id().clone()));
        }
        Ok(())
    }

    /// Sources that a plugin does not advertise are not sent (`csi-spec` 4.3).
    pub(super) fn check_source(&self, request: &VolumeRequest) -> Result<(), ServerError> {
        let refused = |source| {
            Err(ServerError::CannotCopy {
                plugin: self.id().clone(),
                source,
            })
        };
        if request.clone_id.is_some() && !self.can(|controller| controller.clone_volume) {
            return refused(CopySource::Volume);
        }
        if request.snapshot_id.is_some() && !self.can(|c| c.create_delete_snapshot) {
            return refused(CopySource::Snapshot);
        }
        Ok(())
    }

    /// Whether a controller says so; all are taken to say the same, and one that is well is believed
    /// rather than one that is not.
    pub(super) fn can(&self, has: impl Fn(&ControllerCapabilities) -> bool) -> bool {
        let says = |instance: &PluginInstance| {
            let controller = instance.controller.as_ref();
            controller.is_some_and(|controller| has(&controller.capabilities))
        };
        let instances = || self.plugin.controllers.values();
        let mut well = instances().filter(|i| i.health.healthy).peekable();
        if well.peek().is_some() {
            return well.any(says);
        }
        instances().any(says)
    }

    /// VOLUME_ACCESSIBILITY_CONSTRAINTS.
    pub(super) fn has_topology(&self) -> bool {
        let mut instances = self
            .plugin
            .controllers
            .values()
            .chain(self.plugin.nodes.values());
        instances.any(|instance| instance.requires_topologies)
    }

    /// Whom to call.
    pub(super) fn candidates(&self) -> Result<Candidates, NoController> {
        candidates(self.id(), &self.plugin.controllers, &self.nodes)
    }
}
