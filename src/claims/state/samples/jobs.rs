//! Jobs and placed allocations in random histories.

use super::History;
use crate::state::event::EventKind;
use crate::state::job_record::{
    AllocEvent, Evaluation, EvaluationStatus, EvaluationTrigger, GroupFailure, JobEvent, JobRecord,
};
use nomad_csi_model::{
    AllocId, AllocReport, ClientStatus, EvaluationId, Job, JobId, JobKey, JobType, Namespace,
    NodeId, Periodic, RestartPolicy, SealedSecrets, Task, TaskGroup, VolumeAlias,
};

/// Returns a job with one group `g` of one task.
pub fn job(key: &JobKey) -> Job {
    let mut job = Job::new(key.namespace.clone(), key.id.clone());
    let mut group = TaskGroup::new("g", JobType::Service);
    let policy = RestartPolicy::of_type(JobType::Service);
    group.tasks.push(Task::new("t", "exec", policy));
    job.groups.push(group);
    job
}

/// Returns the key of a job in the default namespace.
pub fn job_key(id: &str) -> JobKey {
    JobKey::new(Namespace::default(), JobId::new(id))
}

/// Returns the registration of [`job`].
pub fn job_registered(key: &JobKey) -> EventKind {
    registered(key, job(key))
}

/// Returns the registration of [`job`], which starts at each hour.
pub fn periodic_job_registered(key: &JobKey) -> EventKind {
    let periodic = Periodic { crons: vec!["@hourly".to_owned()], ..Periodic::default() };
    let job = Job { job_type: JobType::Batch, periodic: Some(periodic), ..job(key) };
    registered(key, job)
}

fn registered(key: &JobKey, job: Job) -> EventKind {
    let event = JobEvent::Registered {
        job: Box::new(job),
        settings: SealedSecrets::new(vec![4, 5, 6]),
        earlier: JobRecord::MAX_EARLIER,
    };
    EventKind::Job { job: key.clone(), event: Box::new(event) }
}

/// Returns the placement of an allocation for group `g` of a job.
pub fn alloc_placed(key: &JobKey, alloc: &str, node: &str) -> EventKind {
    EventKind::PlacedAlloc {
        alloc: AllocId::new(alloc),
        event: Box::new(AllocEvent::Placed {
            job: key.clone(),
            node: NodeId::new(node),
            group: "g".to_owned(),
            index: 0,
            evaluation: EvaluationId::new("evaluation-0"),
            runs_plugin: false,
        }),
    }
}

/// Returns a report of this status.
pub fn alloc_reported(alloc: &str, status: ClientStatus) -> EventKind {
    let report = AllocReport {
        description: format!("it is {}", status.as_str()),
        status,
        tasks: [("t".to_owned(), Default::default())].into(),
    };
    EventKind::PlacedAlloc {
        alloc: AllocId::new(alloc),
        event: Box::new(AllocEvent::Reported { report: Box::new(report) }),
    }
}

impl History {
    pub(super) fn any_job_event(&mut self) -> EventKind {
        let key = job_key(&format!("job-{}", self.choose(4)));
        let alloc = format!("alloc-{}", self.choose(8));
        let node = format!("node-{}", self.choose(3));
        let of_job = |event| EventKind::Job { job: key.clone(), event: Box::new(event) };
        match self.choose(15) {
            0 | 1 => job_registered(&key),
            13 => periodic_job_registered(&key),
            14 => of_job(JobEvent::Launched {
                until: i64::from(u32::MAX) + i64::try_from(self.choose(9)).unwrap_or(0),
            }),
            2 => of_job(JobEvent::Stopped { purges: self.choose(2) == 0 }),
            3 => of_job(JobEvent::Evaluated { evaluation: Box::new(self.any_evaluation()) }),
            4 => of_job(JobEvent::Forgotten),
            5..=7 => alloc_placed(&key, &alloc, &node),
            8 => EventKind::PlacedAlloc {
                alloc: AllocId::new(alloc),
                event: Box::new(AllocEvent::StopRequested {
                    reason: "the job was stopped".to_owned(),
                }),
            },
            12 => EventKind::PlacedAlloc {
                alloc: AllocId::new(alloc),
                event: Box::new(AllocEvent::CutOff { alias: VolumeAlias::new("data") }),
            },
            9 => alloc_reported(&alloc, ClientStatus::Running),
            10 => alloc_reported(&alloc, ClientStatus::Complete),
            _ => alloc_reported(&alloc, ClientStatus::Failed),
        }
    }

    fn any_evaluation(&mut self) -> Evaluation {
        let id = EvaluationId::new(format!("evaluation-{}", self.choose(24)));
        let failure = GroupFailure {
            queued: 1,
            nodes: [(NodeId::new("node-0"), vec!["no plugin".to_owned()])].into(),
        };
        Evaluation {
            status: EvaluationStatus::Blocked,
            previous: Some(EvaluationId::new("evaluation-0")),
            failures: [("g".to_owned(), failure)].into(),
            ..Evaluation::pending(id, EvaluationTrigger::Queued)
        }
    }
}
