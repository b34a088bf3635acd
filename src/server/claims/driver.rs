//! [`ClaimDriver`]: starts every step that is due.
//!
//! Level triggered: it wakes when claims, allocations, nodes or plugins change, or when a pause ends,
//! reads the state, and starts what is due. It looks only at volumes whose claims or allocations changed,
//! except after a change of a plugin or node. Idle volumes cost nothing. At most one step of a call lock runs.
//! What made no progress pauses before it is tried again (rule 15 of the claims machine).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::{Attempt, Backoff, PauseCause};
use super::reaper::releasable;
use super::running_tasks::{Running, RunningTasks};
use super::step_choice::{StepHost, step_host};
use super::step_end::StepEnd;
use super::step_runner::StepRunner;
use super::sweep::sweep_node;
use super::sweep_wait::{SweepWait, SweepWaits};
use crate::cell::Watch;
use nomad_csi_claims::claim::{CallLock, ClaimKey, Step};
use nomad_csi_claims::state::{State, Table, Topic};
use nomad_csi_model::{NodeId, RemoteVolume};

/// How long a sweep pauses before it looks again.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Drives the claims of all volumes.
pub struct ClaimDriver {
    runner: Arc<StepRunner>,
    watch: Watch,
    work: Work,
}

/// The tasks that run, and the volumes to look at.
#[derive(Default)]
struct Work {
    /// Volumes to look at.
    changed: BTreeSet<RemoteVolume>,
    running: RunningTasks,
    backoff: Backoff,
    /// When a node that was not clean is swept again.
    next_sweeps: BTreeMap<NodeId, Instant>,
    sweep_waits: SweepWaits,
    /// The index up to which changes of claims were seen.
    claims_seen: u64,
    /// The index up to which changes of allocations were seen.
    allocs_seen: u64,
    /// The indexes of plugins and nodes at the last look at all volumes.
    hosts_seen: Option<[u64; 2]>,
    tasks: JoinSet<Finished>,
}

/// How a task ended.
enum Finished {
    /// The last of its steps, its end, and what was to carry out the first one.
    Step(Step, StepEnd, Option<StepHost>),
    Reaped(StepEnd),
    Swept(Option<SweepWait>),
}

