//! The node's half of an agent: what calls plugins, and what runs tasks. The server may be in another process.

use std::path::PathBuf;
use std::sync::Arc;

use super::blocking;
use super::config::AgentConfig;
use super::directory::AgentDirs;
use super::operator_token::token_directories;
use super::own_directories::check_host_volumes;
use super::step_hosts::StepHosts;
use super::tasks::TaskDrivers;
use crate::telemetry::AgentMetrics;
use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{HostSession, Node};
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{
    AllocRunnerDeps, AllocRunners, NodeAllocAccess, NodeTaskLogs, PluginHost, PluginHostDeps,
    Registry, SupervisorDeps, TaskDriver, TaskRestarts, VolumeCallLocks,
};
use nomad_csi_ports::{
    AllocAccess, Clock, ControlPlane, IdSource, MountObserver, PluginObserver, SentSecretsReader,
    TaskLogs,
};

/// What the node's half needs of the server's.
pub(super) struct ServerSide {
    /// Records the plugins.
    pub(super) plugins: Arc<dyn PluginObserver>,
    /// Receives what happens to mounts.
    pub(super) mounts: Arc<dyn MountObserver>,
    /// The secrets that plugins were sent before.
    pub(super) sent: Arc<dyn SentSecretsReader>,
}

/// What both halves have.
#[derive(Clone)]
pub(super) struct NodeTools {
    pub(super) clock: Arc<dyn Clock>,
    pub(super) ids: Arc<dyn IdSource>,
    pub(super) metrics: Arc<AgentMetrics>,
}

/// The node's half.
pub(super) struct NodeParts {
    pub(super) hosts: StepHosts,
    pub(super) plugins: Arc<PluginHost>,
    /// Reads the output of tasks.
    pub(super) logs: Arc<dyn TaskLogs>,
    /// The tasks and the files of allocations.
    pub(super) allocs: Arc<dyn AllocAccess>,
    restarts: TaskRestarts,
    registry: Arc<Registry>,
    node: Arc<Node>,
    drivers: TaskDrivers,
    server: ServerSide,
    tools: NodeTools,
}

impl NodeParts {
    /// Makes the node's half of a process of this session. Nothing runs yet.
    pub(super) fn new(
        dirs: &AgentDirs,
        (node, session): (Arc<Node>, HostSession),
        drivers: TaskDrivers,
        server: ServerSide,
        tools: NodeTools,
    ) -> Self {
        let registry = Arc::new(Registry::new(VolumeCallLocks::new(session)));
        let hosts = StepHosts::new(&registry, dirs.mounts(), server.mounts.clone());
        let plugins = Arc::new(PluginHost::new(PluginHostDeps {
            connector: Arc::new(GrpcConnector::measured(tools.metrics.clone())),
            sent: server.sent.clone(),
            registry: registry.clone(),
            observer: server.plugins.clone(),
            mounter: Arc::new(LinuxMounter),
            clock: tools.clock.clone(),
            ids: tools.ids.clone(),
            node: node.id.clone(),
            sockets: dirs.plugin_sockets(),
            volumes: dirs.mounts(),
        }));
        let logs = Arc::new(NodeTaskLogs::new(dirs.data().to_owned(), drivers.clone()));
        let restarts = TaskRestarts::default();
        let data = dirs.data().to_owned();
        let allocs = Arc::new(NodeAllocAccess::new(data, drivers.clone(), restarts.clone()));
        Self { hosts, plugins, logs, allocs, restarts, registry, node, drivers, server, tools }
    }

    /// Returns the call locks of the node.
    pub(super) fn call_locks(&self) -> &VolumeCallLocks {
        self.registry.call_locks()
    }

    /// Returns the plugins that run on the node.
    pub(super) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns what connects to a plugin.
    pub(super) fn plugin_connections(&self) -> (GrpcConnector, Arc<dyn SentSecretsReader>) {
        (GrpcConnector::measured(self.tools.metrics.clone()), self.server.sent.clone())
    }

    /// Returns what the supervisor of a plugin needs that this driver starts.
    pub(super) fn supervisor_deps(&self, driver: Arc<dyn TaskDriver>) -> SupervisorDeps {
        SupervisorDeps {
            driver,
            connector: Arc::new(GrpcConnector::measured(self.tools.metrics.clone())),
            sent: self.server.sent.clone(),
            registry: self.registry.clone(),
            observer: self.server.plugins.clone(),
            clock: self.tools.clock.clone(),
            ids: self.tools.ids.clone(),
        }
    }

    /// Returns what runs the allocations of the node.
    pub(super) fn runners(
        &self,
        config: &AgentConfig,
        dirs: &AgentDirs,
        control: Arc<dyn ControlPlane>,
        hidden_directories: Vec<PathBuf>,
    ) -> AllocRunners {
        AllocRunners::new(AllocRunnerDeps {
            control,
            drivers: self.drivers.clone(),
            host_volumes: config.host_volumes.clone(),
            allows_root_tasks: config.allows_root_tasks,
            clock: self.tools.clock.clone(),
            ids: self.tools.ids.clone(),
            node: self.node.clone(),
            mounter: Arc::new(LinuxMounter),
            restarts: self.restarts.clone(),
            plugins: self.plugins.clone(),
            data_directory: dirs.data().to_owned(),
            hidden_directories,
        })
    }
}

/// Returns the directories that no task sees besides the data directory, after a check that no host volume shows one.
///
/// # Errors
/// If a host volume does.
pub(super) async fn checked_hidden_directories(
    config: &AgentConfig,
    dirs: &AgentDirs,
) -> Result<Vec<PathBuf>, Diagnostics> {
    let hidden = hidden_directories(config, dirs).await?;
    let own = std::iter::once(dirs.data().to_owned()).chain(hidden.clone());
    check_host_volumes(&config.host_volumes, &own.collect::<Vec<_>>())?;
    Ok(hidden)
}

/// Returns the directories besides the data directory that no task sees: those of operators' tokens, and that of the sockets
/// if it is somewhere else.
async fn hidden_directories(
    config: &AgentConfig,
    dirs: &AgentDirs,
) -> Result<Vec<PathBuf>, Diagnostics> {
    let runtime = config.runtime_dir.clone();
    let mut hidden = blocking::run_blocking(move || token_directories(runtime.as_deref())).await?;
    let sockets = dirs.plugin_sockets();
    if !sockets.starts_with(dirs.data()) {
        let path = sockets.clone();
        let real = blocking::run_blocking(move || path.canonicalize()).await?;
        hidden.push(real.unwrap_or(sockets));
    }
    Ok(hidden)
}
