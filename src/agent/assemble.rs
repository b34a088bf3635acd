//! Builds the adapters and connects them to the ports. Only this module knows the concrete types.
//!
//! The result is not running: sockets are open but not served, and the plugin is not started. `run`
//! starts and stops the parts in order. If a step fails, everything opened before is closed.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::task::JoinSet;

use super::config::AgentConfig;
use super::data_role::DataRole;
use super::directory::AgentDirs;
use super::listen::Listeners;
use super::metrics::serve_metrics_at;
use super::node_parts::{NodeParts, NodeTools, ServerSide, checked_hidden_directories};
use super::node_registration::{NodeOffer, register_node, this_node};
use super::open_state::{open_cell, open_sealer, sent_secrets};
use super::plugin::{hostpath_command, hostpath_task};
use super::plugin_job;
use super::running_plugin::running_plugin;
use super::step_hosts::StepHosts;
use super::tasks::{TaskDrivers, prepare_limits, task_drivers};
use super::unused_endpoint::report_unused_endpoints;
use crate::telemetry::AgentMetrics;
use nomad_csi_model::diagnostic::Diagnostics;
use nomad_csi_model::{AllocId, HostSession, Job, Node, NodeId, PluginId};
use nomad_csi_node::driver::RawExec;
use nomad_csi_node::{AllocRunners, PluginHost, PluginTask, Supervisor, SupervisorDeps};
use nomad_csi_ports::{Clock, IdSource, PluginObserver, RandomIds, SoleServer, SystemClock};
use nomad_csi_server::{
    AgentInfo, NodeEvents, PluginCallQueues, RecordingObserver, Sealer, ServerPorts, Services,
    StateCell, VolumeLimits,
};

/// An agent that is ready to start.
pub(super) struct AgentParts {
    pub(super) components: Components,
    pub(super) listeners: Listeners,
}

/// Builds the parts of an agent. The caller holds the lock of the data directory.
///
/// # Errors
/// If a part cannot be opened. Nothing is left open then.
pub(super) async fn assemble_agent(
    config: &AgentConfig,
    dirs: &AgentDirs,
) -> Result<AgentParts, Diagnostics> {
    let listeners = Listeners::open(config.http, &dirs.agent_socket()).await?;
    let metrics = Arc::new(AgentMetrics::default());
    let cell = open_cell(config, (dirs, DataRole::Machine), &metrics).await?;
    match wire(config, dirs, &cell, listeners.address(), metrics).await {
        Ok(components) => Ok(AgentParts { components, listeners }),
        Err(problems) => {
            cell.stop().await;
            Err(problems)
        }
    }
}

/// The parts of an agent over its state.
pub(super) struct Components {
    pub(super) services: Services,
    /// Those of the plugins that no job runs.
    pub(super) supervisors: Vec<Supervisor>,
    /// The job of the embedded plugin, unless it has a supervisor.
    pub(super) plugin_job: Option<Job>,
    pub(super) observer: Arc<dyn PluginObserver>,
    pub(super) node: NodeId,
    pub(super) runners: AllocRunners,
    pub(super) plugins: Arc<PluginHost>,
    pub(super) hosts: StepHosts,
    pub(super) metrics: JoinSet<()>,
}

