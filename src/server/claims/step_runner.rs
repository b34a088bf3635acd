//! One step, from its decision to its record.
//!
//! A step that calls a plugin is recorded as started before the call is sent, and the commit succeeds
//! only if the step is still due then. The call is never cancelled: when it hangs, it lets other volumes' calls of
//! the plugin pass, after the patience its claims show that, and a late answer is recorded like any other. A step whose start is on
//! record is repeated as it is. Its end and what follows at once are one write (`follow_up`). While its
//! effect is possible, no other instance of the plugin is called as long as the first one may still run
//! it. A controller gets no call while another one may run any call of the volume (rule 4 of the claims machine).

use std::ops::ControlFlow;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span, debug, info, warn};

use super::calls::{CallError, CallRight, StepCalls};
use super::claim_spans::ClaimSpans;
use super::follow_up::{DoneStep, claim_event, follow_up, follow_up_events, release_events};
use super::limits::ClaimLimits;
use super::node_permits::NodePermits;
use super::step_choice::{
    awaited_controller, controller_call, instance_for, lacks_node_id, node_of, retry_command,
    waiting_for,
};
use super::step_end::StepEnd;
use super::step_request::{StepContext, step_started};
use super::waiters::Waiters;
use crate::cell::{CommitError, Expected};
use crate::plugin_call_queue::CallClass;
use crate::ports::ServerPorts;
use crate::sealing::VolumeSealer;
use nomad_csi_claims::claim::{
    ClaimEvent, ClaimKey, Claims, Known, Step, StepAnswer, is_new_problem,
};
use nomad_csi_claims::state::{Event, EventKind, State, may_run};
use nomad_csi_model::{AllocId, RemoteVolume, shell_quoted};
use nomad_csi_ports::HostError;

/// Runs steps.
pub(super) struct StepRunner {
    pub(super) ports: ServerPorts,
    pub(super) calls: StepCalls,
    pub(super) waiters: Waiters,
    spans: ClaimSpans,
    pub(super) limits: ClaimLimits,
    /// Ends the driver: running steps end, and no other one is started.
    pub(super) stop: CancellationToken,
    node_permits: NodePermits,
}

/// A call whose start is on record.
struct RunningCall {
    step: Step,
    /// The index of its start.
    started: u64,
    /// The instance of the plugin that gets it.
    instance: AllocId,
    right: CallRight,
}

impl StepRunner {
    pub(super) fn new(
        ports: ServerPorts,
        limits: ClaimLimits,
        node_permits: NodePermits,
        waiters: Waiters,
        spans: ClaimSpans,
        stop: CancellationToken,
    ) -> Self {
        let sealer = VolumeSealer::new(ports.sealer.clone());
        let calls = StepCalls::new(&ports, sealer);
        Self { ports, calls, waiters, spans, limits, stop, node_permits }
    }

    /// Does a step and those that follow at once. Returns the last one with its end.
    pub(super) async fn run(&self, volume: &RemoteVolume, step: Step) -> (Step, StepEnd) {
        let span = self.span(volume, &step);
        let end = match &step {
            Step::Release(key) => self.release(volume, key).instrument(span).await,
            Step::AssumeNodeGone(node) => {
                let event = ClaimEvent::NodeAssumedGone { node: node.clone() };
                self.record(volume, &step, event).instrument(span).await
            }
            // The driver sweeps whole nodes.
            Step::Sweep(_) => StepEnd::Pause,
            Step::ControllerPublish(_)
            | Step::NodeStage(_)
            | Step::NodePublish(_)
            | Step::NodeExpand(_)
            | Step::NodeUnpublish(_)
            | Step::NodeUnstage(_)
            | Step::ControllerUnpublish(_) => return self.call(volume, step).await,
        };
        (step, end)
    }

