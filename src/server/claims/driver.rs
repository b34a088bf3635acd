//! [`ClaimDriver`]: starts every step that is due.
//!
//! Level triggered: it wakes when claims, allocations, nodes or plugins change, or when a pause ends,
//! reads the state, and starts what is due. It looks only at volumes that changed, except after a
//! change of a plugin, node or allocation. Idle volumes cost nothing. At most one step of a lane runs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backoff::Backoff;
use super::limits::ClaimLimits;
use super::ports::ClaimPorts;
use super::reaper::releasable;
use super::step_runner::{StepEnd, StepRunner};
use super::sweep::sweep_node;
use super::waiters::Waiters;
use crate::claim::{ClaimKey, Lane, Step};
use crate::model::{NodeId, RemoteVolume};
use crate::server::cell::Watch;
use crate::state::{State, Table, Topic};

/// How long a sweep pauses before it looks again.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// Drives the claims of all volumes.
pub struct ClaimDriver {
    runner: Arc<StepRunner>,
    watch: Watch,
    work: Work,
}

/// What runs, and what must be looked at.
#[derive(Default)]
struct Work {
    /// Volumes to look at.
    changed: BTreeSet<RemoteVolume>,
    /// What each task does.
    running: HashMap<Id, Running>,
    backoff: Backoff,
    /// When a node that was not clean is swept again.
    next_sweeps: BTreeMap<NodeId, Instant>,
    /// The index up to which changes of claims were seen.
    claims_seen: u64,
    /// The indexes of plugins and nodes, and that of allocations, at the last look at all volumes.
    others_seen: Option<([u64; 2], u64)>,
    tasks: JoinSet<Finished>,
}

/// What a task does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Running {
    /// A step in its lane, or in none if it calls no plugin.
    Step(RemoteVolume, Option<Lane>, Step),
    /// The release of unused claims.
    Reap(RemoteVolume),
    /// The sweep of a node.
    Sweep(NodeId),
}

/// How a task ended.
enum Finished {
    Step(StepEnd),
    Reaped,
    Swept { is_clean: bool },
}

/// Something to start.
enum Due {
    Step(RemoteVolume, Option<Lane>, Step),
    Reap(RemoteVolume, Vec<(ClaimKey, &'static str)>),
    Sweep(NodeId),
}

impl ClaimDriver {
    /// A driver over these ports.
    pub(super) fn new(
        ports: ClaimPorts,
        limits: ClaimLimits,
        waiters: Waiters,
        backoff: Backoff,
    ) -> Self {
        let tables = [Table::Claims, Table::Allocs, Table::Nodes, Table::Plugins];
        let watch = ports.cell.watch(tables.map(Topic::all).into());
        Self {
            runner: Arc::new(StepRunner::new(ports, limits, waiters)),
            watch,
            work: Work {
                backoff,
                ..Work::default()
            },
        }
    }

    /// Drives until it is stopped, and then waits for running steps until it is aborted. The next run
    /// continues the others.
    pub async fn run(mut self, stop: CancellationToken, abort: CancellationToken) {
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

    /// Returns when the next pause ends. What is due already waits for something else, such as its lane,
    /// whose end wakes the driver.
    fn next_wake_up(&self, now: Instant) -> Option<Instant> {
        let sweeps = self.work.next_sweeps.values().copied();
        let pauses = sweeps.filter(|next| *next > now);
        pauses.chain(self.work.backoff.earliest_after(now)).min()
    }

    fn start_due(&mut self, now: Instant) {
        self.work.changed.extend(self.work.backoff.due(now));
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
            Due::Step(volume, lane, step) => {
                let running = Running::Step(volume.clone(), lane, step.clone());
                let task = async move { Finished::Step(runner.run(&volume, &step).await) };
                (tasks.spawn(task), running)
            }
            Due::Reap(volume, claims) => {
                let running = Running::Reap(volume.clone());
                let task = async move {
                    runner.reap(&volume, claims).await;
                    Finished::Reaped
                };
                (tasks.spawn(task), running)
            }
            Due::Sweep(node) => {
                let running = Running::Sweep(node.clone());
                let task = async move {
                    let is_clean = sweep_node(&runner, &node).await;
                    Finished::Swept { is_clean }
                };
                (tasks.spawn(task), running)
            }
        };
        self.work.running.insert(task.id(), running);
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
            Some(Running::Step(volume, _, step)) => {
                if let Some(Finished::Step(StepEnd::Decide)) = finished {
                    work.backoff.succeeded(&volume, &step);
                } else {
                    let jitter = self.runner.ports.ids.jitter();
                    let failed = work.backoff.failed_attempts(&volume, &step);
                    let delay = self.runner.limits.policy.delay(failed, jitter);
                    let now = self.runner.ports.clock.now();
                    work.backoff.failed(&volume, &step, delay, now);
                }
                work.changed.insert(volume);
            }
            Some(Running::Reap(volume)) => {
                work.changed.insert(volume);
            }
            Some(Running::Sweep(node)) => match finished {
                Some(Finished::Swept { is_clean: true }) => {
                    work.next_sweeps.remove(&node);
                }
                _ => {
                    work.next_sweeps.insert(node, Instant::now() + SWEEP_PAUSE);
                }
            },
            None => {}
        }
    }
}

impl Work {
    fn see_changes(&mut self, state: &State) {
        self.changed
            .extend(state.claims_changed_after(self.claims_seen));
        self.claims_seen = state.claims_index();
        let hosts = [state.plugins_index(), state.nodes_index()];
        let others = (hosts, state.allocs_index());
        if self.others_seen != Some(others) {
            let all = state.all_claims().map(|record| record.volume.clone());
            self.changed.extend(all);
        }
        if self.others_seen.is_some_and(|(seen, _)| seen != hosts) {
            // What a step waited for may be back.
            self.backoff.clear();
        }
        self.others_seen = Some(others);
    }