/// Something to start.
enum Due {
    Step(RemoteVolume, Option<CallLock>, Step),
    Reap(RemoteVolume, Vec<(ClaimKey, &'static str)>),
    Sweep(NodeId),
}

impl ClaimDriver {
    /// A driver that lets this runner run the steps.
    pub(super) fn new(runner: StepRunner, backoff: Backoff, sweep_waits: SweepWaits) -> Self {
        let tables = [Table::Claims, Table::Allocs, Table::Nodes, Table::Plugins];
        let watch = runner.ports.cell.watch(tables.map(Topic::all).into());
        Self {
            runner: Arc::new(runner),
            watch,
            work: Work { backoff, sweep_waits, ..Work::default() },
        }
    }

    /// Drives until the runner is stopped, and then waits for running steps until it is aborted. The next run
    /// continues the others.
    pub async fn run(mut self, abort: CancellationToken) {
        let stop = self.runner.stop.clone();
        while !stop.is_cancelled() {
            let now = Instant::now();
            self.start_due(now);
            let wake_up = self.next_wake_up(now);
            tokio::select! {
                () = stop.cancelled() => break,
                changed = self.watch.changed() => if changed.is_err() { break },
                () = self.work.backoff.shortened() => {}
                Some(ended) = self.work.tasks.join_next_with_id() => self.finish(ended),
                () = tokio::time::sleep_until(wake_up.unwrap_or_else(Instant::now)), if wake_up.is_some() => {}
            }
        }
        let ended = async { while self.work.tasks.join_next().await.is_some() {} };
        tokio::select! {
            () = ended => {}
            () = abort.cancelled() => {
                tracing::warn!("steps of claims were still running; the next start continues them");
            }
        }
    }

    /// Returns when the next pause ends. What is due already waits for something else, such as its call lock,
    /// whose end wakes the driver.
    fn next_wake_up(&self, now: Instant) -> Option<Instant> {
        let sweeps = self.work.next_sweeps.values().copied();
        let pauses = sweeps.filter(|next| *next > now);
        pauses.chain(self.work.backoff.earliest_after(now)).min()
    }

    fn start_due(&mut self, now: Instant) {
        self.work.changed.extend(self.work.backoff.take_due(now));
        let work = &mut self.work;
        let due = self.runner.ports.cell.read(|state| {
            work.see_changes(state);
            work.due(state, now)
        });
        for due in due {
            self.start(due);
        }
    }

    fn start(&mut self, due: Due) {
        let runner = self.runner.clone();
        let tasks = &mut self.work.tasks;
        let (task, running) = match due {
            Due::Step(volume, call_lock, step) => {
                let running = Running::Step(volume.clone(), call_lock, step.clone());
                let task = async move {
                    let host = |state: &State| step_host(state, &volume, &step);
                    let host = runner.ports.cell.read(host);
                    let (last, end) = runner.run(&volume, step).await;
                    Finished::Step(last, end, host)
                };
                (tasks.spawn(task), running)
            }
            Due::Reap(volume, claims) => {
                let running = Running::Reap(volume.clone());
                let task = async move { Finished::Reaped(runner.reap(&volume, claims).await) };
                (tasks.spawn(task), running)
            }
            Due::Sweep(node) => {
                let running = Running::Sweep(node.clone());
                let waits = self.work.sweep_waits.clone();
                let task = async move { Finished::Swept(sweep_node(&runner, &node, &waits).await) };
                (tasks.spawn(task), running)
            }
        };
        self.work.running.insert(task.id(), running);
    }

    /// Notes the end of a step and of those that followed it at once: a failed one pauses.
    fn finish_step(&mut self, volume: RemoteVolume, first: &Step, finished: Option<Finished>) {
        let (last, end, cause) = match finished {
            Some(Finished::Step(last, end, host)) if last == *first => {
                (last, end, PauseCause::Host(host))
            }
            Some(Finished::Step(last, end, _)) => (last, end, PauseCause::Unknown),
            _ => (first.clone(), StepEnd::Pause, PauseCause::Unknown),
        };
        if last != *first {
            let first = Attempt::Step(first.clone());
            self.work.backoff.succeeded(&volume, &first);
        }
        self.finish_attempt(volume, &Attempt::Step(last), end, cause);
    }

    /// Notes the end of an attempt: only progress is followed by another look at once.
    fn finish_attempt(
        &mut self,
        volume: RemoteVolume,
        attempt: &Attempt,
        end: StepEnd,
        cause: PauseCause,
    ) {
        let backoff = &self.work.backoff;
        if end.is_progress() {
            backoff.succeeded(&volume, attempt);
        } else {
            let jitter = self.runner.ports.ids.jitter();
            let failed = backoff.failed_attempts(&volume, attempt);
            let limits = &self.runner.limits;
            let is_last = end == StepEnd::Refused && failed.saturating_add(1) >= limits.refusals;
            let delay = (!is_last).then(|| limits.policy.delay(failed, jitter));
            let now = self.runner.ports.clock.now();
            backoff.failed(&volume, attempt, cause, delay, now);
        }
        self.work.changed.insert(volume);
    }

    /// Frees what the task had. One that panicked is tried again after a pause.
    fn finish(&mut self, ended: Result<(Id, Finished), JoinError>) {
        let (id, finished) = match ended {
            Ok((id, finished)) => (id, Some(finished)),
            Err(error) => {
                tracing::error!(%error, "a step of a claim panicked and is repeated");
                (error.id(), None)
            }
        };
        let work = &mut self.work;
        match work.running.remove(&id) {
            Some(Running::Step(volume, _, first)) => self.finish_step(volume, &first, finished),
            Some(Running::Reap(volume)) => {
                let end = match finished {
                    Some(Finished::Reaped(end)) => end,
                    _ => StepEnd::Pause,
                };
                self.finish_attempt(volume, &Attempt::Reap, end, PauseCause::Unknown);
            }
            Some(Running::Sweep(node)) => match finished {
                Some(Finished::Swept(None)) => {
                    work.sweep_waits.note(&node, None);
                    work.next_sweeps.remove(&node);
                }
                finished => {
                    if let Some(Finished::Swept(wait)) = finished {
                        work.sweep_waits.note(&node, wait);
                    }
                    work.next_sweeps.insert(node, Instant::now() + SWEEP_PAUSE);
                }
            },
            None => {}
        }
    }
}

impl Work {
    /// Notes the volumes that must be looked at. A forgotten allocation has no claims, so it needs no look.
    fn see_changes(&mut self, state: &State) {
        self.changed.extend(state.claims_changed_after(self.claims_seen));
        self.claims_seen = state.claims_index();
        let allocs = state.allocs_changed_after(self.allocs_seen);
        let claims = allocs.flat_map(|alloc| state.claims_of(alloc));
        self.changed.extend(claims.map(|(_, volume)| volume.clone()));
        self.allocs_seen = state.allocs_index();
        let hosts = [state.plugins_index(), state.nodes_index()];
        if self.hosts_seen == Some(hosts) {
            return;
        }
        let all = state.all_claims().map(|record| record.volume.clone());
        self.changed.extend(all);
        self.hosts_seen = Some(hosts);
    }

    /// Returns what can be started now.
    fn due(&mut self, state: &State, now: Instant) -> Vec<Due> {
        let changed = std::mem::take(&mut self.changed);
        let mut due: Vec<_> =
            changed.into_iter().flat_map(|volume| self.due_for(state, &volume, now)).collect();
        due.extend(self.due_sweeps(state, now));
        due
    }

    fn due_for(&mut self, state: &State, volume: &RemoteVolume, now: Instant) -> Vec<Due> {
        let mut busy = self.running.busy_locks(volume);
        let reaped = releasable(state, volume);
        let steps = state.claim_steps(volume);
        self.backoff.retain(volume, &steps, !reaped.is_empty());
        let is_ready =
            !reaped.is_empty() && self.backoff.is_ready(volume, &Attempt::Reap, now, || None);
        if is_ready && busy.insert(None) {
            return vec![Due::Reap(volume.clone(), reaped)];
        }
        let record = state.claims(volume);
        let node_of = |key: &ClaimKey| {
            let claims = &record?.claims.claims;
            claims.get(key).map(|claim| claim.node.clone())
        };
        let mut due = vec![];
        for step in steps {
            let is_swept = matches!(step, Step::Sweep(_));
            let call_lock = step.call_lock(node_of);
            let host = || step_host(state, volume, &step);
            let attempt = Attempt::Step(step.clone());
            let is_ready = !is_swept && self.backoff.is_ready(volume, &attempt, now, host);
            if is_ready && busy.insert(call_lock.clone()) {
                due.push(Due::Step(volume.clone(), call_lock, step));
            }
        }
        due
    }

    /// A node is swept after the steps that were sent to it before it was lost: one that arrives later
    /// would take effect on a clean node (rule 7 of the claims machine).
    fn due_sweeps(&self, state: &State, now: Instant) -> Vec<Due> {
        let losses = state.node_losses();
        let returned = losses.filter(|(_, loss)| loss.has_returned);
        let running = &self.running;
        let due = returned.filter(|(node, _)| {
            let next = self.next_sweeps.get(*node);
            if running.is_swept(node) {
                return false;
            }
            if running.is_busy(node) {
                self.sweep_waits.note(node, Some(SweepWait::Calls));
                return false;
            }
            next.is_none_or(|next| *next <= now)
        });
        due.map(|(node, _)| Due::Sweep(node.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
