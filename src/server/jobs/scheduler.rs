//! [`JobScheduler`]: launches periodic jobs, and places and stops allocations.
//!
//! Level triggered: it wakes when jobs, allocations, or what placement depends on change, or when a pause ends. It
//! looks at jobs that changed, at those that run when a node changed, and at those that wait when a volume, claim,
//! plugin or node changed. Nothing is remembered that a restart would lose; a decision that another change
//! overtakes is made again.

use std::collections::{BTreeMap, BTreeSet};

use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::evaluation::events_of;
use super::forgetting::forgotten;
use super::launching::Launcher;
use crate::cell::{CommitError, Expected, Watch};
use crate::ports::ServerPorts;
use nomad_csi_claims::place::{Decision, evaluate, is_drained};
use nomad_csi_claims::state::{AllocRecord, Event, EventKind, State, Table, Topic};
use nomad_csi_model::{JobKey, Node};

/// The longest sleep, because wall time may be changed in the meantime.
const LONGEST_SLEEP: std::time::Duration = std::time::Duration::from_secs(60);
/// The pause after the journal refused a decision.
const FAILURE_PAUSE: i64 = 5_000_000_000;

/// Places and stops the allocations of all jobs.
pub struct JobScheduler {
    ports: ServerPorts,
    launcher: Launcher,
    watch: Watch,
    /// The indexes of jobs and allocations up to which changes were seen.
    seen: Option<[u64; 2]>,
    /// The indexes of nodes, and of everything that placement depends on, at the last look.
    surroundings: [u64; 2],
    /// The jobs with something that runs, which a change or the drain of a node can end.
    on_nodes: BTreeSet<JobKey>,
    /// The jobs that wait for a node, a volume, a plugin, or the end of a claim.
    waiting: BTreeSet<JobKey>,
    /// When a job is looked at again, in nanoseconds since the epoch.
    pauses: BTreeMap<JobKey, i64>,
    /// When it was last decided what is due.
    last_decided_at: i64,
    /// When drains are looked at again, if the journal refused the end of one.
    drain_pause: Option<i64>,
}

impl JobScheduler {
    /// A scheduler over these ports.
    pub fn new(ports: ServerPorts) -> Self {
        let tables = [
            Table::Jobs,
            Table::Allocs,
            Table::Nodes,
            Table::Plugins,
            Table::Volumes,
            Table::Claims,
        ];
        Self {
            watch: ports.cell.watch(tables.map(Topic::all).into()),
            launcher: Launcher::new(ports.clone()),
            ports,
            seen: None,
            surroundings: [0; 2],
            on_nodes: BTreeSet::new(),
            waiting: BTreeSet::new(),
            pauses: BTreeMap::new(),
            last_decided_at: i64::MIN,
            drain_pause: None,
        }
    }

