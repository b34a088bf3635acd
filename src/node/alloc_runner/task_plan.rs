//! What a task runs with: decided before any volume is claimed, but for the paths of its volumes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::alloc_directory::TaskDirectory;
use super::super::interpolation::{Interpolation, MissingReference};
use super::super::plugin_tasks::{PluginDirectories, PluginPaths};
use super::super::task_identity::{find_user, signal_number};
use super::super::task_mounts::{MountedVolumes, mount_problem, nested_mount_problem, task_mounts};
use super::super::task_program::driver_config;
use super::task_environment::{VisibleDirectories, task_environment};
use crate::task_run::{DriverConfig, LogLimits, RunRequest, TaskMount, TaskUser};
use nomad_csi_model::{
    AllocId, Job, Node, Payload, PropagationMode, SHARED_DIRECTORY, Task, TaskGroup,
};
use nomad_csi_ports::AssignedAlloc;
use nomad_csi_spec::job::{ROOT_REFUSED, may_be_refused_as_root};

/// The program, mounts and environment of a task.
#[derive(Clone)]
pub(super) struct TaskPlan {
    alloc: AllocId,
    task: Task,
    config: DriverConfig,
    environment: BTreeMap<String, String>,
    interpolation: Interpolation,
    kill_signal: i32,
    user: Option<TaskUser>,
    directory: TaskDirectory,
    /// The payload of the dispatch of the job.
    payload: Option<Payload>,
    /// The mounts of the plugin that it runs.
    plugin_mounts: Vec<TaskMount>,
}

/// The facts that the plans of all tasks of an allocation need.
pub(super) struct PlanContext<'a> {
    /// The allocation.
    pub(super) alloc: &'a AssignedAlloc,
    /// Its group.
    pub(super) group: &'a TaskGroup,
    /// This node.
    pub(super) node: &'a Arc<Node>,
    /// The directories of plugins.
    pub(super) plugins: &'a PluginDirectories,
    /// The content of `/etc/passwd`.
    pub(super) passwd: &'a str,
    /// True if the agent can run tasks as other users: it is root.
    pub(super) may_switch_users: bool,
    /// True if its operator allows tasks of `exec` to run as root.
    pub(super) allows_root_tasks: bool,
}

impl TaskPlan {
    /// Plans a task.
    ///
    /// # Errors
    /// Why the task can never run as the job describes it.
    pub(super) fn new(
        task: &Task,
        directory: TaskDirectory,
        context: &PlanContext<'_>,
    ) -> Result<Self, String> {
        let task = &with_meta_of_job(task, &context.alloc.job);
        if let Some(problem) = mount_problem(task, context.group) {
            return Err(problem);
        }
        let about = |reason: String| format!("task `{}`: {reason}", task.name);
        let plugin = task.csi_plugin.as_ref();
        let alloc = &context.alloc.id;
        let plugin = plugin.map(|config| context.plugins.paths(alloc, config, has_own_root(task)));
        let visible = VisibleDirectories {
            csi_endpoint: plugin.as_ref().map(PluginPaths::endpoint),
            ..visible_directories(task, &directory)
        };
        let (environment, interpolation) =
            task_environment(context.alloc, task, context.node, &visible);
        check_references(task, &interpolation).map_err(|missing| about(missing.to_string()))?;
        if let Some(problem) =
            nested_mount_problem(task, &interpolation).filter(|_| has_own_root(task))
        {
            return Err(about(problem));
        }
        let config = task.config.expose().iter();
        let config = config.map(|(key, value)| (key.clone(), interpolation.json(value)));
        let mut config = driver_config(task, &config.collect()).map_err(about)?;
        if let DriverConfig::RawExec(program) = &mut config {
            let default = || directory.path().to_owned();
            program.working_directory.get_or_insert_with(default);
        }
        let user = match user_name(task, context.may_switch_users) {
            None => None,
            Some(name) => Some(find_user(context.passwd, name).map_err(about)?),
        };
        let is_root = user.is_some_and(|user| user.uid == 0);
        if is_root && may_be_refused_as_root(task) && !context.allows_root_tasks {
            return Err(about(ROOT_REFUSED.to_owned()));
        }
        Ok(Self {
            alloc: alloc.clone(),
            task: task.clone(),
            config,
            environment,
            interpolation,
            kill_signal: signal_number(&task.kill_signal).map_err(about)?,
            user,
            directory,
            payload: payload_of(&context.alloc.job),
            plugin_mounts: plugin.map(|plugin| plugin.mounts()).unwrap_or_default(),
        })
    }

