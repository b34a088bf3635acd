//! The stored jobs, their evaluations, and the allocations that were placed for them.
//!
//! An allocation keeps the job as it was when it was placed, so an update of the job does not change what runs.
//! A purged job stays on record until its last allocation is forgotten, because its volumes are given back first.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::shared::Shared;
use nomad_csi_model::{
    AllocId, AllocReport, EvaluationId, Job, JobKey, Namespace, NodeId, SealedSecrets, TaskGroup,
    VolumeAlias,
};

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobVersion {
    /// The job without what may be secret.
    pub job: Job,
    /// Its possible secrets, sealed.
    pub settings: SealedSecrets,
    /// The number of the version, from 0.
    pub version: u64,
}

impl JobVersion {
    /// Returns the key of the job.
    pub fn key(&self) -> JobKey {
        self.job.key()
    }
}

/// A version of a job before the newest one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EarlierVersion {
    /// The job as it was submitted.
    pub version: Shared<JobVersion>,
    /// The time of its registration, in nanoseconds since the epoch.
    pub submit_time: i64,
    /// The index of the last change of the job itself, while this version was the newest.
    pub job_modify_index: u64,
}

/// A stored job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobRecord {
    /// The newest version.
    pub current: Shared<JobVersion>,
    /// The versions before it, oldest first, as its registration kept them. Since version 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<EarlierVersion>,
    /// True if it was stopped.
    pub is_stopped: bool,
    /// True if it was purged: readers do not see it any more.
    pub is_purged: bool,
    /// The newest evaluations, oldest first; at most [`JobRecord::MAX_EVALUATIONS`].
    pub evaluations: Vec<EvaluationRecord>,
    /// The index of the first event.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The index of the last change of the job itself: a registration or a stop.
    pub job_modify_index: u64,
    /// The time of the last registration, in nanoseconds since the epoch.
    pub submit_time: i64,
    /// The time up to which the launches of a periodic job are decided, in nanoseconds since the epoch: its last
    /// launch, or its registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched_until: Option<i64>,
}

impl JobRecord {
    /// How many evaluations are kept.
    pub const MAX_EVALUATIONS: usize = 10;
    /// How many versions before the newest one are kept at most, as in Nomad.
    pub const MAX_EARLIER: usize = 6;

    /// Returns the key.
    pub fn key(&self) -> JobKey {
        self.current.key()
    }

    /// Returns the namespace.
    pub fn namespace(&self) -> &Namespace {
        &self.current.job.namespace
    }

    /// Returns the newest version as one that another follows.
    pub fn as_earlier(&self) -> EarlierVersion {
        EarlierVersion {
            version: self.current.clone(),
            submit_time: self.submit_time,
            job_modify_index: self.job_modify_index,
        }
    }

    /// Returns the newest version and those before it, newest first.
    pub fn versions(&self) -> impl Iterator<Item = EarlierVersion> {
        [self.as_earlier()].into_iter().chain(self.earlier.iter().rev().cloned())
    }

    /// Returns an evaluation.
    pub fn evaluation(&self, id: &EvaluationId) -> Option<&EvaluationRecord> {
        self.evaluations.iter().find(|one| one.result.id == *id)
    }

    /// Returns the newest evaluation.
    pub fn latest(&self) -> Option<&EvaluationRecord> {
        self.evaluations.last()
    }

    /// Returns whether it has allocations of its own.
    pub fn should_run(&self) -> bool {
        !self.is_stopped && !self.current.job.is_template()
    }

    /// Returns whether it starts by itself.
    pub fn starts_by_itself(&self) -> bool {
        let job = &self.current.job;
        let is_enabled = job.periodic.as_ref().is_some_and(|one| one.is_enabled);
        is_enabled && !self.is_stopped && !job.is_parameterized()
    }
}

/// Why a job is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationTrigger {
    /// The job was registered.
    Registered,
    /// The job was stopped.
    Stopped,
    /// An allocation was stopped by an operator.
    AllocStopped,
    /// An allocation could not be placed, and waits.
    Queued,
    /// A periodic job was launched.
    Launched,
}

/// Where an evaluation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationStatus {
    /// The scheduler has not looked at it.
    Pending,
    /// The scheduler has placed what it could.
    Complete,
    /// It waits until its allocations can be placed.
    Blocked,
    /// A newer evaluation replaced it.
    Cancelled,
}

