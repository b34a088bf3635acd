//! The system job that runs the embedded plugin of an agent that serves others.
//!
//! The agent submits the job when it starts, unless the job is recorded like that and runs. The task is run and watched
//! as that of any plugin. But it is a part of this program and holds no mount, so it ends with the agent: an upgrade of
//! the program replaces both. After a crash of the agent, the next one ends the task before anything else, also the
//! agent of a command (`--embedded`), which starts the plugin without a job.
//!
//! An agent that may not create the namespaces of tasks starts the plugin like `--embedded`, and stops the job.

use std::ffi::OsString;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::config::AgentConfig;
use super::directory::AgentDirs;
use super::plugin::{HOSTPATH, hostpath_arguments, hostpath_command};
use nomad_csi_claims::state::{EvaluationStatus, Placement, State, Table, Topic};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{
    AllocId, CsiPluginConfig, CsiPluginType, Job, JobId, JobKey, JobType, Namespace, NodeId,
    PluginId, RestartMode, RestartPolicy, Task, TaskConfig, TaskGroup,
};
use nomad_csi_node::driver::{ShimDriver, end_earlier_process, may_create_namespaces};
use nomad_csi_node::{PluginHost, PluginTask, interrupt_alloc};
use nomad_csi_ports::PluginObserver;
use nomad_csi_server::{ServerError, Services, StateCell};

/// The ID of the job, in the namespace `default`.
const JOB: &str = "nomad-csi-hostpath";
/// The name of its group and of its task.
const TASK: &str = "plugin";
/// The driver of its task.
const DRIVER: &str = "raw_exec";
/// How long the scheduler may take, which calls nothing.
const DECISION_LIMIT: Duration = Duration::from_secs(5);
/// How long the end of the task may take after SIGKILL. It may wait for a disk.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Returns the job, or `None` if the plugin's command line is not Unicode, which that of a job is.
fn hostpath_job(config: &AgentConfig, dirs: &AgentDirs) -> Option<Job> {
    let arguments = hostpath_arguments(config, dirs, OsString::from("${CSI_ENDPOINT}"));
    let arguments = arguments.into_iter().map(|one| one.into_string().ok());
    let arguments: Vec<String> = arguments.collect::<Option<_>>()?;
    let mut settings = serde_json::Map::new();
    settings.insert("command".into(), json!(config.plugin_program.to_str()?));
    settings.insert("args".into(), json!(arguments));
    let mut plugin = CsiPluginConfig::new(PluginId::new(HOSTPATH), CsiPluginType::Monolith);
    plugin.health_timeout = PluginTask::HEALTH_TIMEOUT;
    let task = Task {
        config: TaskConfig::new(settings),
        kill_timeout: PluginTask::KILL_TIMEOUT,
        csi_plugin: Some(plugin),
        ..Task::new(TASK, DRIVER, restart_policy())
    };
    let group = TaskGroup {
        restart: restart_policy(),
        tasks: vec![task],
        ..TaskGroup::new(TASK, JobType::System)
    };
    let JobKey { namespace, id } = job_key();
    Some(Job { job_type: JobType::System, groups: vec![group], ..Job::new(namespace, id) })
}

/// Ends what earlier agents left of the embedded plugin, and returns its job; `None` if the plugin gets a supervisor.
///
/// # Errors
/// If a process of the plugin does not end.
pub(super) async fn prepare(
    config: &AgentConfig,
    dirs: &AgentDirs,
    cell: &StateCell,
    node: &NodeId,
) -> Result<Option<Job>, Diagnostics> {
    let runs_jobs = config.http.is_some() && may_create_namespaces();
    if let Err(reason) = end_task(dirs, cell, node).await {
        if !runs_jobs {
            return Err(still_runs(reason));
        }
        tracing::warn!(
            plugin.id = HOSTPATH,
            reason,
            "the plugin starts when its earlier process is gone"
        );
    }
    if !runs_jobs {
        return Ok(None);
    }
    let command = hostpath_command(config, dirs);
    match end_earlier_process(&command).await {
        Ok(()) => Ok(hostpath_job(config, dirs)),
        Err(error) => {
            tracing::warn!(plugin.id = HOSTPATH, %error, "the plugin of an earlier command has not ended");
            Ok(None)
        }
    }
}

fn still_runs(reason: String) -> Diagnostics {
    let message = format!("plugin `{HOSTPATH}` still runs as a task of an earlier agent");
    let problem = Diagnostic::error(Code::AgentPluginNotHealthy, message).note(reason);
    let help = "repeat the command when the process is gone";
    problem.help(help).into()
}

/// The plugin is restarted at once, because volumes wait for it, and one that never starts does not use up the machine.
fn restart_policy() -> RestartPolicy {
    RestartPolicy {
        attempts: 60,
        interval: Duration::from_secs(60),
        delay: Duration::from_millis(250),
        mode: RestartMode::Delay,
    }
}

/// The key of the job.
pub(super) fn job_key() -> JobKey {
    JobKey::new(Namespace::default(), JobId::new(JOB))
}

/// Ends the task of the job. No runner of allocations may run.
///
/// # Errors
/// Why it is not known that nothing runs.
async fn end_task(dirs: &AgentDirs, cell: &StateCell, node: &NodeId) -> Result<(), String> {
    let driver = ShimDriver::raw_exec();
    let allocs: Vec<AllocId> = cell.read(|state| {
        let live = live_allocs(state, node);
        live.map(|(id, _)| id.clone()).collect()
    });
    for alloc in allocs {
        let limit = PluginTask::KILL_TIMEOUT + KILL_LIMIT;
        let interrupted = timeout(limit, interrupt_alloc(dirs.data(), &alloc, &driver));
        interrupted.await.unwrap_or_else(|_| {
            let seconds = KILL_LIMIT.as_secs();
            Err(format!(
                "the task of allocation `{alloc}` did not end within {seconds} s of SIGKILL; it may wait for a disk"
            ))
        })?;
    }
    Ok(())
}