    /// Schedules until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            for key in self.due() {
                let next_launch = self.launcher.launch_due(&key).await;
                self.decide(&key, next_launch).await;
            }
            self.end_drains().await;
            let pause = self.next_pause();
            tokio::select! {
                () = stop.cancelled() => return,
                changed = self.watch.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    fn next_pause(&self) -> Option<std::time::Duration> {
        let next = self.pauses.values().chain(&self.drain_pause).min()?;
        let nanoseconds = next.saturating_sub(self.ports.clock.now());
        let left = std::time::Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0));
        Some(left.min(LONGEST_SLEEP))
    }

    /// The jobs to look at.
    fn due(&mut self) -> BTreeSet<JobKey> {
        let now = self.ports.clock.now();
        let (mut due, seen, surroundings) = self.ports.cell.read(|state| {
            let mut due = changed_jobs(state, self.seen);
            let nodes = state.nodes_index();
            let surroundings = [nodes, nodes.max(state.volumes_index())];
            // What leaves a node first is what the rest waits for.
            if state.nodes().any(|node| node.is_draining) {
                let jobs = self.on_nodes.iter().filter(|key| is_per_node(state, key));
                due.extend(jobs.cloned());
            }
            (due, [state.jobs_index(), state.allocs_index()], surroundings)
        });
        let [nodes, all] = self.surroundings;
        if surroundings[0] > nodes {
            due.extend(self.on_nodes.iter().cloned());
        }
        if surroundings[1] > all {
            due.extend(self.waiting.iter().cloned());
        }
        // Their ends mean nothing after the clock was set back.
        let was_set_back = now < self.last_decided_at;
        self.last_decided_at = now;
        let ended = self.pauses.iter().filter(|(_, at)| was_set_back || **at <= now);
        due.extend(ended.map(|(key, _)| key.clone()));
        self.seen = Some(seen);
        self.surroundings = surroundings;
        due
    }

    /// Ends the drains that are complete.
    async fn end_drains(&mut self) {
        self.drain_pause = None;
        let drained: Vec<_> = self.ports.cell.read(|state| {
            let nodes = state.nodes().filter(|node| node.is_draining);
            let drained = nodes.filter(|node| is_drained(state, node));
            drained.cloned().collect()
        });
        for known in drained {
            let node = Node { is_draining: false, keeps_system_jobs: false, ..known.clone() };
            let id = node.id.clone();
            let event = Event::new(self.ports.clock.now(), EventKind::NodeRegistered { node });
            let expected = Expected::NodeIs(Box::new(known));
            match self.ports.cell.commit(expected, event).await {
                Ok(_) => info!(node.id = %id, "node is drained"),
                Err(error) => {
                    warn!(node.id = %id, error = error.detail(), "the end of a drain was not recorded");
                    self.drain_pause = Some(self.ports.clock.now().saturating_add(FAILURE_PAUSE));
                }
            }
        }
    }

    /// Decides about a job, and looks at it again when the next launch of it is due.
    async fn decide(&mut self, key: &JobKey, next_launch: Option<i64>) {
        self.on_nodes.remove(key);
        self.waiting.remove(key);
        self.pauses.remove(key);
        let refused = match self.carry_out(key, next_launch, None).await {
            Err(CommitError::LimitReached(limit)) => {
                let reason = limit.to_string();
                self.carry_out(key, next_launch, Some(&reason)).await
            }
            carried_out => carried_out,
        };
        let now = self.ports.clock.now();
        match refused {
            Ok(()) | Err(CommitError::Stopping) => {}
            // The other change wakes the scheduler, or has done so already.
            Err(CommitError::JobConflict { .. } | CommitError::InvalidEvent(_)) => {
                self.pauses.insert(key.clone(), now);
            }
            Err(error) => {
                warn!(job.id = %key.id, job.namespace = %key.namespace, error = error.detail(),
                    "a decision about a job was not recorded and is repeated");
                self.pauses.insert(key.clone(), now + FAILURE_PAUSE);
            }
        }
    }

    /// Decides about a job, and records it. If the state is `full`, which is the reason, nothing is placed, and the
    /// rest is carried out: what ends and what is forgotten makes room.
    async fn carry_out(
        &mut self,
        key: &JobKey,
        next_launch: Option<i64>,
        full: Option<&str>,
    ) -> Result<(), CommitError> {
        let now = self.ports.clock.now();
        let decided = self.ports.cell.read(|state| {
            let record = state.job(key)?;
            let decision = evaluate(state, record, now);
            let decision = match full {
                Some(reason) => decision.without_placements(reason),
                None => decision,
            };
            let mut events = events_of(record, &decision, &*self.ports.ids);
            let forgotten = forgotten(state, record, &decision, now);
            events.extend(forgotten.events);
            let again_at = full.map(|_| now.saturating_add(FAILURE_PAUSE));
            let wake_at =
                decision.wake_at.into_iter().chain(forgotten.look_again_at).chain(again_at).min();
            let waits = !decision.failures.is_empty() || record.is_purged;
            let lives = |(_, alloc, _): (_, &AllocRecord, _)| !alloc.has_ended;
            let is_on_nodes = !decision.place.is_empty()
                || record.current.job.job_type.is_per_node()
                || state.allocs_of_job(key).any(lives);
            let decision = Decision { wake_at, ..decision };
            Some((record.modify_index, decision, events, (waits, is_on_nodes)))
        });
        let Some((index, decision, events, (waits, is_on_nodes))) = decided else {
            return Ok(());
        };
        self.waiting.extend(waits.then(|| key.clone()));
        self.on_nodes.extend(is_on_nodes.then(|| key.clone()));
        let wake_at = decision.wake_at.into_iter().chain(next_launch).min();
        self.pauses.extend(wake_at.map(|at| (key.clone(), at)));
        if events.is_empty() {
            return Ok(());
        }
        let expected = Expected::JobAt(key.clone(), Some(index));
        let events = events.into_iter().map(|kind| Event::new(now, kind));
        let commit = self.ports.cell.commit_all(vec![expected], events.collect());
        commit.await?;
        log_decision(key, &decision);
        if let Some(reason) = full {
            warn!(job.id = %key.id, job.namespace = %key.namespace, reason, "no allocation can be placed");
        }
        Ok(())
    }
}

fn is_per_node(state: &State, key: &JobKey) -> bool {
    let record = state.job(key);
    record.is_some_and(|record| record.current.job.job_type.is_per_node())
}

fn log_decision(key: &JobKey, decision: &Decision) {
    for placed in &decision.place {
        info!(job.id = %key.id, job.namespace = %key.namespace, group = placed.group,
            index = placed.index, node.id = %placed.node, "allocation placed");
    }
    for (alloc, reason) in &decision.stop {
        info!(job.id = %key.id, job.namespace = %key.namespace, alloc.id = %alloc, reason,
            "allocation must stop");
    }
}

/// The jobs that changed themselves, or whose allocations did. At first, all.
fn changed_jobs(state: &State, seen: Option<[u64; 2]>) -> BTreeSet<JobKey> {
    let Some([jobs_seen, allocs_seen]) = seen else {
        return state.jobs().map(|record| record.key()).collect();
    };
    let changed = state.jobs().filter(|job| job.modify_index > jobs_seen);
    let changed = changed.map(|record| record.key());
    let allocs = state.allocs_changed_after(allocs_seen);
    let placed = allocs.filter_map(|id| state.alloc(id)?.placement.as_deref());
    changed.chain(placed.map(|placement| placement.job.key())).collect()
}
