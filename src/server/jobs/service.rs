//! [`JobService`]: what clients want of jobs, recorded and answered at once.

use crate::cell::{CommitError, Expected};
use crate::error::{JobError, NamespaceUser, ServerError};
use crate::keyed_locks::KeyedLocks;
use nomad_csi_claims::place::{Decision, evaluate};
use nomad_csi_claims::state::{
    AllocEvent, AllocRecord, EarlierVersion, Evaluation, EvaluationTrigger, Event, EventKind,
    JobEvent, JobRecord, JobVersion, Shared, State, Table, Topic,
};
use nomad_csi_model::diagnostic::Severity;
use nomad_csi_model::{AllocId, EvaluationId, Job, JobKey, JobType, Node, NodeId};
use nomad_csi_spec::job::{JobProblem, report_text, root_tasks, validate};

use super::children::{NextLaunch, next_launch, update_problem};
use super::evaluation::evaluated;
use super::settings::JobSealer;
use crate::ports::ServerPorts;

pub(super) type Result<T> = std::result::Result<T, ServerError>;

/// The most allocations of a job on each node, or of all its groups together.
const MAX_ALLOCS: i64 = 1_000;
/// The most bytes of a job, once for each of its allocations, which keep it.
const MAX_BYTES: usize = 64 << 20;
/// The most bytes of the earlier versions of a job that are kept.
const MAX_EARLIER_BYTES: usize = 1 << 20;
/// How often a write is decided again after another one.
pub(super) const CONFLICT_RETRIES: usize = 16;

/// How many dispatches with an idempotency token wait for another one of the same job.
const MAX_WAITING_DISPATCHES: usize = 256;

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobWritten {
    /// The evaluation that follows; `None` if the job does not exist, or runs nothing itself.
    pub evaluation: Option<EvaluationId>,
    /// The index of the last change of the job itself.
    pub job_modify_index: u64,
    /// The index of the write.
    pub index: u64,
    /// Warnings for the author, one sentence each.
    pub warnings: Vec<String>,
}

impl JobWritten {
    /// Returns the ID of the evaluation; empty if there is none.
    pub fn evaluation_id(&self) -> String {
        let id = self.evaluation.as_ref();
        id.map(ToString::to_string).unwrap_or_default()
    }
}

/// The effect that a submission would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobPlan {
    /// The allocations that would be placed and stopped.
    pub decision: Decision,
    /// True if the job exists.
    pub exists: bool,
    /// True if the submission changes the job.
    pub is_changed: bool,
    /// The index of the last change of the job itself; 0 if it does not exist.
    pub job_modify_index: u64,
    /// When the job starts by itself, in nanoseconds since the epoch.
    pub next_launch: Option<i64>,
    /// Warnings for the author, one sentence each.
    pub warnings: Vec<String>,
}

/// Records what clients want of jobs. Clones share their state.
#[derive(Clone)]
pub struct JobService {
    pub(super) ports: ServerPorts,
    pub(super) sealer: JobSealer,
    /// One dispatch with an idempotency token at a time for each job.
    pub(super) dispatches: KeyedLocks<JobKey>,
    allows_root_tasks: bool,
}

/// A submission compared with what is recorded.
struct Compared {
    version: JobVersion,
    is_changed: bool,
    /// How many versions before it are kept.
    earlier: usize,
    /// The index of the last change of the record; `None` if there is none.
    modify_index: Option<u64>,
    /// The index of the last change of the job itself; `None` if readers see no job.
    job_modify_index: Option<u64>,
}

impl JobService {
    /// A service over these ports.
    pub fn new(ports: ServerPorts) -> Self {
        Self {
            sealer: JobSealer::new(ports.sealer.clone()),
            dispatches: KeyedLocks::new(MAX_WAITING_DISPATCHES),
            ports,
            allows_root_tasks: false,
        }
    }

    /// Sets whether tasks of `exec` may run as root.
    #[must_use]
    pub fn with_root_tasks(self, are_allowed: bool) -> Self {
        Self { allows_root_tasks: are_allowed, ..self }
    }

