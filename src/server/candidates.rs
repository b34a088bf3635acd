//! Chooses the controllers of a plugin that can be called. Pure.
//!
//! A volume that is bound to an instance waits until that one is gone, and who ends it depends on what it is ([`InstanceEnd`]):
//! what is advised ends the wait.

use nomad_csi_claims::state::{PluginAlloc, State};
use nomad_csi_model::{AllocId, FenceStatement, NodeId, NodeStatus, PluginId, shell_quoted};

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
    /// The volume is bound to an instance that is not usable.
    #[error(
        "an earlier call for the volume may still take effect in plugin instance \"{instance}\", so no other instance is called: {reason}"
    )]
    Bound {
        /// The plugin.
        plugin: PluginId,
        /// The instance.
        instance: AllocId,
        /// Why it cannot be called.
        reason: String,
        /// Who ends it.
        end: InstanceEnd,
    },
}

/// Who ends an instance of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceEnd {
    /// The server, because its allocation runs.
    Server,
    /// This node, because its allocation has ended and something of it may be left.
    Node(NodeId),
    /// An operator who knows what became of this node: it is not connected.
    Away(NodeId),
    /// An operator on this node: it is behind an endpoint, or an earlier version forgot its allocation.
    Operator(NodeId),
}

impl InstanceEnd {
    /// Returns who ends an instance on record.
    pub(crate) fn of(state: &State, (id, alloc): (&AllocId, &PluginAlloc)) -> Self {
        let node = state.node(&alloc.node);
        if node.is_some_and(|node| node.status != NodeStatus::Ready) {
            return Self::Away(alloc.node.clone());
        }
        match state.alloc(id) {
            Some(record) if record.has_ended => Self::Node(record.node.clone()),
            Some(_) => Self::Server,
            None => Self::Operator(alloc.node.clone()),
        }
    }

    /// Returns who ends an instance of a plugin. One that is not on record is gone already.
    pub(crate) fn on_record(state: &State, plugin: &PluginId, instance: &AllocId) -> Self {
        let record = state.plugin_record(plugin);
        let alloc = record.and_then(|record| record.allocs.get(instance));
        alloc.map_or(Self::Server, |alloc| Self::of(state, (instance, alloc)))
    }
}

impl NoController {
    /// Returns what helps, if that is not what helps whenever no controller can be called.
    pub(crate) fn help(&self) -> Option<String> {
        match self {
            Self::Bound { plugin, instance, end, .. } => Some(bound_help(plugin, instance, end)),
            Self::NoInstance(_) | Self::NoneUsable { .. } => None,
        }
    }
}

/// Returns what lets the calls of a volume go on that is bound to an instance that cannot be called.
pub(crate) fn bound_help(plugin: &PluginId, instance: &AllocId, end: &InstanceEnd) -> String {
    let (status, id) = (shell_quoted(plugin), shell_quoted(instance));
    let healthy =
        format!("make instance `{instance}` healthy (`nomad-csi plugin status {status}`), or");
    match end {
        InstanceEnd::Server => format!(
            "{healthy} end it with `nomad-csi alloc stop {id}`; when it is gone, another instance is called"
        ),
        InstanceEnd::Node(node) => left_help(node),
        InstanceEnd::Away(node) => format!(
            "connect node `{node}` again, or turn its machine off and run `{}`; then another instance is called",
            FenceStatement::command(node)
        ),
        InstanceEnd::Operator(node) => format!(
            "{healthy} end its process on node `{node}` and start the agent there without its `--plugin-endpoint`; if it is not known \
             which process it is, restart the machine; when it is gone, another instance is called"
        ),
    }
}

/// Returns what ends an instance whose allocation has ended.
pub(crate) fn left_help(node: &NodeId) -> String {
    format!(
        "the agent on node `{node}` ends what is left of the allocation, and tries again until it has: start that agent if it does \
         not run, and end the processes that its log names"
    )
}

/// The usable instances of one plugin, the preferred one first; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    pub(super) plugin: PluginId,
    pub(crate) allocs: Vec<AllocId>,
}

impl Candidates {
    /// Returns the preferred instance.
    pub(crate) fn preferred(&self) -> Option<&AllocId> {
        self.allocs.first()
    }
}

