//! Chooses the controllers of a plugin that can be called. Pure.

use std::collections::BTreeMap;

use nomad_csi_claims::state::PluginAlloc;
use nomad_csi_model::{AllocId, Node, NodeId, NodeStatus, PluginId};

/// Why no controller can be called. Nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoController {
    /// No instance provides the plugin's controller service.
    #[error("failed to find instances of controller plugin \"{0}\"")]
    NoInstance(PluginId),
    /// No instance is usable.
    #[error("failed to find clients running controller plugin \"{plugin}\": {}", reasons.join(", "))]
    NoneUsable {
        /// The plugin.
        plugin: PluginId,
        /// The reason for each instance, with Nomad's text.
        reasons: Vec<String>,
    },
}

/// The usable instances of one plugin, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    pub(super) plugin: PluginId,
    pub(crate) allocs: Vec<AllocId>,
}

/// Chooses the instances to call: healthy controllers on ready nodes, in their order.
///
/// # Errors
/// If none is usable, with the reason for each.
pub fn candidates(
    plugin: &PluginId,
    controllers: &[PluginAlloc],
    nodes: &BTreeMap<NodeId, Node>,
) -> Result<Candidates, NoController> {
    if controllers.is_empty() {
        return Err(NoController::NoInstance(plugin.clone()));
    }
    let mut usable = vec![];
    let mut reasons = vec![];
    for controller in controllers {
        match unusable_reason(controller, nodes) {
            None => usable.push(controller.instance.alloc_id.clone()),
            Some(reason) => reasons.push(reason),
        }
    }
    if usable.is_empty() {
        return Err(NoController::NoneUsable { plugin: plugin.clone(), reasons });
    }
    Ok(Candidates { plugin: plugin.clone(), allocs: usable })
}

fn unusable_reason(controller: &PluginAlloc, nodes: &BTreeMap<NodeId, Node>) -> Option<String> {
    let PluginAlloc { node, instance, .. } = controller;
    let alloc = &instance.alloc_id;
    if instance.controller.is_none() {
        return Some(format!(
            "plugin instance \"{alloc}\" is not a controller but was registered as one - this is always a bug"
        ));
    }
    if !instance.health.healthy {
        return Some(format!("plugin instance \"{alloc}\" is not healthy"));
    }
    match nodes.get(node).map(|node| node.status) {
        None => Some(format!("cannot find node \"{node}\" for plugin instance \"{alloc}\"")),
        Some(NodeStatus::Down) => {
            Some(format!("node \"{node}\" for plugin instance \"{alloc}\" is not ready"))
        }
        Some(NodeStatus::Ready) => None,
    }
}