    /// Returns the warnings of a valid job.
    pub(super) fn checked(&self, key: &JobKey, job: &Job) -> Result<Vec<String>> {
        let problems = self.problems(job);
        if let Some(text) = report_text(job, &problems) {
            let job = key.clone();
            return Err(JobError::Invalid { job, text }.into());
        }
        if let Some(text) = size_problem(job) {
            let job = key.clone();
            return Err(JobError::Invalid { job, text }.into());
        }
        let warnings = problems.iter().filter(|problem| problem.severity == Severity::Warning);
        Ok(warnings.map(|problem| problem.message(job)).collect())
    }

    /// Returns the rules that a job breaks on this server.
    pub fn problems(&self, job: &Job) -> Vec<JobProblem> {
        let mut problems = validate(job);
        if !self.allows_root_tasks {
            problems.extend(root_tasks(job));
        }
        problems
    }

    /// Submits a job. With `enforced`, only if its index is that; 0 stands for a job that does not exist.
    ///
    /// # Errors
    /// If the job is not valid, or not the one that the client read. Nothing is recorded then.
    pub async fn register(&self, job: Job, enforced: Option<u64>) -> Result<JobWritten> {
        let key = job.key();
        let mut warnings = self.checked(&key, &job)?;
        let mut keeps_earlier = true;
        for _ in 0..CONFLICT_RETRIES {
            let compared = self.compare(&key, &job)?;
            let earlier = if keeps_earlier { compared.earlier } else { 0 };
            check_enforced(&key, enforced, compared.job_modify_index)?;
            let now = self.ports.clock.now();
            let evaluation = (!job.is_template()).then(|| EvaluationId::new(self.ports.ids.uuid()));
            let mut events = vec![];
            if compared.is_changed {
                events.push(JobEvent::Registered {
                    job: Box::new(compared.version.job.clone()),
                    settings: compared.version.settings.clone(),
                    earlier,
                });
            }
            events.extend(evaluation.as_ref().map(|id| JobEvent::Evaluated {
                evaluation: Box::new(Evaluation::pending(
                    id.clone(),
                    EvaluationTrigger::Registered,
                )),
            }));
            let unchanged = compared.job_modify_index.filter(|_| !compared.is_changed);
            if let (Some(job_modify_index), true) = (unchanged, events.is_empty()) {
                return Ok(JobWritten {
                    evaluation: None,
                    job_modify_index,
                    index: self.ports.cell.index(),
                    warnings,
                });
            }
            match self.commit(&key, compared.modify_index, events, now).await {
                Ok(index) => {
                    warnings.extend(self.placement_warnings(&key, now));
                    // The evaluation is the last event of the write.
                    let registered = index - u64::from(evaluation.is_some());
                    return Ok(JobWritten {
                        evaluation,
                        job_modify_index: unchanged.unwrap_or(registered),
                        index,
                        warnings,
                    });
                }
                Err(CommitError::JobConflict { .. }) => {}
                // A job can still be changed where nothing more can be kept.
                Err(CommitError::LimitReached(reached)) if earlier > 0 => {
                    keeps_earlier = false;
                    warnings
                        .push(format!("the earlier versions of the job are forgotten: {reached}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(&key))
    }

    /// Submits an earlier version of a job again. With `enforced`, only if the newest version is that.
    ///
    /// # Errors
    /// If the version is not on record or is the newest one, or the job would be refused as a submission.
    pub async fn revert(
        &self,
        key: &JobKey,
        version: u64,
        enforced: Option<u64>,
    ) -> Result<JobWritten> {
        let record = self.job(key)?;
        let current = record.current.version;
        if let Some(enforced) = enforced.filter(|enforced| *enforced != current) {
            let text = format!("its newest version is {current}, and {enforced} was expected");
            return Err(JobError::NoVersion { job: key.clone(), text }.into());
        }
        if version == current && !record.is_stopped {
            let text = format!("version {version} is the newest one");
            return Err(JobError::NoVersion { job: key.clone(), text }.into());
        }
        let Some(found) = record.versions().find(|one| one.version.version == version) else {
            let known: Vec<_> =
                record.versions().map(|one| one.version.version.to_string()).collect();
            let text = format!("version {version} is not on record, only {}", known.join(", "));
            return Err(JobError::NoVersion { job: key.clone(), text }.into());
        };
        let job = self.sealer.open(&found.version)?;
        self.register(job, Some(record.job_modify_index)).await
    }

    /// Stops a job, and with `purges` forgets it once its allocations are gone. Returns at once.
    ///
    /// # Errors
    /// If it cannot be recorded.
    pub async fn stop(&self, key: &JobKey, purges: bool) -> Result<JobWritten> {
        for _ in 0..CONFLICT_RETRIES {
            let known = self.ports.cell.read(|state| state.job(key).cloned());
            let Some(known) = known.filter(|known| !known.is_purged) else {
                return Ok(JobWritten {
                    evaluation: None,
                    job_modify_index: 0,
                    index: self.ports.cell.index(),
                    warnings: vec![],
                });
            };
            let is_new = !known.is_stopped || purges;
            let evaluation = EvaluationId::new(self.ports.ids.uuid());
            let pending = Evaluation::pending(evaluation.clone(), EvaluationTrigger::Stopped);
            let stopped = is_new.then_some(JobEvent::Stopped { purges });
            let evaluated = JobEvent::Evaluated { evaluation: Box::new(pending) };
            let events = stopped.into_iter().chain([evaluated]).collect();
            let now = self.ports.clock.now();
            match self.commit(key, Some(known.modify_index), events, now).await {
                Ok(index) => {
                    // Nomad does not evaluate the stop of a job that runs nothing.
                    let is_template = known.current.job.is_template();
                    return Ok(JobWritten {
                        evaluation: (!is_template).then_some(evaluation),
                        job_modify_index: if is_new { index - 1 } else { known.job_modify_index },
                        index,
                        warnings: vec![],
                    });
                }
                Err(CommitError::JobConflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(busy(key))
    }

    /// Makes a new evaluation of a job.
    ///
    /// # Errors
    /// If the job does not exist, or runs nothing itself.
    pub async fn evaluate(&self, key: &JobKey) -> Result<JobWritten> {
        let known = self.job(key)?;
        if known.current.job.is_template() {
            let kind = match known.current.job.periodic {
                Some(_) => "periodic",
                None => "parameterized",
            };
            let text = format!("can't evaluate {kind} job");
            return Err(JobError::refused(key, text).into());
        }
        let evaluation = EvaluationId::new(self.ports.ids.uuid());
        let pending = Evaluation::pending(evaluation.clone(), EvaluationTrigger::Registered);
        let event = Event::new(self.ports.clock.now(), evaluated(key, pending));
        let index = self.ports.cell.commit(Expected::Any, event).await?;
        Ok(JobWritten {
            evaluation: Some(evaluation),
            job_modify_index: known.job_modify_index,
            index,
            warnings: vec![],
        })
    }

    /// Stops an allocation; its job replaces it.
    ///
    /// # Errors
    /// If the allocation does not exist, or was not placed for a job.
    pub async fn stop_alloc(&self, alloc: &AllocId) -> Result<JobWritten> {
        let found = self.ports.cell.read(|state| {
            let record = state.alloc(alloc)?;
            let placement = record.placement.as_deref()?;
            Some((placement.job.key(), record.has_ended))
        });
        let Some((key, has_ended)) = found else {
            return Err(JobError::NoAlloc(alloc.to_string()).into());
        };
        let evaluation = EvaluationId::new(self.ports.ids.uuid());
        let stop = (!has_ended).then(|| EventKind::PlacedAlloc {
            alloc: alloc.clone(),
            event: Box::new(AllocEvent::StopRequested {
                reason: "an operator stopped it".to_owned(),
            }),
        });
        let pending = Evaluation::pending(evaluation.clone(), EvaluationTrigger::AllocStopped);
        let now = self.ports.clock.now();
        let kinds = stop.into_iter().chain([evaluated(&key, pending)]);
        let events = kinds.map(|kind| Event::new(now, kind)).collect();
        let index = self.ports.cell.commit_all(vec![], events).await?;
        Ok(JobWritten {
            evaluation: Some(evaluation),
            job_modify_index: 0,
            index,
            warnings: vec![],
        })
    }

    /// Stops every allocation and waits until its volumes are given back. System jobs, among which are node plugins, stop
    /// after the others, whose volumes they release; each half takes at most `limit`. For an agent whose directory does not outlive it.
    pub async fn end_allocs(&self, limit: std::time::Duration) {
        let nodes: Vec<NodeId> =
            self.ports.cell.read(|state| state.nodes().map(|node| node.id.clone()).collect());
        for node in nodes {
            // Otherwise the allocations are replaced.
            if let Err(error) = self.set_node(&node, |node| node.is_eligible = false).await {
                tracing::warn!(%error, "cannot keep a node from getting allocations");
            }
        }
        for is_per_node in [false, true] {
            self.stop_allocs(is_per_node).await;
            let ended = self.wait_for_allocs(is_per_node);
            if tokio::time::timeout(limit, ended).await.is_err() {
                tracing::warn!("tasks were running or volumes were mounted when the agent stopped");
            }
        }
    }

    /// Stops the allocations of system jobs, or all others.
    async fn stop_allocs(&self, is_per_node: bool) {
        let live: Vec<AllocId> = self.ports.cell.read(|state| {
            let live = state.allocs().filter(|(_, alloc)| {
                is_running(alloc)
                    && job_type(alloc).is_some_and(|it| it.is_per_node() == is_per_node)
            });
            live.map(|(id, _)| id.clone()).collect()
        });
        for alloc in live {
            let kind = EventKind::PlacedAlloc {
                alloc,
                event: Box::new(AllocEvent::StopRequested {
                    reason: "the agent stops, and its directory with it".to_owned(),
                }),
            };
            let event = Event::new(self.ports.clock.now(), kind);
            if let Err(error) = self.ports.cell.commit(Expected::Any, event).await {
                tracing::warn!(%error, "cannot stop an allocation");
            }
        }
    }

    /// Waits until the allocations of system jobs, or all others, have ended and given their volumes back.
    async fn wait_for_allocs(&self, is_per_node: bool) {
        let topics = |_: &State| [Table::Allocs, Table::Claims].map(Topic::all).into();
        let have_ended = |state: &State| {
            let is_left = |(id, alloc): (&AllocId, &AllocRecord)| {
                job_type(alloc).is_some_and(|it| it.is_per_node() == is_per_node)
                    && (is_running(alloc) || state.claims_of(id).next().is_some())
            };
            !state.allocs().any(is_left)
        };
        let ended = self.ports.cell.wait_until(topics, have_ended).await;
        if ended.is_err() {
            tracing::warn!("the state was closed before the allocations had ended");
        }
    }

    /// Says what a submission would do. Records nothing.
    ///
    /// # Errors
    /// If the job is not valid.
    pub fn plan(&self, job: &Job) -> Result<JobPlan> {
        let key = job.key();
        let mut warnings = self.checked(&key, job)?;
        self.ports.cell.check(&namespace_of(&key))?;
        let compared = self.compare(&key, job)?;
        let now = self.ports.clock.now();
        let record = JobRecord {
            current: Shared::from(compared.version),
            earlier: vec![],
            is_stopped: false,
            is_purged: false,
            evaluations: vec![],
            create_index: 0,
            modify_index: 0,
            job_modify_index: 0,
            submit_time: now,
            launched_until: Some(now),
        };
        // Nothing was launched yet, so none is due.
        let next_launch = match next_launch(&record, now, || false) {
            Some(Ok(NextLaunch::At(at))) => Some(at),
            Some(Ok(NextLaunch::Due(_) | NextLaunch::SetBack | NextLaunch::Never) | Err(_))
            | None => None,
        };
        let decision = (self.ports.cell).read(|state| evaluate(state, &record, now));
        warnings.extend(warnings_of(&decision));
        Ok(JobPlan {
            decision,
            exists: compared.job_modify_index.is_some(),
            is_changed: compared.is_changed,
            job_modify_index: compared.job_modify_index.unwrap_or(0),
            next_launch,
            warnings,
        })
    }

    /// Decides about a recorded job as the scheduler would now. Records nothing.
    ///
    /// # Errors
    /// If the job does not exist.
    pub fn placement(&self, key: &JobKey) -> Result<Decision> {
        let record = self.job(key)?;
        let now = self.ports.clock.now();
        let decide = |state: &State| evaluate(state, &record, now);
        Ok(self.ports.cell.read(decide))
    }

    /// Lets a node take allocations, or not, and drains it or not.
    ///
    /// # Errors
    /// If the node does not exist.
    pub async fn set_node(&self, id: &NodeId, change: impl Fn(&mut Node)) -> Result<u64> {
        loop {
            let known = self.ports.cell.read(|state| state.node(id).cloned());
            let Some(known) = known else {
                return Err(JobError::NoNode(id.to_string()).into());
            };
            let mut node = known.clone();
            change(&mut node);
            let event = Event::new(self.ports.clock.now(), EventKind::NodeRegistered { node });
            let expected = Expected::NodeIs(Box::new(known));
            match self.ports.cell.commit(expected, event).await {
                Err(CommitError::NodeConflict { .. }) => {}
                committed => return Ok(committed?),
            }
        }
    }

    /// Returns a job as readers see it.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn job(&self, key: &JobKey) -> Result<std::sync::Arc<JobRecord>> {
        let known = self.ports.cell.read(|state| state.job(key).cloned());
        known.filter(|known| !known.is_purged).ok_or_else(|| JobError::NotFound(key.clone()).into())
    }

    /// Returns a recorded job with everything that clients do not get to see.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn complete(&self, record: &JobRecord) -> Result<Job> {
        self.sealer.open(&record.current)
    }

    async fn commit(
        &self,
        key: &JobKey,
        modify_index: Option<u64>,
        events: Vec<JobEvent>,
        now: i64,
    ) -> std::result::Result<u64, CommitError> {
        let kinds = events
            .into_iter()
            .map(|event| EventKind::Job { job: key.clone(), event: Box::new(event) });
        let events = kinds.map(|kind| Event::new(now, kind)).collect();
        let expected = vec![namespace_of(key), Expected::JobAt(key.clone(), modify_index)];
        self.ports.cell.commit_all(expected, events).await
    }

    /// Compares a submission with the recorded job. Settings that did not change keep their sealed form.
    ///
    /// # Errors
    /// If the recorded job cannot become this one, or cannot be opened.
    fn compare(&self, key: &JobKey, job: &Job) -> Result<Compared> {
        let known = self.ports.cell.read(|state| state.job(key).cloned());
        let replaced = known.as_ref().filter(|known| !known.is_purged);
        let problem = replaced.and_then(|known| update_problem(&known.current.job, job));
        if let Some(text) = problem {
            let job = key.clone();
            return Err(JobError::OtherKind { job, text }.into());
        }
        let mut definition = job.clone();
        let settings = definition.take_settings();
        let recorded = known.as_ref().map(|known| &known.current);
        let same_settings = match recorded {
            Some(recorded) if self.sealer.settings_of(recorded)? == settings => {
                Some(recorded.settings.clone())
            }
            Some(_) | None => None,
        };
        let is_same = |known: &std::sync::Arc<JobRecord>| {
            known.current.job == definition && same_settings.is_some() && !known.is_stopped
        };
        let is_changed = !known.as_ref().is_some_and(is_same);
        let version = match recorded {
            None => 0,
            Some(recorded) => recorded.version + u64::from(is_changed),
        };
        let sealed = same_settings.unwrap_or_else(|| self.sealer.seal(key, &settings));
        let visible = known.as_ref().filter(|known| !known.is_purged);
        Ok(Compared {
            is_changed,
            modify_index: known.as_ref().map(|known| known.modify_index),
            job_modify_index: visible.map(|known| known.job_modify_index),
            earlier: visible.map_or(0, |known| kept_versions(known)),
            version: JobVersion { job: definition, settings: sealed, version },
        })
    }

    /// Returns what a submission should know about nodes that cannot take a group (B80).
    fn placement_warnings(&self, key: &JobKey, now: i64) -> Vec<String> {
        let decision = self.ports.cell.read(|state| {
            let record = state.job(key)?;
            Some(evaluate(state, record, now))
        });
        decision.as_ref().map(warnings_of).unwrap_or_default()
    }
}

/// How many of the versions of a job are kept when it changes.
fn kept_versions(record: &JobRecord) -> usize {
    let mut room = MAX_EARLIER_BYTES;
    let fits = |one: &EarlierVersion| {
        let bytes = serde_json::to_vec(one).map_or(usize::MAX, |text| text.len());
        let left = room.checked_sub(bytes);
        room = left.unwrap_or(0);
        left.is_some()
    };
    record.versions().take(JobRecord::MAX_EARLIER).take_while(fits).count()
}

pub(super) fn namespace_of(key: &JobKey) -> Expected {
    Expected::NamespaceOf(NamespaceUser::Job(key.clone()))
}

fn is_running(alloc: &AllocRecord) -> bool {
    alloc.placement.is_some() && !alloc.has_ended
}

/// The type of the job that an allocation was placed for.
fn job_type(alloc: &AllocRecord) -> Option<JobType> {
    let placement = alloc.placement.as_deref()?;
    Some(placement.job.job.job_type)
}

pub(super) fn busy(key: &JobKey) -> ServerError {
    ServerError::Commit(CommitError::JobConflict { job: key.clone() })
}

/// Why the job is too large for this agent.
fn size_problem(job: &Job) -> Option<String> {
    let counts = job.groups.iter().map(|group| group.count.max(0));
    let allocs = counts.fold(0_i64, i64::saturating_add);
    if allocs > MAX_ALLOCS {
        return Some(format!(
            "the job has {allocs} allocations, and this agent runs at most {MAX_ALLOCS} of a job"
        ));
    }
    let bytes = serde_json::to_vec(job).map_or(usize::MAX, |text| text.len());
    let limit = MAX_BYTES / usize::try_from(allocs.max(1)).unwrap_or(1);
    (bytes > limit).then(|| {
        format!(
            "the job has {bytes} bytes, and with {allocs} allocations this agent takes at most {limit}"
        )
    })
}

fn check_enforced(key: &JobKey, enforced: Option<u64>, found: Option<u64>) -> Result<()> {
    let Some(expected) = enforced else {
        return Ok(());
    };
    if found.unwrap_or(0) == expected {
        return Ok(());
    }
    let job = key.clone();
    Err(JobError::Changed { job, expected, found }.into())
}

fn warnings_of(decision: &Decision) -> Vec<String> {
    let failures = decision.failures.iter();
    let lines = failures.map(|(group, failure)| {
        let mut reasons: Vec<_> = failure.nodes.values().flatten().map(String::as_str).collect();
        reasons.sort_unstable();
        reasons.dedup();
        let reasons = match reasons.is_empty() {
            true => "there is no node".to_owned(),
            false => reasons.join("; "),
        };
        let queued = failure.queued;
        let count = if queued == 1 { "allocation" } else { "allocations" };
        format!("no node can take {queued} {count} of group `{group}` now: {reasons}")
    });
    lines.collect()
}