    /// Requests the release of unused claims. One that cannot be recorded is requested again later.
    pub(super) async fn reap(
        &self,
        volume: &RemoteVolume,
        claims: Vec<(ClaimKey, &'static str)>,
    ) -> StepEnd {
        let mut end = StepEnd::Pause;
        for (key, reason) in claims {
            let event =
                ClaimEvent::ReleaseRequested { key: key.clone(), reason: reason.to_owned() };
            let committed = self.commit(vec![], vec![claim_event(volume, event)]).await;
            match &committed {
                Ok(index) => {
                    info!(alloc.id = %key.alloc, volume.external_id = %volume.external_id, reason, index, "claim released");
                    end = StepEnd::after(&committed);
                }
                // It is in release already, or gone.
                Err(CommitError::InvalidEvent(_)) => {}
                Err(error) => {
                    warn!(alloc.id = %key.alloc, volume.external_id = %volume.external_id,
                        error = error.detail(), "the release of a claim was not recorded and is requested again");
                    return StepEnd::Pause;
                }
            }
        }
        end
    }

    async fn release(&self, volume: &RemoteVolume, key: &ClaimKey) -> StepEnd {
        let events = |state: &State| release_events(state, volume, key);
        let (expected, events) = self.ports.cell.read(events);
        StepEnd::after(&self.commit(expected, events).await)
    }

    async fn record(&self, volume: &RemoteVolume, step: &Step, event: ClaimEvent) -> StepEnd {
        let due = Expected::StepDue(volume.clone(), step.clone());
        let committed = self.commit(vec![due], vec![claim_event(volume, event)]);
        StepEnd::after(&committed.await)
    }

    async fn commit(
        &self,
        expected: Vec<Expected>,
        kinds: Vec<EventKind>,
    ) -> Result<u64, CommitError> {
        self.ports.cell.commit_all(expected, self.events(kinds)).await
    }

    fn events(&self, kinds: Vec<EventKind>) -> Vec<Event> {
        let now = self.ports.clock.now();
        let kinds = kinds.into_iter();
        kinds.map(|kind| Event::new(now, kind)).collect()
    }

    fn span(&self, volume: &RemoteVolume, step: &Step) -> Span {
        self.ports.cell.read(|state| self.spans.step_span(state, volume, step))
    }

    async fn call(&self, volume: &RemoteVolume, step: Step) -> (Step, StepEnd) {
        let span = self.span(volume, &step);
        let mut call = match self.begin(volume, &step).instrument(span).await {
            Ok(call) => call,
            Err(end) => return (step, end),
        };
        loop {
            let span = self.span(volume, &call.step);
            let attempt = self.attempt(volume, &mut call).instrument(span);
            if let ControlFlow::Break(end) = attempt.await {
                return (call.step, end);
            }
        }
    }

    /// Chooses the instance, waits for the right to call it, and records the start.
    async fn begin(&self, volume: &RemoteVolume, step: &Step) -> Result<RunningCall, StepEnd> {
        let awaited = |state: &State| awaited_controller(state, volume, step);
        if let Some((instance, reason, help)) = self.ports.cell.read(awaited) {
            let error = format!(
                "an earlier call for the volume may still take effect in plugin instance `{instance}`, so no other \
                 instance is called: {reason}"
            );
            return Err(self.failed(volume, step, (error, Some(help))).await);
        }
        let instance = |state: &State| instance_for(state, volume, step);
        if self.ports.cell.read(instance).is_none() {
            let plugin = &volume.plugin_id;
            let error = format!("no healthy instance of plugin `{plugin}` can be called");
            let status = format!("nomad-csi plugin status {}", shell_quoted(plugin));
            let help = format!("check the plugin with `{status}`");
            return Err(self.failed(volume, step, (error, Some(help))).await);
        };
        let lacks_node_id = |state: &State| lacks_node_id(state, volume, step);
        if let Some(node) = self.ports.cell.read(lacks_node_id) {
            let plugin = &volume.plugin_id;
            let error =
                format!("plugin `{plugin}` has not reported the provider's ID of node `{node}`");
            let status = format!("nomad-csi plugin status {}", shell_quoted(plugin));
            let help = format!("check the plugin with `{status}`");
            return Err(self.failed(volume, step, (error, Some(help))).await);
        }
        let right = match self.right(volume, step).await {
            Ok(right) => right,
            Err(error) => return Err(self.failed(volume, step, (error, None)).await),
        };
        // It took time: another call may have bound the volume to another instance.
        let Some(instance) = self.ports.cell.read(instance) else {
            return Err(StepEnd::Pause);
        };
        match self.start(volume, step, &instance).await {
            Ok(started) => Ok(RunningCall { step: step.clone(), started, instance, right }),
            Err(error) => {
                debug!(volume.external_id = %volume.external_id, csi.rpc = step.name(),
                    error = error.detail(), "the start of a step was not recorded");
                Err(StepEnd::after(&Err(error)))
            }
        }
    }

    /// Sends a started call and records its end. Continues if the next call is started.
    async fn attempt(&self, volume: &RemoteVolume, call: &mut RunningCall) -> ControlFlow<StepEnd> {
        let context = |state: &State| StepContext::read(state, volume, &call.step);
        let Some(context) = self.ports.cell.read(context) else {
            call.right.release();
            let error =
                "neither the registration of the volume nor what is left of one is on record";
            let failure = (error.to_owned(), None);
            return ControlFlow::Break(self.failed(volume, &call.step, failure).await);
        };
        if !context.is_due(&call.step) {
            call.right.release();
            return ControlFlow::Break(StepEnd::Pause);
        }
        let answer = self.answer(&context, call).await;
        let answer = match answer {
            // A node whose plugin does not expand sees the new size without a call (W17).
            Err(CallError::Host(HostError::Unsupported { .. }))
                if matches!(call.step, Step::NodeExpand(_)) =>
            {
                Ok(StepAnswer::default())
            }
            answer => answer,
        };
        let error = match answer {
            Ok(answer) => return self.done(volume, call, answer).await,
            Err(error) => error,
        };
        call.right.release();
        ControlFlow::Break(match error {
            CallError::OutOfDate => StepEnd::Pause,
            error if error.is_permanent() && call.step.is_setup() => {
                self.give_up(volume, &call.step, &error).await
            }
            error if error.is_permanent() => self.refused(volume, &call.step, &error).await,
            error => {
                let failure = (error.to_string(), error.help());
                let exhausted = call.step.is_setup() && error.is_exhausted();
                self.record_failure(volume, &call.step, failure, exhausted).await
            }
        })
    }

    /// Waits until the plugin may get another call.
    async fn right(&self, volume: &RemoteVolume, step: &Step) -> Result<CallRight, String> {
        let class = match step {
            Step::ControllerPublish(_) => Some(CallClass::Attach),
            Step::ControllerUnpublish(_) => Some(CallClass::Detach),
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
                permit.map(CallRight::Controller)
            }
            None => {
                let Some(node) = self.ports.cell.read(|state| node_of(state, volume, step)) else {
                    return Ok(CallRight::Node(Mutex::default()));
                };
                Ok(CallRight::Node(Mutex::new(self.node_permits.acquire(&node).await)))
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
            let is_open = step.effect().is_none_or(|effect| claims.known(&effect) == Known::Maybe);
            let is_same = call.is_setup == step.is_setup()
                && call.instance == *instance
                && may_run(state, &volume.plugin_id, (instance, call.index));
            let is_due = state.claim_steps(volume).contains(step);
            (is_open && is_same && is_due).then_some(call.index)
        });
        if let Some(index) = recorded {
            return Ok(index);
        }
        let event = self.ports.cell.read(|state| {
            let unclaimed = Claims::default();
            let record = state.claims(volume);
            let claims = record.map_or(&unclaimed, |record| &record.claims);
            step_started(state, volume, claims, step, instance)
        });
        let due = Expected::StepDue(volume.clone(), step.clone());
        let call = controller_call(volume, step);
        let bound = call.map(|call| Expected::Controller(call, instance.clone()));
        let expected = [due].into_iter().chain(bound).collect();
        self.commit(expected, vec![claim_event(volume, event)]).await
    }