    /// Returns what can be started now.
    fn due(&mut self, state: &State, now: Instant) -> Vec<Due> {
        let changed = std::mem::take(&mut self.changed);
        let mut due: Vec<_> = changed
            .into_iter()
            .flat_map(|volume| self.due_for(state, &volume, now))
            .collect();
        due.extend(self.due_sweeps(state, now));
        due
    }

    fn due_for(&mut self, state: &State, volume: &RemoteVolume, now: Instant) -> Vec<Due> {
        let of_volume = |running: &Running| match running {
            Running::Step(other, lane, _) if other == volume => Some(lane.clone()),
            Running::Reap(other) if other == volume => Some(None),
            Running::Step(..) | Running::Reap(_) | Running::Sweep(_) => None,
        };
        let mut busy: HashSet<Option<Lane>> = self.running.values().filter_map(of_volume).collect();
        let reaped = releasable(state, volume);
        if !reaped.is_empty() && busy.insert(None) {
            return vec![Due::Reap(volume.clone(), reaped)];
        }
        let steps = state.claim_steps(volume);
        self.backoff.retain(volume, &steps);
        let record = state.claims(volume);
        let node_of = |key: &ClaimKey| {
            let claims = &record?.claims.claims;
            claims.get(key).map(|claim| claim.node.clone())
        };
        let mut due = vec![];
        for step in steps {
            let is_swept = matches!(step, Step::Sweep(_));
            let lane = step.lane(node_of);
            let pauses = self.backoff.next_attempt(volume, &step);
            let is_ready = !is_swept && pauses.is_none_or(|next| next <= now);
            if is_ready && busy.insert(lane.clone()) {
                due.push(Due::Step(volume.clone(), lane, step));
            }
        }
        due
    }

    fn due_sweeps(&self, state: &State, now: Instant) -> Vec<Due> {
        let losses = state.node_losses();
        let returned = losses.filter(|(_, loss)| loss.has_returned);
        let due = returned.filter(|(node, _)| {
            let is_swept = self
                .running
                .values()
                .any(|r| *r == Running::Sweep((*node).clone()));
            let next = self.next_sweeps.get(*node);
            !is_swept && next.is_none_or(|next| *next <= now)
        });
        due.map(|(node, _)| Due::Sweep(node.clone())).collect()
    }
}

#[cfg(test)]
mod tests;
