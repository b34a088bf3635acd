//! `agent node`: runs tasks and calls plugins for the servers of its cluster.
//!
//! ```text
//! start   directory, lock, certificate, identity, plugins, allocations, connections to the servers, "ready"
//! stop    allocations (tasks go on), calls of plugins, plugins, connections, lock
//! ```
//!
//! It listens nowhere: it dials the servers, and they call it over connections that it opened. It stops or removes
//! nothing because a server is silent.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::blocking::run_blocking;
use super::cluster_tls::load_tls;
use super::config::AgentConfig;
use super::core_dumps::restrict_core_dumps;
use super::data_role::{DataRole, check_node_directory};
use super::directory::AgentDirs;
use super::endpoint_instances::EndpointInstances;
use super::listen::DRAIN_LIMIT;
use super::metrics::serve_metrics_at;
use super::node_parts::{NodeParts, NodeTools, ServerSide, checked_hidden_directories};
use super::node_registration::{NodeOffer, node_boot_id, node_id_problem, offered_node};
use super::node_secret::open_node_secret;
use super::role_file::NodeConfig;
use super::run::{
    notify_ready, notify_stopping, open_directory, release_directory, warn_about_descriptors,
};
use super::running_plugin::running_plugin;
use super::tasks::{prepare_limits, task_drivers};
use super::unused_endpoint::report_unused_of_node;
use crate::telemetry::AgentMetrics;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{AllocId, HostSession, Node, NodeId, PluginId, PluginInstance};
use nomad_csi_node::{Supervisor, SupervisorDeps};
use nomad_csi_ports::{
    Clock, ConnectedNode, IdSource, NoSentSecrets, PluginObserver, RandomIds, SystemClock,
};
use nomad_csi_rpc::{
    ClusterFile, ClusterTls, Dialer, HostDescription, NodeHostService, NodeProfile,
    RemoteControlPlane, Role,
};
use nomad_csi_server::store::open_node_id;

/// Runs a node until `stop`, then stops it in order. Its tasks go on.
///
/// # Errors
/// If it cannot start. Nothing keeps running then.
pub async fn run_node(config: NodeConfig, stop: CancellationToken) -> Result<(), Diagnostics> {
    restrict_core_dumps(config.agent.allows_core_dumps);
    run_blocking(warn_about_descriptors).await?;
    let tls = load_tls(&config.tls, Role::Node, &config.region).await?;
    let (dirs, lock) = open_directory(&config.agent, DataRole::Node).await?;
    let running = match RunningNode::start(&config, &dirs, tls).await {
        Ok(running) => running,
        Err(problems) => {
            release_directory(dirs, lock).await;
            return Err(problems);
        }
    };
    notify_ready();
    stop.cancelled().await;
    tracing::info!("stopping: tasks go on, and calls of plugins are completed");
    notify_stopping();
    running.stop().await;
    release_directory(dirs, lock).await;
    Ok(())
}

/// A running node.
struct RunningNode {
    parts: NodeParts,
    supervision: JoinSet<()>,
    allocs: JoinSet<()>,
    connections: JoinSet<()>,
    _metrics: JoinSet<()>,
    /// Keeps the certificate for new connections.
    _tls: watch::Sender<ClusterTls>,
    stop_allocs: CancellationToken,
    stop_plugins: CancellationToken,
    stop_connections: CancellationToken,
}

