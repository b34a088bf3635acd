//! One step, from its decision to its record.
//!
//! A step that calls a plugin is recorded as started before the call is sent, and the commit succeeds
//! only if the step is still due then. The call is never cancelled: after the patience it lets other
//! calls of the plugin pass, and a late answer is recorded like any other. A step whose start is on
//! record is repeated as it is. While its effect is possible, no other instance of the plugin is called
//! as long as the first one may still run it (rule 4 of the claims machine).

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tracing::{debug, info, warn};

use super::calls::{CallError, StepCalls};
use super::limits::ClaimLimits;
use super::ports::ClaimPorts;
use super::step_request::StepContext;
use super::waiters::Waiters;
use crate::claim::{ClaimEvent, ClaimKey, Known, Step, StepAnswer, is_new_problem};
use crate::model::{AllocId, NodeId, RemoteVolume};
use crate::ports::HostError;
use crate::server::call_line::CallClass;
use crate::server::call_lines::CallPermit;
use crate::server::cell::{CommitError, Expected};
use crate::server::sealing::VolumeSealer;
use crate::state::{Event, EventKind, State};

/// The end of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepEnd {
    /// The step is done, or no longer due: decide again.
    Decide,
    /// The step failed: try it again after a pause.
    Pause,
}

/// Runs steps.
pub(super) struct StepRunner {
    pub(super) ports: ClaimPorts,
    pub(super) calls: StepCalls,
    pub(super) waiters: Waiters,
    pub(super) limits: ClaimLimits,
    node_places: Arc<Semaphore>,
}

/// The right to call a plugin.
enum CallPlace {
    Controller(CallPermit),
    Node(Option<OwnedSemaphorePermit>),
}

impl CallPlace {
    /// Lets other calls pass while the plugin has not answered.
    fn release(&mut self) {
        match self {
            Self::Controller(permit) => permit.release(),
            Self::Node(permit) => drop(permit.take()),
        }
    }
}

impl StepRunner {
    pub(super) fn new(ports: ClaimPorts, limits: ClaimLimits, waiters: Waiters) -> Self {
        let sealer = VolumeSealer::new(ports.sealer.clone());
        let calls = StepCalls::new(ports.nodes.clone(), ports.controllers.clone(), sealer);
        Self {
            ports,
            calls,
            waiters,
            limits,
            node_places: Arc::new(Semaphore::new(limits.node_calls)),
        }
    }

    /// Does one step.
    pub(super) async fn run(&self, volume: &RemoteVolume, step: &Step) -> StepEnd {
        match step {
            Step::Release(key) => self.release(volume, step, key).await,
            Step::AssumeNodeGone(node) => {
                let event = ClaimEvent::NodeAssumedGone { node: node.clone() };
                self.record(volume, step, event).await
            }
            Step::Sweep(_) => StepEnd::Decide,
            Step::ControllerPublish(_)
            | Step::NodeStage(_)
            | Step::NodePublish(_)
            | Step::NodeExpand(_)
            | Step::NodeUnpublish(_)
            | Step::NodeUnstage(_)
            | Step::ControllerUnpublish(_) => self.call(volume, step).await,
        }
    }