    /// Sends the call and waits for its end, however long it takes.
    async fn answer(
        &self,
        context: &StepContext,
        call: &RunningCall,
    ) -> Result<StepAnswer, CallError> {
        let sent = self.calls.send(context, &call.step, call.instance.clone(), &call.right);
        let mut answer = std::pin::pin!(sent);
        let begun = Instant::now();
        let hung = tokio::time::sleep_until(begun + self.limits.hung_after);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = hung => call.right.release(),
        }
        let patience = tokio::time::sleep_until(begun + self.limits.patience);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = patience => {}
        }
        let volume = &context.volume;
        let error = format!(
            "plugin `{}` has not answered {} for {} s",
            volume.plugin_id,
            call.step.name(),
            self.limits.patience.as_secs()
        );
        warn!(volume.external_id = %volume.external_id, error, "a step waits for its plugin");
        let help =
            format!("wait for plugin `{}`, or restart it if it never answers", volume.plugin_id);
        self.failed(volume, &call.step, (error, Some(help))).await;
        answer.await
    }

    /// Records the end of a step, and what follows at once.
    async fn done(
        &self,
        volume: &RemoteVolume,
        call: &mut RunningCall,
        answer: StepAnswer,
    ) -> ControlFlow<StepEnd> {
        let event = ClaimEvent::StepDone { step: call.step.clone(), started: call.started, answer };
        let done = DoneStep {
            volume,
            step: &call.step,
            instance: &call.instance,
            event: &event,
            has_permit: call.right.is_held_for_node() && !self.stop.is_cancelled(),
        };
        let next = self.ports.cell.read(|state| {
            let next = follow_up(state, &done)?;
            let write = follow_up_events(state, &done, &next);
            Some((next, write))
        });
        let mut commits = vec![(vec![], self.events(vec![claim_event(volume, event)]))];
        let next = next.and_then(|(next, (expected, events))| {
            commits.push((expected, self.events(events)));
            (!matches!(next, Step::Release(_))).then_some(next)
        });
        if next.is_none() {
            call.right.release();
        }
        let committed = self.ports.cell.commit_each(commits).await;
        debug!(volume.external_id = %volume.external_id, csi.rpc = call.step.name(), ?committed, "a step is done");
        match (next, committed.as_slice()) {
            (Some(next), [Ok(_), Ok(started)]) => {
                call.step = next;
                call.started = *started;
                ControlFlow::Continue(())
            }
            (_, [done, ..]) => ControlFlow::Break(StepEnd::after(done)),
            (_, []) => ControlFlow::Break(StepEnd::Pause),
        }
    }

    /// Records a new error of a step with its remedy; the step is tried again.
    async fn failed(
        &self,
        volume: &RemoteVolume,
        step: &Step,
        failure: (String, Option<String>),
    ) -> StepEnd {
        self.record_failure(volume, step, failure, false).await
    }

    async fn record_failure(
        &self,
        volume: &RemoteVolume,
        step: &Step,
        (error, help): (String, Option<String>),
        exhausted: bool,
    ) -> StepEnd {
        let is_new = |state: &State| {
            let record = state.claims(volume);
            record.is_some_and(|record| is_new_problem(&record.claims, step, &error))
        };
        if self.ports.cell.read(is_new) {
            warn!(volume.external_id = %volume.external_id, plugin.id = %volume.plugin_id,
                csi.rpc = step.name(), error, "a step of a claim failed and is repeated");
            let step = step.clone();
            let event = ClaimEvent::StepFailed { step, error, help, exhausted };
            self.commit(vec![], vec![claim_event(volume, event)]).await.ok();
        }
        StepEnd::Pause
    }

    /// Records that the plugin refuses a teardown for good, with what helps.
    async fn refused(&self, volume: &RemoteVolume, step: &Step, error: &CallError) -> StepEnd {
        let command = |state: &State| retry_command(state, volume, step);
        let again = match self.ports.cell.read(command) {
            Some(command) => format!(", or at once with `{command}`"),
            None => String::new(),
        };
        let plugin = &volume.plugin_id;
        let help = error.help().unwrap_or_else(|| {
            format!(
                "read the logs of plugin `{plugin}`, and undo the step at the provider if it cannot"
            )
        });
        let help = format!(
            "{help}; after {} refusals the agent tries again when the plugin changes{again}",
            self.limits.refusals
        );
        let failure = (error.to_string(), Some(help));
        self.failed(volume, step, failure).await;
        StepEnd::Refused
    }

    /// Releases the claims that wait for a step that can never succeed, and answers their requesters.
    async fn give_up(&self, volume: &RemoteVolume, step: &Step, error: &CallError) -> StepEnd {
        let error = error.to_string();
        let keys = self.ports.cell.read(|state| waiting_for(state, volume, step));
        warn!(volume.external_id = %volume.external_id, plugin.id = %volume.plugin_id,
            csi.rpc = step.name(), error, "a claim can never be published and is released");
        let failed = ClaimEvent::StepFailed {
            step: step.clone(),
            error: error.clone(),
            help: None,
            exhausted: false,
        };
        let mut events = vec![claim_event(volume, failed)];
        for key in &keys {
            // Reported only when the claim is in release: see `Waiter::failure`.
            self.waiters.failed(key, &error);
            let (key, reason) = (key.clone(), error.clone());
            let event = ClaimEvent::ReleaseRequested { key, reason };
            events.push(claim_event(volume, event));
        }
        let committed = self.commit(vec![], events).await;
        if let Err(error) = &committed {
            warn!(volume.external_id = %volume.external_id, error = error.detail(),
                "the release of a claim was not recorded, so the step is repeated");
            keys.iter().for_each(|key| self.waiters.withdraw(key));
        }
        StepEnd::after(&committed)
    }
}
