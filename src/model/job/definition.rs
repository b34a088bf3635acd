//! A job.

use globset::Glob;
use serde::{Deserialize, Serialize};

use super::constraint::Constraint;
use super::environment::TaskEnvironment;
use super::group::TaskGroup;
use super::keywords::JobType;
use super::launching::{JobOrigin, Parameterized, Periodic};
use crate::id::{JobId, JobKey, Namespace, PluginId};

/// A job, as far as volumes need it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The namespace of the job and of the volumes that it uses.
    pub namespace: Namespace,
    /// The ID, unique in its namespace.
    pub id: JobId,
    /// The name, which is the ID unless the job says otherwise.
    pub name: String,
    /// The region.
    pub region: String,
    /// The type.
    pub job_type: JobType,
    /// The priority, 1 to 100.
    pub priority: i64,
    /// The datacenters whose nodes may run the job; `*` stands for all.
    pub datacenters: Vec<String>,
    /// The node pool.
    pub node_pool: String,
    /// Requirements on the nodes of all groups.
    pub constraints: Vec<Constraint>,
    /// The values of its `meta` block, for all tasks that have no other value.
    #[serde(default, skip_serializing_if = "TaskEnvironment::is_empty")]
    pub meta: TaskEnvironment,
    /// When it starts by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periodic: Option<Periodic>,
    /// The values that each request to run it has to give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameterized: Option<Parameterized>,
    /// The job that it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<JobOrigin>,
    /// The groups.
    pub groups: Vec<TaskGroup>,
}

impl Job {
    /// The priority of a job that names none.
    pub const DEFAULT_PRIORITY: i64 = 50;
    /// The region of a job that names none.
    pub const DEFAULT_REGION: &'static str = "global";
    /// The node pool of a job that names none.
    pub const DEFAULT_NODE_POOL: &'static str = "default";
    /// The only datacenter of a job that names none: all of them.
    pub const ALL_DATACENTERS: &'static str = "*";

    /// Returns whether nodes of a datacenter may run the job.
    pub fn accepts_datacenter(&self, datacenter: &str) -> bool {
        let is_match = |pattern: &String| {
            let glob = Glob::new(pattern).map(|glob| glob.compile_matcher());
            glob.is_ok_and(|glob| glob.is_match(datacenter))
        };
        self.datacenters.iter().any(is_match)
    }

    /// Returns the plugins that its tasks serve.
    pub fn served_plugins(&self) -> impl Iterator<Item = &PluginId> {
        let tasks = self.groups.iter().flat_map(|group| &group.tasks);
        let plugins = tasks.filter_map(|task| task.csi_plugin.as_ref());
        plugins.map(|plugin| &plugin.id)
    }

    /// Creates a service job without groups, with Nomad's defaults.
    pub fn new(namespace: Namespace, id: JobId) -> Self {
        Self {
            namespace,
            name: id.to_string(),
            id,
            region: Self::DEFAULT_REGION.to_owned(),
            job_type: JobType::Service,
            priority: Self::DEFAULT_PRIORITY,
            datacenters: vec![Self::ALL_DATACENTERS.to_owned()],
            node_pool: Self::DEFAULT_NODE_POOL.to_owned(),
            constraints: vec![],
            meta: TaskEnvironment::default(),
            periodic: None,
            parameterized: None,
            origin: None,
            groups: vec![],
        }
    }

    /// Returns its key.
    pub fn key(&self) -> JobKey {
        JobKey::new(self.namespace.clone(), self.id.clone())
    }

    /// Returns whether each run of it has to be requested, with values.
    pub fn is_parameterized(&self) -> bool {
        let origin = self.origin.as_ref();
        let is_dispatched = origin.is_some_and(|origin| origin.dispatch.is_some());
        self.parameterized.is_some() && !is_dispatched
    }

    /// Returns whether it runs nothing itself: only the jobs that are made from it run.
    pub fn is_template(&self) -> bool {
        self.periodic.is_some() || self.is_parameterized()
    }
}