/// Returns the allocations of the job on the node that have not ended.
pub(super) fn live_allocs<'a>(
    state: &'a State,
    node: &NodeId,
) -> impl Iterator<Item = (&'a AllocId, &'a Placement)> {
    let of_job = state.allocs_of_job(&job_key());
    let live = of_job.filter(move |(_, alloc, _)| alloc.node == *node && !alloc.has_ended);
    live.map(|(id, _, placement)| (id, placement))
}

/// The ports of a submission.
pub(super) struct SubmissionPorts<'a> {
    /// The server.
    pub(super) services: &'a Services,
    /// Forgets earlier tasks of the plugin.
    pub(super) observer: &'a dyn PluginObserver,
    /// This node.
    pub(super) node: NodeId,
}

/// Submits the job of an agent that serves others, or stops the job if there is none. Then the plugin is known by the
/// tasks of the job only. The plugin does not run.
///
/// # Errors
/// If it cannot be recorded.
pub(super) async fn submit(
    config: &AgentConfig,
    job: Option<Job>,
    dirs: &AgentDirs,
    ports: SubmissionPorts<'_>,
) -> Result<Option<RunningJob>, Diagnostics> {
    let failed = |reason: String| {
        let message = format!("cannot submit the job of plugin `{HOSTPATH}`: {reason}");
        Diagnostics::from(Diagnostic::error(Code::AgentPluginNotHealthy, message))
    };
    let SubmissionPorts { services, observer, node } = ports;
    if config.http.is_none() {
        return Ok(None);
    }
    let has_job = job.is_some();
    let submitted = submit_job(job, services).await;
    submitted.map_err(|error| failed(error.message()))?;
    if !has_job {
        return Ok(None);
    }
    let (cell, plugin) = (services.cell.clone(), PluginId::new(HOSTPATH));
    for alloc in cell.read(|state| other_tasks(state, &plugin, &node)) {
        let forgotten = observer.gone(&plugin, &alloc).await;
        forgotten.map_err(|refused| failed(refused.to_string()))?;
    }
    let dirs = dirs.clone();
    Ok(Some(RunningJob { dirs, cell, node }))
}

/// The job of a running agent.
pub(super) struct RunningJob {
    dirs: AgentDirs,
    /// The state.
    pub(super) cell: StateCell,
    /// This node.
    pub(super) node: NodeId,
}

impl RunningJob {
    /// Ends the task and its calls. The next agent starts it again. No runner of allocations may run.
    pub(super) async fn end(&self, plugins: &PluginHost) {
        match end_task(&self.dirs, &self.cell, &self.node).await {
            Ok(()) => plugins.end_processes(&PluginId::new(HOSTPATH)).await,
            Err(reason) => {
                tracing::warn!(
                    plugin.id = HOSTPATH,
                    reason,
                    "the plugin did not stop; the next agent ends it"
                );
            }
        }
    }
}

async fn submit_job(job: Option<Job>, services: &Services) -> Result<(), ServerError> {
    let Some(job) = job else {
        return services.jobs.stop(&job_key(), false).await.map(drop);
    };
    if services.jobs.plan(&job)?.is_changed {
        let written = services.jobs.register(job, None).await?;
        // Otherwise the allocation of an earlier version would start once more.
        let is_decided = |state: &State| {
            let evaluation = written.evaluation.as_ref();
            let found = evaluation.and_then(|id| state.evaluation(id));
            found.is_none_or(|(_, found)| found.result.status != EvaluationStatus::Pending)
        };
        let topics = |_: &State| vec![Topic::all(Table::Jobs)];
        let decided = services.cell.wait_until(topics, is_decided);
        if timeout(DECISION_LIMIT, decided).await.is_err() {
            tracing::warn!(
                job.id = JOB,
                "the scheduler has not decided about the job of the plugin"
            );
        }
    }
    Ok(())
}

/// Returns the tasks of the plugin on the node that are not of the job: those of commands, and of agents before the job.
fn other_tasks(state: &State, plugin: &PluginId, node: &NodeId) -> Vec<AllocId> {
    let record = state.plugin_record(plugin);
    let known = record.into_iter().flat_map(|record| &record.allocs);
    let here = known.filter(|(_, task)| task.node == *node);
    // The node reports when the tasks of an allocation have ended, whatever job it is of.
    let others = here.filter(|(id, _)| state.alloc(id).is_none());
    others.map(|(id, _)| id.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::config::AgentOptions;
    use crate::agent::directory::DataDir;
    use nomad_csi_spec::job::validate;

    fn job(options: &AgentOptions, data: &std::path::Path) -> Job {
        let options =
            AgentOptions { dev: true, data_dir: Some(data.to_owned()), ..options.clone() };
        let config = AgentConfig::parse(&options).unwrap();
        let dirs = AgentDirs::create_dirs(DataDir::prepare(&config.data).unwrap(), None);
        hostpath_job(&config, &dirs.unwrap()).unwrap()
    }

    #[test]
    fn the_job_is_valid_and_depends_on_the_arguments_only() {
        let data = tempfile::tempdir().unwrap();
        let mut options = AgentOptions::default();
        let first = job(&options, data.path());
        assert_eq!(validate(&first), []);
        assert_eq!(job(&options, data.path()), first);
        options.plugin.attach = true;
        assert_ne!(job(&options, data.path()), first);
    }
}