    /// Returns the file of the task that gets the payload of its job, if both have one.
    pub(super) fn payload(&self) -> Option<(&Path, &Payload)> {
        let file = self.task.payload_file.as_deref()?;
        Some((Path::new(file), self.payload.as_ref()?))
    }

    /// Returns the user of the task.
    pub(super) fn user(&self) -> Option<TaskUser> {
        self.user
    }

    /// Returns the user of a task that reaches its directories by the paths of the host.
    pub(super) fn user_on_host(&self) -> Option<TaskUser> {
        self.user.filter(|_| !self.has_own_root())
    }

    /// Returns whether it is a task of `exec` that runs as root, which can give files of `alloc/` the rights of root.
    fn is_confined_root(&self) -> bool {
        may_be_refused_as_root(&self.task) && self.user.is_some_and(|user| user.uid == 0)
    }

    /// Returns the request of a run whose volumes are mounted like this.
    ///
    /// # Errors
    /// If a volume of the task is not mounted.
    pub(super) fn request(
        &self,
        group: &TaskGroup,
        mounted: &MountedVolumes<'_>,
        hidden: Vec<PathBuf>,
    ) -> Result<RunRequest, String> {
        let mut mounts = task_mounts(&self.task, group, mounted, &self.interpolation)?;
        if self.has_own_root() {
            mounts.extend(self.directory_mounts());
            mounts.extend(self.plugin_mounts.iter().cloned());
        }
        Ok(RunRequest {
            alloc: self.alloc.clone(),
            task: self.task.name.clone(),
            resources: self.task.resources.clone(),
            config: self.config.clone(),
            environment: self.environment.clone(),
            user: self.user,
            mounts,
            hidden: if self.has_own_root() { hidden } else { vec![] },
            kill_signal: self.kill_signal,
            kill_timeout: self.task.time_to_end(),
            logs: LogLimits::default(),
            earlier_runs: vec![],
        })
    }

    fn has_own_root(&self) -> bool {
        has_own_root(&self.task)
    }

    fn directory_mounts(&self) -> [TaskMount; 3] {
        let visible = visible_directories(&self.task, &self.directory);
        let pairs = [
            (self.directory.shared(), visible.shared),
            (self.directory.local(), visible.local),
            (self.directory.secrets(), visible.secrets),
        ];
        pairs.map(|(source, destination)| TaskMount {
            source,
            destination,
            read_only: false,
            propagation: PropagationMode::Private,
            identity: None,
        })
    }
}

fn payload_of(job: &Job) -> Option<Payload> {
    let dispatch = job.origin.as_ref()?.dispatch.as_ref()?;
    Some(dispatch.payload.clone()).filter(|payload| !payload.is_empty())
}

/// Returns the task with the `meta` values of its job that it does not have itself.
fn with_meta_of_job(task: &Task, job: &Job) -> Task {
    let mut task = task.clone();
    task.meta.fill_in(&job.meta);
    task
}

/// Returns why the tasks of a group cannot run together, if so. A program in `alloc/` that root marked set-user-ID would
/// run as root for a user of the host, outside of what confines the task of root.
pub(super) fn conflict(plans: &[TaskPlan]) -> Option<String> {
    let root = plans.iter().find(|plan| plan.is_confined_root())?;
    let other = plans.iter().find(|plan| plan.user_on_host().is_some_and(|user| user.uid != 0))?;
    let (root, other, user) = (&root.task.name, &other.task.name, &other.task.user);
    Some(format!(
        "task `{root}` runs as root, and task `{other}` as user `{user}` on the host: a program that `{root}` leaves in \
         `alloc/` could make `{user}` root of the machine; use driver `exec` for `{other}`, or put it into a group of \
         its own"
    ))
}

