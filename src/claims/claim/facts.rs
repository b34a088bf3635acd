//! The facts that decisions about claims need besides the record.

use std::collections::{BTreeMap, BTreeSet};

use nomad_csi_model::NodeId;

/// The steps that a plugin needs before it publishes a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginSteps {
    /// PUBLISH_UNPUBLISH_VOLUME: its controller attaches volumes to nodes.
    pub attach: bool,
    /// STAGE_UNSTAGE_VOLUME: its node service stages volumes.
    pub stage: bool,
}

/// The facts about plugins and nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The steps of the plugin's newest instances; `None` while none has reported them. Then nothing is set
    /// up, and what exists is undone from the record.
    pub plugin: Option<PluginSteps>,
    /// By node, true if its instance stages volumes. Nodes without a known instance are missing.
    pub stages: BTreeMap<NodeId, bool>,
    /// Nodes that are gone, fenced, or declared lost by an operator, until they are swept. A node that
    /// is merely silent is not among them.
    pub lost: BTreeSet<NodeId>,
    /// Lost nodes that can be called again, for a sweep and for nothing else.
    pub returned: BTreeSet<NodeId>,
}

impl Facts {
    /// Returns the steps towards a target on a node: those of the instances that carry them out (rule 18).
    pub fn steps_on(&self, node: &NodeId) -> Option<PluginSteps> {
        let plugin = self.plugin?;
        let stage = self.stages.get(node).copied().unwrap_or(plugin.stage);
        Some(PluginSteps { stage, ..plugin })
    }

    /// Returns whether a node is lost.
    pub fn is_lost(&self, node: &NodeId) -> bool {
        self.lost.contains(node)
    }
}
