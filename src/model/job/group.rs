//! A task group: tasks that run together on one node and share its volumes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::constraint::Constraint;
use super::keywords::JobType;
use super::reschedule::ReschedulePolicy;
use super::restart::RestartPolicy;
use super::task::Task;
use super::volume::JobVolume;
use crate::id::VolumeAlias;

/// A task group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskGroup {
    /// The name, unique in the job.
    pub name: String,
    /// The number of allocations; at most 1 in a system job.
    pub count: i64,
    /// The number of canaries of an update, which forbid `per_alloc` volumes.
    pub canaries: i64,
    /// Requirements on the node.
    pub constraints: Vec<Constraint>,
    /// The volumes of every allocation, by the name under which tasks mount them.
    pub volumes: BTreeMap<VolumeAlias, JobVolume>,
    /// When a failed task is restarted.
    pub restart: RestartPolicy,
    /// When a failed allocation is replaced; `None` for the default of the job's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<ReschedulePolicy>,
    /// The tasks.
    pub tasks: Vec<Task>,
}

impl TaskGroup {
    /// Creates a group of one allocation without volumes and tasks.
    pub fn new(name: impl Into<String>, job_type: JobType) -> Self {
        Self {
            name: name.into(),
            count: 1,
            canaries: 0,
            constraints: vec![],
            volumes: BTreeMap::new(),
            restart: RestartPolicy::of_type(job_type),
            reschedule: None,
            tasks: vec![],
        }
    }

    /// Returns whether it runs a plugin, and uses no CSI volume itself.
    pub fn only_serves_plugins(&self) -> bool {
        let mut tasks = self.tasks.iter();
        tasks.any(|task| task.csi_plugin.is_some()) && !self.volumes.values().any(JobVolume::is_csi)
    }

    /// Returns what the driver of a task must be able to mount, in the words of Nomad: `CSI` or `host volumes`.
    pub fn kind_of_mounts(&self, task: &Task) -> &'static str {
        let mounts = task.volume_mounts.iter();
        let mut volumes = mounts.filter_map(|mount| self.volumes.get(&mount.volume));
        match volumes.any(JobVolume::is_csi) {
            true => "CSI",
            false => "host volumes",
        }
    }
}
