//! The sweep of a node that returned (rule 7 of the claims machine).
//!
//! Until it has succeeded, no claim is admitted on the node and no step is driven there. A volume is
//! swept once the record has given up everything it had there. The sweep repeats until the node has
//! nothing left.

use super::step_choice::node_instance;
use super::step_runner::StepRunner;
use crate::claim::Step;
use crate::model::{NodeId, RemoteVolume};
use crate::ports::{HostError, SweepOutcome};
use crate::server::cell::Expected;
use crate::state::{Event, EventKind, State};

/// Sweeps a node once. Returns whether it is clean and is used again.
pub(super) async fn sweep_node(runner: &StepRunner, node: &NodeId) -> bool {
    let Ok(host) = runner.calls.node(node) else {
        return false;
    };
    let left = match host.left_behind().await {
        Ok(left) => left,
        Err(error) => {
            tracing::warn!(node.id = %node, %error, "the node could not be inspected for a sweep");
            return false;
        }
    };
    if !left.is_empty() {
        for volume in left {
            sweep_volume(runner, node, volume).await;
        }
        return false;
    }
    if runner.ports.cell.read(|state| has_anything(state, node)) {
        return false;
    }
    let node = node.clone();
    let event = Event::new(runner.ports.clock.now(), EventKind::NodeSwept { node });
    runner.ports.cell.commit(Expected::Any, event).await.is_ok()
}

/// Whether the record still has anything on the node.
fn has_anything(state: &State, node: &NodeId) -> bool {
    let is_due = |volume: &RemoteVolume| {
        let steps = state.claim_steps(volume);
        steps.contains(&Step::Sweep(node.clone()))
    };
    let mut claimed = state.all_claims().filter(|record| {
        let there = record.claims.nodes();
        there.contains(node)
    });
    claimed.any(|record| !is_due(&record.volume))
}

async fn sweep_volume(runner: &StepRunner, node: &NodeId, volume: RemoteVolume) {
    let step = Step::Sweep(node.clone());
    let instance = runner.ports.cell.read(|state| {
        let is_due = state.claim_steps(&volume).contains(&step);
        is_due
            .then(|| node_instance(state, &volume, node))
            .flatten()
    });
    let (Some(instance), Ok(host)) = (instance, runner.calls.node(node)) else {
        return;
    };
    let order = runner.calls.order(host.session(), instance);
    match host.sweep(order, volume.clone()).await {
        Ok(SweepOutcome::NothingLeft | SweepOutcome::UndidSomething) => {}
        // Looked at again every second; the step that runs has said what it waits for.
        Err(error @ HostError::Busy { .. }) => {
            tracing::debug!(node.id = %node, volume.external_id = %volume.external_id, %error,
                "the sweep of a volume waits for a call");
        }
        Err(error) => {
            tracing::warn!(node.id = %node, volume.external_id = %volume.external_id, %error,
                "the sweep of a volume failed and is repeated");
        }
    }
}
