//! Starts the parts of an agent in order, and stops them in reverse order.
//!
//! ```text
//! start   directory, lock, sockets, journal and state, key, node, plugin, operator's token, allocations, HTTP, "ready"
//! stop    operator's token, HTTP (running requests are completed), allocations, calls of plugins, plugin, state and
//!         journal, sockets, lock
//! ```
//!
//! Volumes, mounts and tasks stay when the agent stops; the next agent takes the tasks over. With a temporary
//! directory the tasks end first. If the process is killed, the operating system
//! releases the lock, the plugin exits, and the journal has every acknowledged change. The next start
//! replaces the sockets and continues operations.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sd_notify::NotifyState;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::assemble::{AgentParts, Components, assemble_agent};
use super::blocking;
use super::config::AgentConfig;
use super::core_dumps::restrict_core_dumps;
use super::data_dir_lock::{LockResult, acquire_lock, lock_problem};
use super::data_role::{DataRole, check_role};
use super::directory::{AgentDirs, DataDir};
use super::listen::{DRAIN_LIMIT, Listeners};
use super::operator_token::OperatorTokenFiles;
use super::plugin::HOSTPATH;
use super::plugin_health::wait_for_job_health;
use super::plugin_job::{RunningJob, SubmissionPorts, submit};
use super::step_hosts::StepHosts;
use nomad_csi_model::PluginId;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_node::driver::{InheritedDescriptor, inherited_descriptors};
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{PluginHost, TaskStatus, wait_until_healthy};
use nomad_csi_ports::{Clock as _, Mounter as _, SystemClock};
use nomad_csi_server::Services;
use nomad_csi_server::http::{HttpSettings, router};
use nomad_csi_server::store::{DataLock, LockOwner};

/// Runs an agent until `stop`, then stops it in order. Dropping the future aborts everything, like a
/// crash; the next start continues operations.
///
/// # Errors
/// If it cannot start. Nothing keeps running then.
pub async fn run_agent(config: AgentConfig, stop: CancellationToken) -> Result<(), Diagnostics> {
    restrict_core_dumps(config.allows_core_dumps);
    blocking::run_blocking(warn_about_descriptors).await?;
    let mut agent = match open_agent(&config).await? {
        OpenResult::Started(agent) => agent,
        OpenResult::ServedBy(socket) => return Err(served_elsewhere(&socket)),
    };
    let waiting = agent.unhealthy_plugins(config.plugin_timeout);
    let unhealthy = stop.run_until_cancelled(waiting).await;
    for (plugin, reason) in unhealthy.unwrap_or_default() {
        tracing::warn!(
            plugin.id = %plugin,
            reason,
            "the agent serves requests, but the plugin is not healthy"
        );
    }
    agent.serve();
    agent.report_ready();
    stop.cancelled().await;
    tracing::info!("stopping: running requests are completed; a second signal aborts them");
    notify_stopping();
    agent.stop().await;
    Ok(())
}

