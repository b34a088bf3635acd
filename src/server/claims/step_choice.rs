//! Who gets a step, and for which claim. Pure.

use crate::candidates::{InstanceEnd, bound_help, preferred_controller};
use nomad_csi_claims::claim::{ClaimKey, Known, Step};
use nomad_csi_claims::state::{ControllerCall, ControllerEffect, State, bound_controller};
use nomad_csi_model::{
    AllocId, ControllerCapabilities, ExternalNodeId, NodeCapabilities, NodeId, NodeStatus,
    RemoteVolume, shell_quoted,
};

/// Returns the held claims that need the step.
pub(super) fn waiting_for(state: &State, volume: &RemoteVolume, step: &Step) -> Vec<ClaimKey> {
    let Some(record) = state.claims(volume) else {
        return vec![];
    };
    let claims = record.claims.claims.iter();
    let waiting = claims.filter(|(key, claim)| {
        let affects = match step {
            Step::NodePublish(one) => *key == one,
            Step::ControllerPublish(node) | Step::NodeStage(node) => claim.node == *node,
            Step::NodeExpand(_)
            | Step::NodeUnpublish(_)
            | Step::NodeUnstage(_)
            | Step::ControllerUnpublish(_)
            | Step::AssumeNodeGone(_)
            | Step::Sweep(_)
            | Step::Release(_) => false,
        };
        affects && claim.is_held() && claim.published != Known::Yes
    });
    waiting.map(|(key, _)| key.clone()).collect()
}

/// Returns the command that tries a step of a release again at once.
pub(super) fn retry_command(state: &State, volume: &RemoteVolume, step: &Step) -> Option<String> {
    let claims = &state.claims(volume)?.claims.claims;
    match step {
        Step::NodeUnpublish(key) => {
            let registration = claims.get(key)?.volume.command_words();
            let alloc = shell_quoted(&key.alloc);
            Some(format!("nomad-csi volume release {registration} --alloc {alloc}"))
        }
        Step::NodeUnstage(node) | Step::ControllerUnpublish(node) => {
            let mut claims = claims.values();
            let claim = claims.find(|claim| claim.node == *node)?;
            Some(format!(
                "nomad-csi volume detach {} {}",
                claim.volume.command_words(),
                shell_quoted(node)
            ))
        }
        Step::ControllerPublish(_)
        | Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
        | Step::AssumeNodeGone(_)
        | Step::Sweep(_)
        | Step::Release(_) => None,
    }
}

/// Returns the call of a step to a controller; `None` if a node carries the step out.
pub(super) fn controller_call(volume: &RemoteVolume, step: &Step) -> Option<ControllerCall> {
    match step {
        Step::ControllerPublish(node) | Step::ControllerUnpublish(node) => {
            let effect = ControllerEffect::Attached(node.clone());
            Some(ControllerCall::OfVolume { volume: volume.clone(), effect })
        }
        Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
        | Step::NodeUnpublish(_)
        | Step::NodeUnstage(_)
        | Step::AssumeNodeGone(_)
        | Step::Sweep(_)
        | Step::Release(_) => None,
    }
}

/// Returns the controller that a step waits for, with the reason and what helps: the volume is bound to it, and it cannot be
/// called.
pub(super) fn awaited_controller(
    state: &State,
    volume: &RemoteVolume,
    step: &Step,
) -> Option<(AllocId, String, String)> {
    let call = controller_call(volume, step)?;
    let instance = bound_controller(state, &call)?;
    let record = state.plugin_record(&volume.plugin_id)?;
    let alloc = record.allocs.get(instance)?;
    let (node, bound) = (state.node(&alloc.node), &alloc.instance);
    let is_away = node.is_some_and(|node| node.status != NodeStatus::Ready);
    let reason = match (&bound.controller, bound.health.healthy) {
        (Some(_), true) if is_away => format!("its node `{}` is not connected", alloc.node),
        (Some(_), true) => return None,
        (_, false) => format!("it is not healthy: {}", bound.health.description),
        (None, true) => "it has no controller now".to_owned(),
    };
    let end = InstanceEnd::on_record(state, &volume.plugin_id, instance);
    let help = bound_help(&volume.plugin_id, instance, &end);
    Some((instance.clone(), reason, help))
}