    /// Requests the release of unused claims.
    pub(super) async fn reap(&self, volume: &RemoteVolume, claims: Vec<(ClaimKey, &'static str)>) {
        for (key, reason) in claims {
            info!(alloc.id = %key.alloc, volume.external_id = %volume.external_id, reason, "claim released");
            let reason = reason.to_owned();
            let event = ClaimEvent::ReleaseRequested { key, reason };
            self.commit(vec![], vec![claim_event(volume, event)])
                .await
                .ok();
        }
    }

    async fn release(&self, volume: &RemoteVolume, step: &Step, key: &ClaimKey) -> StepEnd {
        let mut events = vec![claim_event(
            volume,
            ClaimEvent::Released { key: key.clone() },
        )];
        let is_last = |state: &State| {
            state.alloc(&key.alloc).is_some() && state.claims_of(&key.alloc).count() <= 1
        };
        if self.ports.cell.read(is_last) {
            let alloc = key.alloc.clone();
            events.push(EventKind::AllocForgotten { alloc });
        }
        let due = Expected::StepDue(volume.clone(), step.clone());
        self.decide_again(&self.commit(vec![due], events).await)
    }

    async fn record(&self, volume: &RemoteVolume, step: &Step, event: ClaimEvent) -> StepEnd {
        let due = Expected::StepDue(volume.clone(), step.clone());
        let committed = self.commit(vec![due], vec![claim_event(volume, event)]);
        self.decide_again(&committed.await)
    }

    /// A conflict is decided again at once; a journal that fails needs a pause.
    fn decide_again(&self, committed: &Result<u64, CommitError>) -> StepEnd {
        match committed {
            Ok(_)
            | Err(
                CommitError::Conflict { .. }
                | CommitError::VariableConflict { .. }
                | CommitError::ClaimsConflict { .. }
                | CommitError::InvalidEvent(_),
            ) => StepEnd::Decide,
            Err(CommitError::Journal(_) | CommitError::Stopping) => StepEnd::Pause,
        }
    }

    async fn commit(
        &self,
        expected: Vec<Expected>,
        events: Vec<EventKind>,
    ) -> Result<u64, CommitError> {
        let now = self.ports.clock.now();
        let events = events.into_iter().map(|kind| Event::new(now, kind));
        self.ports.cell.commit_all(expected, events.collect()).await
    }

    async fn call(&self, volume: &RemoteVolume, step: &Step) -> StepEnd {
        let Some(instance) = self
            .ports
            .cell
            .read(|state| instance_for(state, volume, step))
        else {
            let plugin = &volume.plugin_id;
            let error = format!("no healthy instance of plugin `{plugin}` can be called");
            let help = format!("check the plugin with `nomad-csi plugin status {plugin}`");
            return self.failed(volume, step, (error, Some(help))).await;
        };
        let mut place = match self.place(volume, step).await {
            Ok(place) => place,
            Err(error) => return self.failed(volume, step, (error, None)).await,
        };
        let started = match self.start(volume, step, &instance).await {
            Ok(started) => started,
            Err(error) => return self.decide_again(&Err(error)),
        };
        let context = self
            .ports
            .cell
            .read(|state| StepContext::read(state, volume));
        let Some(context) = context else {
            return StepEnd::Decide;
        };
        let answer = self.answer(&context, step, instance, &mut place).await;
        drop(place);
        match answer {
            Ok(answer) => self.done(volume, step, started, answer).await,
            // A node whose plugin does not expand sees the new size without a call (W17).
            Err(CallError::Host(HostError::Unsupported { .. }))
                if matches!(step, Step::NodeExpand(_)) =>
            {
                self.done(volume, step, started, StepAnswer::default())
                    .await
            }
            Err(CallError::OutOfDate) => StepEnd::Decide,
            Err(error) if error.is_permanent() && step.is_setup() => {
                self.give_up(volume, step, &error).await
            }
            Err(error) => {
                let failure = (error.to_string(), error.help());
                self.failed(volume, step, failure).await
            }
        }
    }

    /// Waits until the plugin may get another call.
    async fn place(&self, volume: &RemoteVolume, step: &Step) -> Result<CallPlace, String> {
        let class = match step {
            Step::ControllerPublish(_) => Some(CallClass::Change),
            Step::ControllerUnpublish(_) => Some(CallClass::Release),
            Step::NodeStage(_)
            | Step::NodePublish(_)
            | Step::NodeExpand(_)
            | Step::NodeUnpublish(_)
            | Step::NodeUnstage(_)
            | Step::AssumeNodeGone(_)
            | Step::Sweep(_)
            | Step::Release(_) => None,
        };
        match class {
            Some(class) => {
                let permit = self.ports.calls.acquire(&volume.plugin_id, class).await;
                let permit =
                    permit.map_err(|full| format!("{full} for plugin `{}`", volume.plugin_id));
                permit.map(CallPlace::Controller)
            }
            None => {
                let permit = self.node_places.clone().acquire_owned().await;
                Ok(CallPlace::Node(permit.ok()))
            }
        }
    }

    /// Returns the index of the step's start: the recorded one if it is repeated, else a new one.
    async fn start(
        &self,
        volume: &RemoteVolume,
        step: &Step,
        instance: &AllocId,
    ) -> Result<u64, CommitError> {
        let recorded = self.ports.cell.read(|state| {
            let claims = &state.claims(volume)?.claims;
            let call = claims.call(step)?;
            let is_open = step
                .effect()
                .is_none_or(|effect| claims.known(&effect) == Known::Maybe);
            let is_same = call.is_setup == step.is_setup() && call.instance == *instance;
            let is_due = state.claim_steps(volume).contains(step);
            (is_open && is_same && is_due).then_some(call.index)
        });
        if let Some(index) = recorded {
            return Ok(index);
        }
        let event = ClaimEvent::StepStarted {
            step: step.clone(),
            instance: instance.clone(),
        };
        let due = Expected::StepDue(volume.clone(), step.clone());
        self.commit(vec![due], vec![claim_event(volume, event)])
            .await
    }

    /// Sends the call and waits for its end, however long it takes.
    async fn answer(
        &self,
        context: &StepContext,
        step: &Step,
        instance: AllocId,
        place: &mut CallPlace,
    ) -> Result<StepAnswer, CallError> {
        let mut answer = std::pin::pin!(self.calls.send(context, step, instance));
        let patience = tokio::time::sleep(self.limits.patience);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = patience => {}
        }
        let volume = &context.volume;
        let error = format!(
            "plugin `{}` has not answered {} for {} s",
            volume.plugin_id,
            step.name(),
            self.limits.patience.as_secs()
        );
        warn!(volume.external_id = %volume.external_id, error, "a step waits for its plugin");
        place.release();
        let help = format!(
            "wait for plugin `{}`, or restart it if it never answers",
            volume.plugin_id
        );
        self.failed(volume, step, (error, Some(help))).await;
        answer.await
    }