/// Why the allocations of a group were not placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupFailure {
    /// How many allocations wait.
    pub queued: u32,
    /// The reasons by node; empty if there is no node.
    pub nodes: BTreeMap<NodeId, Vec<String>>,
}

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// The ID.
    pub id: EvaluationId,
    /// Why it was made.
    pub trigger: EvaluationTrigger,
    /// Where it is.
    pub status: EvaluationStatus,
    /// The evaluation that could not place everything, if this one waits for the rest.
    pub previous: Option<EvaluationId>,
    /// The evaluation that waits for the rest.
    pub blocked: Option<EvaluationId>,
    /// The groups that were not placed completely.
    pub failures: BTreeMap<String, GroupFailure>,
}

impl Evaluation {
    /// Creates an evaluation that the scheduler has to look at.
    pub fn pending(id: EvaluationId, trigger: EvaluationTrigger) -> Self {
        Self {
            id,
            trigger,
            status: EvaluationStatus::Pending,
            previous: None,
            blocked: None,
            failures: BTreeMap::new(),
        }
    }
}

/// A stored evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvaluationRecord {
    /// Its result.
    pub result: Evaluation,
    /// The index of the first event.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the first event, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last change, in nanoseconds since the epoch.
    pub modify_time: i64,
}

/// The job that an allocation was placed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The job as it was when the allocation was placed.
    pub job: Shared<JobVersion>,
    /// The group.
    pub group: String,
    /// The index in the group, from 0.
    pub index: u32,
    /// The evaluation that placed it.
    pub evaluation: EvaluationId,
    /// Why it must stop; `None` while it should run.
    pub stop_reason: Option<String>,
    /// The volumes from which an operator cut it off: its tasks are killed, and never use them again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub cut_off: BTreeSet<VolumeAlias>,
    /// The last report of its node.
    pub report: Option<AllocReport>,
}

impl Placement {
    /// Returns the group as it was when the allocation was placed.
    pub fn task_group(&self) -> Option<&TaskGroup> {
        let mut groups = self.job.job.groups.iter();
        groups.find(|group| group.name == self.group)
    }

    /// Returns Nomad's name of the allocation: `job.group[index]`.
    pub fn name(&self) -> String {
        format!("{}.{}[{}]", self.job.job.id, self.group, self.index)
    }
}

/// A change of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum JobEvent {
    /// It was submitted for the first time, or changed.
    Registered {
        /// The job without what may be secret.
        job: Box<Job>,
        /// The possible secrets, sealed.
        settings: SealedSecrets,
        /// How many versions before this one are kept, the newest ones; at most [`JobRecord::MAX_EARLIER`]. Since
        /// version 11.
        #[serde(default, skip_serializing_if = "is_zero")]
        earlier: usize,
    },
    /// It was stopped, or purged after it was stopped.
    Stopped {
        /// True if it is forgotten once its allocations are.
        purges: bool,
    },
    /// An evaluation was made, or has changed.
    Evaluated {
        /// The evaluation.
        evaluation: Box<Evaluation>,
    },
    /// A launch of a periodic job was decided: its job was registered, or left out.
    Launched {
        /// Launches up to this time are decided, in nanoseconds since the epoch.
        until: i64,
    },
    /// A purged job has no allocation any more.
    Forgotten,
}

/// A change of an allocation that was placed for a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AllocEvent {
    /// It was placed on a node.
    Placed {
        /// The job, whose newest version it runs.
        job: JobKey,
        /// The node.
        node: NodeId,
        /// The group.
        group: String,
        /// The index in the group, from 0.
        index: u32,
        /// The evaluation that placed it.
        evaluation: EvaluationId,
        /// True if a task of it is a CSI plugin, without which no volume is released.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        runs_plugin: bool,
    },
    /// Its tasks must stop.
    StopRequested {
        /// Why, for people.
        reason: String,
    },
    /// An operator cut it off from a volume.
    CutOff {
        /// Its name of the volume.
        alias: VolumeAlias,
    },
    /// Its node reported what became of it.
    Reported {
        /// The report.
        report: Box<AllocReport>,
    },
}

impl JobEvent {
    /// Returns the event's name for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Registered { .. } => "job registered",
            Self::Stopped { .. } => "job stopped",
            Self::Evaluated { .. } => "job evaluated",
            Self::Launched { .. } => "job launched",
            Self::Forgotten => "job forgotten",
        }
    }
}

impl AllocEvent {
    /// Returns the event's name for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Placed { .. } => "allocation placed",
            Self::StopRequested { .. } => "allocation stop requested",
            Self::CutOff { .. } => "allocation cut off",
            Self::Reported { .. } => "allocation reported",
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The allocations of a job, for indexes.
pub(super) type JobAlloc = (JobKey, AllocId);