/// Returns the plugin's allocation to call: while the effect of an earlier call is possible, the one
/// that got it, unless it has ended. For a controller, an earlier call is any of the volume.
pub(super) fn instance_for(state: &State, volume: &RemoteVolume, step: &Step) -> Option<AllocId> {
    let plugin = &volume.plugin_id;
    let claims = &state.claims(volume)?.claims;
    if let Some(call) = controller_call(volume, step) {
        let bound = bound_controller(state, &call).cloned();
        return bound.or_else(|| preferred_controller(state, plugin));
    }
    let is_open = step.effect().is_some_and(|effect| claims.known(&effect) == Known::Maybe);
    let bound = claims.call(step).filter(|_| is_open);
    let record = state.plugin_record(plugin)?;
    if let Some(call) = bound
        && record.allocs.contains_key(&call.instance)
    {
        return Some(call.instance.clone());
    }
    let newest = match step {
        Step::NodePublish(key) | Step::NodeUnpublish(key) => {
            state.node_instance(plugin, &claims.claims.get(key)?.node)?
        }
        Step::NodeStage(node)
        | Step::NodeUnstage(node)
        | Step::NodeExpand(node)
        | Step::AssumeNodeGone(node)
        | Step::Sweep(node) => state.node_instance(plugin, node)?,
        // Its controller is chosen above.
        Step::ControllerPublish(_) | Step::ControllerUnpublish(_) | Step::Release(_) => {
            return None;
        }
    };
    Some(newest.alloc_id.clone())
}

/// Returns the node that carries a step out; `None` for one of a controller, and for a claim that is gone.
pub(super) fn node_of(state: &State, volume: &RemoteVolume, step: &Step) -> Option<NodeId> {
    match step {
        Step::NodePublish(key) | Step::NodeUnpublish(key) => {
            Some(state.claims(volume)?.claims.claims.get(key)?.node.clone())
        }
        Step::NodeStage(node)
        | Step::NodeUnstage(node)
        | Step::NodeExpand(node)
        | Step::AssumeNodeGone(node)
        | Step::Sweep(node) => Some(node.clone()),
        Step::ControllerPublish(_) | Step::ControllerUnpublish(_) | Step::Release(_) => None,
    }
}

/// Returns the node of an attach whose ID at the provider is not known: neither the record has it, nor
/// does the plugin report it.
pub(super) fn lacks_node_id(state: &State, volume: &RemoteVolume, step: &Step) -> Option<NodeId> {
    let Step::ControllerPublish(node) = step else {
        return None;
    };
    let claims = &state.claims(volume)?.claims;
    let of_claim = || claims.claim_for(node)?.1.external_node.as_ref();
    let is_known = claims.attachments.contains_key(node)
        || of_claim().is_some()
        || state.external_node(&volume.plugin_id, node).is_some();
    (!is_known).then(|| node.clone())
}

/// The host that carries out a step, as far as a failure can depend on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StepHost {
    alloc: AllocId,
    controller: Option<ControllerCapabilities>,
    node: Option<NodeCapabilities>,
    external_node: Option<ExternalNodeId>,
}

/// Returns what would carry out the step now; `None` if nothing healthy can.
pub(super) fn step_host(state: &State, volume: &RemoteVolume, step: &Step) -> Option<StepHost> {
    let plugin = &volume.plugin_id;
    let alloc = instance_for(state, volume, step)?;
    let instance = &state.plugin_record(plugin)?.allocs.get(&alloc)?.instance;
    let external_node = match step {
        Step::ControllerPublish(node) => state.external_node(plugin, node),
        Step::ControllerUnpublish(_)
        | Step::NodeStage(_)
        | Step::NodePublish(_)
        | Step::NodeExpand(_)
        | Step::NodeUnpublish(_)
        | Step::NodeUnstage(_)
        | Step::AssumeNodeGone(_)
        | Step::Sweep(_)
        | Step::Release(_) => None,
    };
    instance.health.healthy.then(|| StepHost {
        alloc,
        controller: instance.controller.as_ref().map(|one| one.capabilities),
        node: instance.node.as_ref().map(|one| one.capabilities),
        external_node,
    })
}

/// Returns the instance of a plugin on a node for a sweep.
pub(super) fn node_instance(
    state: &State,
    volume: &RemoteVolume,
    node: &NodeId,
) -> Option<AllocId> {
    let instance = state.node_instance(&volume.plugin_id, node)?;
    Some(instance.alloc_id.clone())
}