/// Chooses the instances to call: healthy controllers on ready nodes, in their order. A volume that is `bound` to an
/// instance has no other one (rule 4 of the claims machine).
///
/// # Errors
/// If none is usable, with the reason for each.
pub fn candidates(
    plugin: &PluginId,
    bound: Option<(&AllocId, InstanceEnd)>,
    controllers: &[&PluginAlloc],
    status: impl Fn(&NodeId) -> Option<NodeStatus>,
) -> Result<Candidates, NoController> {
    if let Some(bound) = bound {
        return only(plugin, bound, controllers, status);
    }
    if controllers.is_empty() {
        return Err(NoController::NoInstance(plugin.clone()));
    }
    let mut usable = vec![];
    let mut reasons = vec![];
    for controller in controllers {
        match unusable_reason(controller, &status) {
            None => usable.push(controller.instance.alloc_id.clone()),
            Some(reason) => reasons.push(reason),
        }
    }
    if usable.is_empty() {
        return Err(NoController::NoneUsable { plugin: plugin.clone(), reasons });
    }
    Ok(Candidates { plugin: plugin.clone(), allocs: usable })
}

/// Returns the controller of a plugin that is called first, for claims and for volumes; `None` if none can be called.
pub(crate) fn preferred_controller(state: &State, plugin: &PluginId) -> Option<AllocId> {
    let controllers = state.plugin_record(plugin)?.controllers();
    let status = |node: &NodeId| state.node(node).map(|node| node.status);
    candidates(plugin, None, &controllers, status).ok()?.preferred().cloned()
}

fn only(
    plugin: &PluginId,
    (instance, end): (&AllocId, InstanceEnd),
    controllers: &[&PluginAlloc],
    status: impl Fn(&NodeId) -> Option<NodeStatus>,
) -> Result<Candidates, NoController> {
    let mut controllers = controllers.iter();
    let reason = match controllers.find(|controller| controller.instance.alloc_id == *instance) {
        Some(controller) => unusable_reason(controller, status),
        None => Some("it has no controller now".to_owned()),
    };
    match reason {
        None => Ok(Candidates { plugin: plugin.clone(), allocs: vec![instance.clone()] }),
        Some(reason) => {
            let (plugin, instance) = (plugin.clone(), instance.clone());
            Err(NoController::Bound { plugin, instance, reason, end })
        }
    }
}

fn unusable_reason(
    controller: &PluginAlloc,
    status: impl Fn(&NodeId) -> Option<NodeStatus>,
) -> Option<String> {
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
    match status(node) {
        None => Some(format!("cannot find node \"{node}\" for plugin instance \"{alloc}\"")),
        Some(NodeStatus::Disconnected | NodeStatus::Down) => {
            Some(format!("node \"{node}\" for plugin instance \"{alloc}\" is not ready"))
        }
        Some(NodeStatus::Ready) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_claims::state::EventKind;
    use nomad_csi_claims::state::samples::{instance, started, state_of};
    use nomad_csi_model::{Node, PluginInstance};

    /// Claims and volumes call the same controller first: that of the lowest node ID, however new the others are.
    #[test]
    fn the_controller_of_claims_is_the_first_candidate_of_volumes() {
        let plugin = PluginId::new("ebs");
        let observed = |node: &str, alloc: &str, healthy: bool| EventKind::PluginAllocObserved {
            plugin: plugin.clone(),
            node: node.into(),
            instance: Box::new(PluginInstance { alloc_id: alloc.into(), ..instance(healthy) }),
        };
        let registered = ["n1", "n2"]
            .map(|id| EventKind::NodeRegistered { node: Node::new(id.into(), "machine", "dc1") });
        for (first_is_healthy, expected) in [(true, "of-n1"), (false, "of-n2")] {
            let observed =
                [observed("n1", "of-n1", first_is_healthy), observed("n2", "of-n2", true)];
            let state = state_of([started()].into_iter().chain(registered.clone()).chain(observed));
            let record = state.plugin_record(&plugin).unwrap();
            let ready = |_: &NodeId| Some(NodeStatus::Ready);
            let of_volumes = candidates(&plugin, None, &record.controllers(), ready).unwrap();
            let of_claims = preferred_controller(&state, &plugin);
            assert_eq!(of_claims.as_ref(), of_volumes.preferred());
            assert_eq!(of_claims, Some(expected.into()));
        }
        assert_eq!(preferred_controller(&state_of([started()]), &plugin), None);
    }
}