impl RunningNode {
    async fn start(
        config: &NodeConfig,
        dirs: &AgentDirs,
        tls: ClusterTls,
    ) -> Result<Self, Diagnostics> {
        let checked = dirs.clone();
        run_blocking(move || check_node_directory(&checked)).await??;
        let hidden = checked_hidden_directories(&config.agent, dirs).await?;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
        let metrics = Arc::new(AgentMetrics::default());
        let serving = serve_metrics_at(config.agent.metrics, metrics.clone()).await?;
        let drivers = task_drivers(prepare_limits().await?);
        let offered = NodeOffer { drivers: &drivers, host_volumes: &config.agent.host_volumes };
        let id = own_id(dirs.node_id_file(), &*ids).await?;
        let node = offered_node(id, &offered).await?;
        let node = Arc::new(Node {
            name: config.name.clone().unwrap_or_else(|| node.name.clone()),
            datacenter: config.datacenter.clone(),
            ..node
        });
        let session = HostSession::new(ids.uuid());
        let boot_id = node_boot_id().await?;
        let profile = NodeProfile {
            node: Node::clone(&node),
            secret: open_node_secret(dirs.node_secret_file()).await?,
            session: session.clone(),
            boot_id: boot_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            features: vec![],
        };
        let memory = Arc::new(ClusterFile::new(dirs.cluster_file()));
        let control = RemoteControlPlane::open(profile, memory, ids.clone()).await;
        let control = control.map_err(|error| cluster_problem(dirs.data(), &error.reason))?;
        let control = Arc::new(control);
        let server = ServerSide {
            plugins: control.clone(),
            mounts: control.clone(),
            sent: Arc::new(NoSentSecrets),
        };
        let tools = NodeTools { clock: clock.clone(), ids: ids.clone(), metrics };
        let parts = NodeParts::new(dirs, (node.clone(), session.clone()), drivers, server, tools);
        let stop_plugins = CancellationToken::new();
        let supervised = (&*node, &parts, control.clone() as Arc<dyn PluginObserver>);
        let supervision = supervise_endpoints(
            &config.agent,
            dirs,
            supervised,
            (clock, ids.clone()),
            &stop_plugins,
        )
        .await?;
        let stop_allocs = CancellationToken::new();
        let runners = parts.runners(&config.agent, dirs, control.clone(), hidden);
        let mut allocs = JoinSet::new();
        allocs.spawn(runners.run(stop_allocs.clone()));
        let connected = ConnectedNode {
            host: parts.hosts.node.clone(),
            controllers: parts.hosts.controllers.clone(),
            plugins: parts.registry().clone(),
            logs: Some(parts.logs.clone()),
            allocs: Some(parts.allocs.clone()),
        };
        let terms = Arc::new(parts.call_locks().clone());
        let service = NodeHostService::new(connected, terms, HostDescription { session, boot_id });
        let (sender, receiver) = watch::channel(tls);
        let (servers, routes) = (config.servers.clone(), service.into_routes());
        let dialer = Dialer::new(servers, receiver, control.clone(), routes, ids);
        let stop_connections = CancellationToken::new();
        let mut connections = JoinSet::new();
        connections.spawn(dialer.run(stop_connections.clone()));
        let stop = stop_connections.clone();
        connections.spawn(async move { control.run(stop).await });
        tracing::info!(node.id = %node.id, data = %dirs.data().display(), "the node is ready");
        Ok(Self {
            parts,
            supervision,
            allocs,
            connections,
            _metrics: serving,
            _tls: sender,
            stop_allocs,
            stop_plugins,
            stop_connections,
        })
    }

    async fn stop(mut self) {
        self.stop_allocs.cancel();
        while self.allocs.join_next().await.is_some() {}
        self.parts.hosts.drain(DRAIN_LIMIT).await;
        self.parts.plugins.record_idle().await;
        self.stop_plugins.cancel();
        while self.supervision.join_next().await.is_some() {}
        self.parts.plugins.release_directories().await;
        self.stop_connections.cancel();
        while self.connections.join_next().await.is_some() {}
    }
}

/// Returns the ID of this node, which its file keeps.
async fn own_id(file: PathBuf, ids: &dyn IdSource) -> Result<NodeId, Diagnostics> {
    let new = NodeId::new(ids.uuid());
    let opened = run_blocking(move || open_node_id(&file, &[], new));
    opened.await?.map_err(|error| node_id_problem(&error))
}

/// Supervises the plugins that run already until `stop`, and reports those that an earlier run had and this one does not.
async fn supervise_endpoints(
    config: &AgentConfig,
    dirs: &AgentDirs,
    (node, parts, servers): (&Node, &NodeParts, Arc<dyn PluginObserver>),
    (clock, ids): (Arc<dyn Clock>, Arc<dyn IdSource>),
    stop: &CancellationToken,
) -> Result<JoinSet<()>, Diagnostics> {
    let instances = Arc::new(EndpointInstances::new(dirs.plugin_records(), servers));
    let read = instances.clone();
    let mut unused = run_blocking(move || read.recorded()).await?;
    let mut supervisors = vec![];
    for endpoint in &config.plugin_endpoints {
        let (connector, sent) = parts.plugin_connections();
        let recorded = |plugin: &PluginId, task: &AllocId| take(&mut unused, plugin, task);
        let known = (dirs, node.id.clone());
        let found = running_plugin(endpoint, config, (&connector, &*sent), known, recorded);
        let (task, running) = found.await?;
        let deps = parts.supervisor_deps(Arc::new(running));
        supervisors
            .push(Supervisor::new(task, SupervisorDeps { observer: instances.clone(), ..deps }));
    }
    let mut supervision = JoinSet::new();
    for supervisor in supervisors {
        supervision.spawn(supervisor.run(stop.clone()));
    }
    let (dirs, node, stop) = (dirs.clone(), node.id.clone(), stop.clone());
    supervision.spawn(async move {
        let reports = report_unused_of_node(dirs, (&*instances, unused), node, (&*clock, &*ids));
        stop.run_until_cancelled(reports).await;
    });
    Ok(supervision)
}

/// Takes the instance of an endpoint out of those on record.
fn take(
    recorded: &mut Vec<(PluginId, PluginInstance)>,
    plugin: &PluginId,
    task: &AllocId,
) -> Option<PluginInstance> {
    let is_it =
        |(of, instance): &(PluginId, PluginInstance)| of == plugin && instance.alloc_id == *task;
    let at = recorded.iter().position(is_it)?;
    Some(recorded.swap_remove(at).1)
}

fn cluster_problem(data: &Path, reason: &str) -> Diagnostics {
    let message = format!("cannot use the data directory `{}`: {reason}", data.display());
    Diagnostic::error(Code::AgentDirectory, message).into()
}

#[cfg(test)]
mod tests;