/// Names the descriptors that the agent was started with and that its tasks would inherit.
pub(super) fn warn_about_descriptors() {
    match inherited_descriptors() {
        Ok(inherited) => {
            for InheritedDescriptor { number, target } in inherited {
                tracing::warn!(
                    descriptor = number,
                    target = %target.display(),
                    "the agent was started with an open file that its tasks inherit; start it without"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "cannot list open files"),
    }
}

/// The error of `nomad-csi agent`, which never uses another agent.
fn served_elsewhere(socket: &Path) -> Diagnostics {
    let message = format!(
        "cannot use the data directory: another agent uses it and listens on `{}`",
        socket.display()
    );
    Diagnostic::error(Code::DataInUse, message).into()
}

/// The result of opening an agent.
pub(super) enum OpenResult {
    /// A started agent, whose sockets are open and not served yet.
    Started(Box<Agent>),
    /// The agent that listens on this socket has the data directory.
    ServedBy(PathBuf),
}

/// Locks the data directory and starts everything except HTTP.
///
/// # Errors
/// If a part cannot start. Nothing keeps running then.
pub(super) async fn open_agent(config: &AgentConfig) -> Result<OpenResult, Diagnostics> {
    match lock_directory(config, DataRole::Machine).await? {
        DirectoryResult::ServedBy(socket) => Ok(OpenResult::ServedBy(socket)),
        DirectoryResult::Locked(dirs, lock) => {
            let agent = Agent::start(config, dirs, lock).await?;
            Ok(OpenResult::Started(Box::new(agent)))
        }
    }
}

/// The result of opening a data directory.
enum DirectoryResult {
    Locked(AgentDirs, DataLock),
    /// The agent that listens on this socket has the data directory.
    ServedBy(PathBuf),
}

/// Locks the data directory, for a process that never uses another one.
///
/// # Errors
/// If it cannot be used, or another process does.
pub(super) async fn open_directory(
    config: &AgentConfig,
    role: DataRole,
) -> Result<(AgentDirs, DataLock), Diagnostics> {
    match lock_directory(config, role).await? {
        DirectoryResult::Locked(dirs, lock) => Ok((dirs, lock)),
        DirectoryResult::ServedBy(socket) => Err(served_elsewhere(&socket)),
    }
}

async fn lock_directory(
    config: &AgentConfig,
    role: DataRole,
) -> Result<DirectoryResult, Diagnostics> {
    let setting = config.data.clone();
    let dirs = blocking::run_blocking(move || DataDir::prepare(&setting)).await??;
    let started_at = SystemClock.now();
    match acquire_lock(dirs.path(), started_at, config.on_lock_conflict).await? {
        LockResult::ServedBy(socket) => Ok(DirectoryResult::ServedBy(socket)),
        LockResult::Acquired(lock) => {
            let runtime = config.runtime_dir.clone();
            let is_shared = match role {
                DataRole::Machine | DataRole::Server => config.http.is_some(),
                // It listens nowhere.
                DataRole::Node => false,
            };
            let (dirs, lock) = blocking::run_blocking(move || {
                check_role(dirs.path(), role)?;
                let dirs = AgentDirs::create_dirs(dirs, runtime.as_deref())?;
                record_owner(lock, started_at, is_shared.then(|| dirs.agent_socket()))
                    .map(|lock| (dirs, lock))
            })
            .await??;
            Ok(DirectoryResult::Locked(dirs, lock))
        }
    }
}

/// Records the agent and its socket in the lock, for processes that find it locked.
fn record_owner(
    mut lock: DataLock,
    started_at: i64,
    socket: Option<PathBuf>,
) -> Result<DataLock, Diagnostics> {
    let owner = LockOwner { pid: std::process::id(), socket, started_at };
    match lock.record(&owner) {
        Ok(()) => Ok(lock),
        Err(error) => Err(lock_problem(&error, None)),
    }
}

/// A running agent. Dropping it aborts everything, like a crash.
pub(super) struct Agent {
    dirs: AgentDirs,
    lock: DataLock,
    services: Services,
    settings: HttpSettings,
    operator: OperatorTokenFiles,
    /// The status of each plugin that a supervisor watches.
    supervised: Vec<(PluginId, watch::Receiver<TaskStatus>)>,
    /// The job of the embedded plugin, if one runs it.
    plugin_job: Option<RunningJob>,
    address: Option<SocketAddr>,
    /// Present until HTTP is served.
    unserved: Option<Listeners>,
    http: JoinSet<()>,
    supervision: JoinSet<()>,
    allocs: JoinSet<()>,
    plugins: Arc<PluginHost>,
    hosts: StepHosts,
    /// Serves metrics until the agent is dropped.
    _metrics: JoinSet<()>,
    stop_http: CancellationToken,
    stop_plugin: CancellationToken,
    stop_allocs: CancellationToken,
}

impl Agent {
    async fn start(
        config: &AgentConfig,
        dirs: AgentDirs,
        lock: DataLock,
    ) -> Result<Self, Diagnostics> {
        let assembled = match assemble_agent(config, &dirs).await {
            Ok(assembled) => assembled,
            Err(problems) => {
                release_directory(dirs, lock).await;
                return Err(problems);
            }
        };
        let AgentParts { components, listeners } = assembled;
        let Components {
            services,
            supervisors,
            plugin_job,
            observer,
            node,
            runners,
            plugins,
            hosts,
            metrics,
        } = components;
        let ports = SubmissionPorts { services: &services, observer: &*observer, node };
        let plugin_job = match submit(config, plugin_job, &dirs, ports).await {
            Ok(running) => running,
            Err(problems) => {
                services.cell.stop().await;
                release_directory(dirs, lock).await;
                return Err(problems);
            }
        };
        let operator = match create_token(config, &dirs, &listeners).await {
            Ok(operator) => operator,
            Err(problems) => {
                services.cell.stop().await;
                release_directory(dirs, lock).await;
                return Err(problems);
            }
        };
        let stop_plugin = CancellationToken::new();
        let mut supervision = JoinSet::new();
        let mut supervised = vec![];
        for supervisor in supervisors {
            supervised.push((supervisor.plugin().clone(), supervisor.status()));
            supervision.spawn(supervisor.run(stop_plugin.clone()));
        }
        let stop_allocs = CancellationToken::new();
        let mut allocs = JoinSet::new();
        // The agent of one command has no drivers, and leaves the tasks of the directory's agent as they are.
        if config.http.is_some() {
            allocs.spawn(runners.run(stop_allocs.clone()));
        }
        Ok(Self {
            dirs,
            lock,
            services,
            settings: config.http_settings.clone(),
            operator,
            supervised,
            plugin_job,
            address: listeners.address(),
            unserved: Some(listeners),
            http: JoinSet::new(),
            supervision,
            allocs,
            plugins,
            hosts,
            _metrics: metrics,
            stop_http: CancellationToken::new(),
            stop_plugin,
            stop_allocs,
        })
    }

    /// The Unix socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.dirs.agent_socket()
    }

    /// Waits until all plugins of the agent are healthy. Returns those that are not in time, with the reasons.
    pub(super) async fn unhealthy_plugins(&self, timeout: Duration) -> Vec<(PluginId, String)> {
        let embedded = async {
            let healthy = wait_for_job_health(self.plugin_job.as_ref()?, timeout).await;
            let reason = healthy.err()?;
            Some((PluginId::new(HOSTPATH), reason))
        };
        let waits = self.supervised.iter().map(async |(plugin, status)| {
            let healthy = wait_until_healthy(status.clone(), timeout).await;
            healthy.err().map(|reason| (plugin.clone(), reason))
        });
        let (embedded, others) = tokio::join!(embedded, join_all(waits));
        embedded.into_iter().chain(others.into_iter().flatten()).collect()
    }

    /// Serves HTTP.
    pub(super) fn serve(&mut self) {
        if let Some(listeners) = self.unserved.take() {
            let (settings, operator) = (self.settings.clone(), self.operator.access());
            let router = router(self.services.clone(), settings, operator);
            let limits = self.settings.limits.clone();
            self.http.spawn(listeners.serve(router, limits, self.stop_http.clone()));
        }
    }

    /// Stops everything in order.
    pub(super) async fn stop(mut self) {
        let begun = Instant::now();
        let operator = self.operator;
        drop(blocking::run_blocking(move || operator.end()).await);
        self.stop_http.cancel();
        drop(self.unserved.take());
        if self.dirs.is_temporary() {
            self.services.jobs.end_allocs(DRAIN_LIMIT).await;
        }
        self.stop_allocs.cancel();
        while self.allocs.join_next().await.is_some() {}
        let served = async { while self.http.join_next().await.is_some() {} };
        tokio::join!(self.services.drain(DRAIN_LIMIT), served);
        let left = DRAIN_LIMIT.saturating_sub(begun.elapsed());
        self.hosts.drain(left).await;
        self.plugins.record_idle().await;
        if let Some(job) = &self.plugin_job {
            job.end(&self.plugins).await;
        }
        self.stop_plugin.cancel();
        while self.supervision.join_next().await.is_some() {}
        self.plugins.release_directories().await;
        self.services.cell.stop().await;
        drop(self.services);
        release_directory(self.dirs, self.lock).await;
    }

    /// Reports to the log and to systemd that the agent is ready.
    fn report_ready(&self) {
        let address = self.address.map(|address| format!("http://{address}"));
        if self.dirs.is_temporary() {
            tracing::info!(
                data = %self.dirs.data().display(),
                "volumes and state are deleted when the agent stops; keep them with `--data-dir DIR`"
            );
        }
        if !rustix::process::geteuid().is_root() {
            tracing::info!(
                "the agent does not run as root: its plugin cannot mount volumes, and a task cannot have another user"
            );
        }
        tracing::info!(
            address,
            socket = %self.dirs.agent_socket().display(),
            data = %self.dirs.data().display(),
            "the agent is ready"
        );
        notify_ready();
    }
}

/// Makes the token of the operator.
pub(super) async fn create_token(
    config: &AgentConfig,
    dirs: &AgentDirs,
    listeners: &Listeners,
) -> Result<OperatorTokenFiles, Diagnostics> {
    let (dirs, runtime) = (dirs.clone(), config.runtime_dir.clone());
    let addresses = listeners.reached_addresses();
    let create = move || OperatorTokenFiles::create(&dirs, runtime.as_deref(), &addresses);
    blocking::run_blocking(create).await?
}

/// Releases the directory. Sockets go first, because those of the next agent have the same names.
pub(super) async fn release_directory(dirs: AgentDirs, lock: DataLock) {
    let mounts = LinuxMounter.list().await;
    let released = blocking::run_blocking(move || {
        dirs.remove_sockets();
        drop(lock);
        match mounts {
            Ok(mounts) => dirs.remove_if_temporary(&mounts),
            Err(error) => {
                tracing::warn!(%error, "cannot list mounts; the temporary directory is not removed");
            }
        }
    });
    if released.await.is_err() {
        tracing::warn!("the agent's directories were not cleaned up");
    }
}

/// Tells the service manager that the process is ready.
pub(super) fn notify_ready() {
    notify(NotifyState::Ready);
}

/// Tells the service manager that the process stops.
pub(super) fn notify_stopping() {
    notify(NotifyState::Stopping);
}

/// Notifies the service manager, if there is one.
fn notify(state: NotifyState) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::LockConflict;

    /// Who finds the directory locked is advised to use the socket in the lock.
    #[tokio::test]
    async fn the_lock_names_the_socket_of_those_that_listen() {
        for (role, listens) in
            [(DataRole::Machine, true), (DataRole::Server, true), (DataRole::Node, false)]
        {
            let directory = tempfile::tempdir().unwrap();
            let config = AgentConfig::embedded(directory.path().join("data"), None).unwrap();
            let config = AgentConfig {
                http: Some(AgentConfig::DEFAULT_HTTP),
                on_lock_conflict: LockConflict::Fail,
                ..config
            };
            let (dirs, lock) = open_directory(&config, role).await.unwrap();
            let refused = open_directory(&config, role).await.err().unwrap();
            let help: Vec<_> = refused.into_iter().flat_map(|problem| problem.help).collect();
            let names_socket = help.iter().any(|help| help.contains("agent.sock"));
            assert_eq!(names_socket, listens, "{role:?}: {help:?}");
            release_directory(dirs, lock).await;
        }
    }
}