/// Checks the references of a task. In `env` and `meta`, Nomad keeps one without a value as it is, and so does the agent,
/// but for a plugin, to which they say which node it is on: with the text, all nodes would be one.
fn check_references(task: &Task, values: &Interpolation) -> Result<(), MissingReference> {
    let texts = task.environment.expose().chain(task.meta.expose());
    if task.csi_plugin.is_some() {
        for (_, text) in texts {
            values.check_filled(text)?;
        }
    }
    for value in task.config.expose().values() {
        values.check_json(value)?;
    }
    let mut mounts = task.volume_mounts.iter();
    mounts.try_for_each(|mount| values.check_filled(&mount.destination))
}

/// The user of a task of `exec` that names none, as in Nomad.
const DEFAULT_USER: &str = "nobody";

/// Returns the name or number of a task's user; `None` for the agent's. A plugin mounts for others, which only root can.
pub(super) fn user_name(task: &Task, may_switch_users: bool) -> Option<&str> {
    match task.user.as_str() {
        "" => {
            let has_default = has_own_root(task) && task.csi_plugin.is_none() && may_switch_users;
            has_default.then_some(DEFAULT_USER)
        }
        name => Some(name),
    }
}

/// Returns whether the task sees a file system of its own, in which the agent mounts the task's directories.
pub(super) fn has_own_root(task: &Task) -> bool {
    task.driver == "exec"
}

fn visible_directories(task: &Task, directory: &TaskDirectory) -> VisibleDirectories {
    if has_own_root(task) {
        VisibleDirectories {
            shared: SHARED_DIRECTORY.into(),
            local: "/local".into(),
            secrets: "/secrets".into(),
            csi_endpoint: None,
        }
    } else {
        VisibleDirectories {
            shared: directory.shared(),
            local: directory.local(),
            secrets: directory.secrets(),
            csi_endpoint: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_model::{
        CsiPluginConfig, CsiPluginType, JobType, RestartPolicy, TaskConfig, TaskEnvironment,
        VolumeMount,
    };

    /// A plugin gets its node ID from these texts, and a path must not become shorter.
    #[test]
    fn a_reference_without_a_value_stays_only_where_it_harms_nothing() {
        let node = Arc::new(Node::new("n1".into(), "alpha", "dc1"));
        let values = Interpolation::new([]).on_node(node);
        let task = || Task::new("t", "exec", RestartPolicy::of_type(JobType::Batch));
        let (missing, empty) = ("x-${meta.rack}", "x-${node.class}");
        for text in [missing, empty] {
            let environment = TaskEnvironment::from_iter([("A", text)]);
            let plugin = CsiPluginConfig::new("p".into(), CsiPluginType::Node);
            let config =
                TaskConfig::new([("args".to_owned(), json!([text]))].into_iter().collect());
            let mount = VolumeMount {
                volume: "data".into(),
                destination: format!("/{text}"),
                read_only: false,
                propagation_mode: PropagationMode::Private,
                selinux_label: None,
            };
            for (place, task, is_refused) in [
                ("env", Task { environment: environment.clone(), ..task() }, false),
                ("meta", Task { meta: environment.clone(), ..task() }, false),
                ("env of a plugin", Task { environment, csi_plugin: Some(plugin), ..task() }, true),
                ("config", Task { config, ..task() }, text == missing),
                ("destination", Task { volume_mounts: vec![mount], ..task() }, true),
            ] {
                let found = check_references(&task, &values);
                assert_eq!(found.is_err(), is_refused, "{text} in {place}");
            }
        }
    }

    #[test]
    fn a_task_of_exec_is_nobody_unless_it_says_otherwise() {
        for (driver, user, is_plugin, may_switch, expected) in [
            ("exec", "", false, true, Some("nobody")),
            ("exec", "", false, false, None),
            ("exec", "", true, true, None),
            ("exec", "root", false, true, Some("root")),
            ("exec", "web", true, true, Some("web")),
            ("raw_exec", "", false, true, None),
            ("raw_exec", "web", false, true, Some("web")),
        ] {
            let mut task = Task::new("t", driver, RestartPolicy::of_type(JobType::Batch));
            user.clone_into(&mut task.user);
            let plugin = CsiPluginConfig::new("p".into(), CsiPluginType::Monolith);
            task.csi_plugin = is_plugin.then_some(plugin);
            assert_eq!(user_name(&task, may_switch), expected, "{driver} {user:?}");
        }
    }
}
