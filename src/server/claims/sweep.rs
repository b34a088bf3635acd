//! The sweep of a node that returned (rules 7 and 18 of the claims machine).
//!
//! Until it has succeeded, no claim is admitted on the node and no step is driven there. It begins when every allocation
//! of the node has reported its end: the tasks of one that has not have mounts of their own, and write on after an unmount. A
//! volume is swept once the record has given up everything it had there. The sweep repeats until the node has
//! nothing left; what it waits for is shown with the node.

use futures_util::{StreamExt as _, stream};

use super::step_choice::node_instance;
use super::step_runner::StepRunner;
use super::sweep_wait::{SweepWait, SweepWaits};
use crate::cell::Expected;
use nomad_csi_claims::claim::Step;
use nomad_csi_claims::state::{Event, EventKind, State};
use nomad_csi_model::{NodeId, RemoteVolume};
use nomad_csi_ports::{HostError, SweepOutcome};

/// How many volumes of a node are swept at the same time: one whose plugin does not answer holds up no other.
const CONCURRENT: usize = 16;

/// Sweeps a node once. Returns what it waits for; `None` if it is clean and is used again.
pub(super) async fn sweep_node(
    runner: &StepRunner,
    node: &NodeId,
    waits: &SweepWaits,
) -> Option<SweepWait> {
    let running = runner.ports.cell.read(|state| {
        let running = state.running_allocs(node);
        running.cloned().collect::<Vec<_>>()
    });
    if !running.is_empty() {
        return Some(SweepWait::Allocs(running));
    }
    let called = match runner.calls.node(node) {
        Ok(called) => called,
        Err(error) => return Some(SweepWait::Node(error.to_string())),
    };
    let left = match called.host.left_behind(runner.calls.term).await {
        Ok(left) => left,
        Err(error) => {
            tracing::warn!(node.id = %node, %error, "the node could not be inspected for a sweep");
            return Some(SweepWait::Node(error.to_string()));
        }
    };
    if let Some(volume) = left.first() {
        waits.note_attempt(node, volume);
    }
    let sweeps = left.into_iter().map(async |volume| {
        let found = sweep_volume(runner, node, &volume).await;
        found.unwrap_or(SweepWait::Volume(volume))
    });
    let found: Vec<_> = stream::iter(sweeps).buffered(CONCURRENT).collect().await;
    if let Some(wait) = found.into_iter().next() {
        return Some(wait);
    }
    let claimed = runner.ports.cell.read(|state| claimed_volume(state, node));
    if let Some(volume) = claimed {
        return Some(SweepWait::Volume(volume));
    }
    let node = node.clone();
    let event = Event::new(runner.ports.clock.now(), EventKind::NodeSwept { node });
    let committed = runner.ports.cell.commit(Expected::Any, event).await;
    committed.err().map(|error| SweepWait::Node(error.to_string()))
}

/// Returns a volume of which the record still has anything on the node.
fn claimed_volume(state: &State, node: &NodeId) -> Option<RemoteVolume> {
    let is_due = |volume: &RemoteVolume| {
        let steps = state.claim_steps(volume);
        steps.contains(&Step::Sweep(node.clone()))
    };
    let mut claimed = state.all_claims().filter(|record| {
        let there = record.claims.nodes();
        there.contains(node)
    });
    let left = claimed.find(|record| !is_due(&record.volume));
    left.map(|record| record.volume.clone())
}

/// Sweeps a volume once. Returns what that waits for; `None` if its turn has not come, or it is swept.
async fn sweep_volume(
    runner: &StepRunner,
    node: &NodeId,
    volume: &RemoteVolume,
) -> Option<SweepWait> {
    let step = Step::Sweep(node.clone());
    let (is_due, instance) = runner.ports.cell.read(|state| {
        let is_due = state.claim_steps(volume).contains(&step);
        (is_due, node_instance(state, volume, node))
    });
    if !is_due {
        return None;
    }
    let Some(instance) = instance else {
        return Some(SweepWait::Plugin(volume.plugin_id.clone()));
    };
    let called = runner.calls.node(node).ok()?;
    let order = runner.calls.order(&called, instance);
    match called.host.sweep(order, volume.clone()).await {
        Ok(SweepOutcome::NothingLeft | SweepOutcome::UndidSomething) => None,
        // Looked at again every second; the step that runs has said what it waits for.
        Err(error @ HostError::Busy { .. }) => {
            tracing::debug!(node.id = %node, volume.external_id = %volume.external_id, %error,
                "the sweep of a volume waits for a call");
            None
        }
        Err(error) => {
            tracing::warn!(node.id = %node, volume.external_id = %volume.external_id, %error,
                "the sweep of a volume failed and is repeated");
            let (volume, error) = (volume.clone(), error.to_string());
            Some(SweepWait::Failure { volume, error })
        }
    }
}
