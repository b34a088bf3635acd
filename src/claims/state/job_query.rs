//! The facts about jobs for readers and decisions.

use std::sync::Arc;

use super::claims_record::AllocRecord;
use super::job_record::{EvaluationRecord, JobRecord, Placement};
use super::tables::State;
use nomad_csi_model::{AllocId, EvaluationId, JobId, JobKey};

impl State {
    /// Returns a job; also a purged one, which readers do not show.
    pub fn job(&self, key: &JobKey) -> Option<&Arc<JobRecord>> {
        self.jobs.get(key)
    }

    /// Returns all jobs, also purged ones, sorted by namespace and ID.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &Arc<JobRecord>> {
        self.jobs.values()
    }

    /// Returns the jobs that were made from a job; also purged ones.
    pub fn children_of<'a>(
        &'a self,
        parent: &JobKey,
    ) -> impl Iterator<Item = &'a Arc<JobRecord>> + use<'a> {
        let prefix = format!("{}/", parent.id);
        let first = JobKey::new(parent.namespace.clone(), JobId::new(&prefix));
        let parent = parent.clone();
        let below = self.jobs.range(first..).map(|(_, record)| record);
        let below = below.take_while({
            let namespace = parent.namespace.clone();
            move |record| {
                let id = record.current.job.id.as_str();
                *record.namespace() == namespace && id.starts_with(&prefix)
            }
        });
        below.filter(move |record| {
            let origin = record.current.job.origin.as_ref();
            origin.is_some_and(|origin| origin.parent == parent.id)
        })
    }

    /// Returns the index of the last event that changed a job or an evaluation.
    pub fn jobs_index(&self) -> u64 {
        self.jobs_index
    }

    /// Returns the allocations that were placed for a job, sorted by ID.
    pub fn allocs_of_job<'a>(
        &'a self,
        key: &JobKey,
    ) -> impl Iterator<Item = (&'a AllocId, &'a AllocRecord, &'a Placement)> + use<'a> {
        let first = (key.clone(), AllocId::new(""));
        let key = key.clone();
        let of_job = self.job_allocs.range(first..);
        let of_job = of_job.take_while(move |(job, _)| *job == key);
        of_job.filter_map(|(_, id)| {
            let record = self.allocs.get(id)?;
            Some((id, record, record.placement.as_deref()?))
        })
    }

    /// Returns an evaluation with its job; also one of a purged job.
    pub fn evaluation(&self, id: &EvaluationId) -> Option<(&Arc<JobRecord>, &EvaluationRecord)> {
        let mut jobs = self.jobs.values();
        jobs.find_map(|job| Some((job, job.evaluation(id)?)))
    }
}