async fn wire(
    config: &AgentConfig,
    dirs: &AgentDirs,
    cell: &StateCell,
    address: Option<SocketAddr>,
    metrics: Arc<AgentMetrics>,
) -> Result<Components, Diagnostics> {
    let hidden_directories = checked_hidden_directories(config, dirs).await?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let sealer: Arc<dyn Sealer> = Arc::new(open_sealer(dirs, cell).await?);
    let id = this_node(dirs.node_id_file(), cell, &*ids).await?;
    // The agent of one command ends with it, and a task would not.
    let drivers = match config.http {
        Some(_) => task_drivers(prepare_limits().await?),
        None => TaskDrivers::new(),
    };
    let offered = NodeOffer { drivers: &drivers, host_volumes: &config.host_volumes };
    let session = HostSession::new(ids.uuid());
    let started = (id, session.clone());
    let (node, term) = register_node(cell, started, &offered, &*clock, &*ids).await?;
    // A plugin of an earlier agent ends, whether it starts again.
    let plugin_job = plugin_job::prepare(config, dirs, cell, &node.id).await?;
    let plugin_job = plugin_job.filter(|_| config.runs_embedded_plugin);
    let events = Arc::new(NodeEvents::new(clock.clone()));
    let observer = Arc::new(RecordingObserver::new(cell.clone(), clock.clone()));
    let server = ServerSide {
        plugins: observer.clone(),
        mounts: events.of_node(node.id.clone()),
        sent: sent_secrets(cell, &sealer),
    };
    let own = Arc::new(node.clone());
    let tools = NodeTools { clock: clock.clone(), ids: ids.clone(), metrics: metrics.clone() };
    let parts = NodeParts::new(dirs, (own.clone(), session), drivers, server, tools);
    let hostpath = RawExec { command: hostpath_command(config, dirs) };
    let deps = parts.supervisor_deps(Arc::new(hostpath));
    let embedded = match plugin_job {
        Some(_) => None,
        None if !config.runs_embedded_plugin => None,
        None => Some(hostpath_task(dirs, cell, node.id.clone(), &*ids)),
    };
    let supervisors = supervisors(config, embedded, (dirs, cell, &node.id), deps).await?;
    let serving = serve_metrics_at(config.metrics, metrics.clone()).await?;
    let directory = parts
        .hosts
        .directory(node.id.clone(), (Some(parts.logs.clone()), Some(parts.allocs.clone())));
    let calls = PluginCallQueues::new(
        config.calls,
        VolumeLimits::MAX_WAITING,
        metrics.clone(),
        cell.clone(),
        directory.clone(),
    );
    let (hosts, lease) = (directory, Arc::new(SoleServer));
    let ports = ServerPorts { cell: cell.clone(), sealer, clock, ids, term, lease, hosts, calls };
    let services = Services::new(ports, volume_limits(config), agent_info(node, address))
        .with_metrics(metrics)
        .with_node_events(events)
        .with_root_tasks(config.allows_root_tasks);
    let control = Arc::new(services.control_plane(own.id.clone()));
    let runners = parts.runners(config, dirs, control, hidden_directories);
    let NodeParts { hosts, plugins, .. } = parts;
    Ok(Components {
        services,
        supervisors,
        plugin_job,
        observer,
        node: own.id.clone(),
        runners,
        plugins,
        hosts,
        metrics: serving,
    })
}

/// Returns the limits of operations on volumes.
pub(super) fn volume_limits(config: &AgentConfig) -> VolumeLimits {
    VolumeLimits {
        // A command has read what exists, and creates the rest itself.
        continues_creations: !config.is_of_command(),
        ..VolumeLimits::default()
    }
}

/// Returns the supervisors of the embedded plugin, which `deps` starts, and of the plugins that run already.
async fn supervisors(
    config: &AgentConfig,
    embedded: Option<PluginTask>,
    (dirs, cell, node): (&AgentDirs, &StateCell, &NodeId),
    deps: SupervisorDeps,
) -> Result<Vec<Supervisor>, Diagnostics> {
    let mut supervisors = vec![];
    let mut used = vec![];
    if let Some(task) = embedded {
        used.push(task.task.clone());
        supervisors.push(Supervisor::new(task, deps.clone()));
    }
    for endpoint in &config.plugin_endpoints {
        let recorded = |plugin: &PluginId, task: &AllocId| {
            cell.read(|state| {
                let alloc = state.plugin_record(plugin)?.allocs.get(task)?;
                Some(alloc.instance.clone())
            })
        };
        let connections = (&*deps.connector, &*deps.sent);
        let found = running_plugin(endpoint, config, connections, (dirs, node.clone()), recorded);
        let (task, running) = found.await?;
        used.push(task.task.clone());
        let deps = SupervisorDeps { driver: Arc::new(running), ..deps.clone() };
        supervisors.push(Supervisor::new(task, deps));
    }
    let known = (dirs, cell, node);
    report_unused_endpoints(known, &used, &*deps.observer, &*deps.clock).await?;
    Ok(supervisors)
}

fn agent_info(node: Node, address: Option<SocketAddr>) -> AgentInfo {
    AgentInfo {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        name: node.name,
        region: AgentInfo::REGION.to_owned(),
        datacenter: node.datacenter,
        address: address.map(|address| address.to_string()).unwrap_or_default(),
        node_id: node.id.as_str().to_owned(),
    }
}