    async fn done(
        &self,
        volume: &RemoteVolume,
        step: &Step,
        started: u64,
        answer: StepAnswer,
    ) -> StepEnd {
        let event = ClaimEvent::StepDone {
            step: step.clone(),
            started,
            answer,
        };
        let committed = self.commit(vec![], vec![claim_event(volume, event)]).await;
        debug!(volume.external_id = %volume.external_id, csi.rpc = step.name(), ?committed, "a step is done");
        self.decide_again(&committed)
    }

    /// Records a new error of a step with its remedy; the step is tried again.
    async fn failed(
        &self,
        volume: &RemoteVolume,
        step: &Step,
        (error, help): (String, Option<String>),
    ) -> StepEnd {
        let is_new = |state: &State| {
            let record = state.claims(volume);
            record.is_some_and(|record| is_new_problem(&record.claims, step, &error))
        };
        if self.ports.cell.read(is_new) {
            warn!(volume.external_id = %volume.external_id, plugin.id = %volume.plugin_id,
                csi.rpc = step.name(), error, "a step of a claim failed and is repeated");
            let step = step.clone();
            let event = ClaimEvent::StepFailed { step, error, help };
            self.commit(vec![], vec![claim_event(volume, event)])
                .await
                .ok();
        }
        StepEnd::Pause
    }

    /// Releases the claims that wait for a step that can never succeed, and answers their requesters.
    async fn give_up(&self, volume: &RemoteVolume, step: &Step, error: &CallError) -> StepEnd {
        let error = error.to_string();
        let keys = self
            .ports
            .cell
            .read(|state| waiting_for(state, volume, step));
        warn!(volume.external_id = %volume.external_id, plugin.id = %volume.plugin_id,
            csi.rpc = step.name(), error, "a claim can never be published and is released");
        let failed = ClaimEvent::StepFailed {
            step: step.clone(),
            error: error.clone(),
            help: None,
        };
        let mut events = vec![claim_event(volume, failed)];
        for key in keys {
            self.waiters.failed(&key, &error);
            let reason = error.clone();
            let event = ClaimEvent::ReleaseRequested { key, reason };
            events.push(claim_event(volume, event));
        }
        let committed = self.commit(vec![], events).await;
        self.decide_again(&committed)
    }
}

fn claim_event(volume: &RemoteVolume, event: ClaimEvent) -> EventKind {
    EventKind::Claim {
        volume: volume.clone(),
        event: Box::new(event),
    }
}

/// Returns the held claims that need the step.
fn waiting_for(state: &State, volume: &RemoteVolume, step: &Step) -> Vec<ClaimKey> {
    let Some(record) = state.claims(volume) else {
        return vec![];
    };
    let claims = record.claims.claims.iter();
    let waiting = claims.filter(|(key, claim)| {
        let is_concerned = match step {
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
        is_concerned && claim.is_held() && claim.published != Known::Yes
    });
    waiting.map(|(key, _)| key.clone()).collect()
}

/// Returns the plugin's allocation to call: while the effect of an earlier call is possible, the one
/// that got it, unless it has ended.
fn instance_for(state: &State, volume: &RemoteVolume, step: &Step) -> Option<AllocId> {
    let plugin = &volume.plugin_id;
    let claims = &state.claims(volume)?.claims;
    let is_open = step
        .effect()
        .is_some_and(|effect| claims.known(&effect) == Known::Maybe);
    let bound = claims.call(step).filter(|_| is_open);
    let record = state.plugin_record(plugin)?;
    if let Some(call) = bound
        && record.allocs.contains_key(&call.instance)
    {
        return Some(call.instance.clone());
    }
    let newest = match step {
        Step::ControllerPublish(_) | Step::ControllerUnpublish(_) => {
            state.controller_instance(plugin)?
        }
        Step::NodePublish(key) | Step::NodeUnpublish(key) => {
            state.node_instance(plugin, &claims.claims.get(key)?.node)?
        }
        Step::NodeStage(node)
        | Step::NodeUnstage(node)
        | Step::NodeExpand(node)
        | Step::AssumeNodeGone(node)
        | Step::Sweep(node) => state.node_instance(plugin, node)?,
        Step::Release(_) => return None,
    };
    Some(newest.alloc_id.clone())
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
