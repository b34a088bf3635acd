//! Builds the adapters and connects them to the ports. Only this module knows the concrete types.
//!
//! The result is not running: sockets are open but not served, and the plugin is not started. `run`
//! starts and stops the parts in order. If a step fails, everything opened before is closed.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::config::AgentConfig;
use super::directory::AgentDirs;
use super::listen::Listeners;
use super::measured_journal::MeasuredJournal;
use super::metrics::serve_metrics_at;
use super::node_registration::{NodeOffer, register_node, this_node};
use super::operator_token::token_directories;
use super::own_directories::check_host_volumes;
use super::plugin::{hostpath_command, hostpath_task};
use super::problems::{journal_problem, key_problem};
use super::rotate_key::finish_if_resealed;
use super::running_plugin::running_plugin;
use super::seal_clear_secrets::{any_sealed, seal_clear_secrets};
use super::step_hosts::StepHosts;
use super::tasks::{TaskDrivers, prepare_limits, task_drivers};
use super::unused_endpoint::report_unused_endpoints;
use super::{blocking, plugin_job};
use crate::telemetry::AgentMetrics;
use nomad_csi_claims::state::State;
use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{HostSession, Job, Node, NodeId};
use nomad_csi_node::driver::RawExec;
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{
    AllocRunnerDeps, AllocRunners, NodeTaskLogs, PluginHost, PluginHostDeps, PluginTask, Registry,
    Supervisor, SupervisorDeps, VolumeCallLocks,
};
use nomad_csi_ports::{Clock, IdSource, PluginObserver, RandomIds, SentSecretsReader, SystemClock};
use nomad_csi_server::store::{EmbeddedJournal, KeySealer};
use nomad_csi_server::{
    AgentInfo, CellOptions, NodeEvents, NodeHosts, PluginCallQueues, RecordedSecrets,
    RecordingObserver, Sealer, ServerPorts, Services, StateCell, VolumeLimits,
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
    let checked = dirs.clone();
    blocking::run_blocking(move || require_journal(&checked)).await??;
    let journal = EmbeddedJournal::open(dirs.journal()).await;
    let journal = journal.map_err(|error| journal_problem(&error))?;
    seal_clear_secrets(dirs.key_file(), &journal).await?;
    let metrics = Arc::new(AgentMetrics::default());
    let journal = MeasuredJournal::new(journal, metrics.clone());
    let options = CellOptions { limits: config.state_limits, ..CellOptions::default() };
    let cell = StateCell::open(Arc::new(journal), options).await;
    let cell = cell.map_err(|error| journal_problem(&error))?;
    match wire(config, dirs, &cell, listeners.address(), metrics).await {
        Ok(components) => Ok(AgentParts { components, listeners }),
        Err(problems) => {
            cell.stop().await;
            Err(problems)
        }
    }
}

/// Refuses a directory whose journal is gone: the first start creates the journal before the key and
/// the catalogue, so a new journal would forget what the old one recorded.
fn require_journal(dirs: &AgentDirs) -> Result<(), Diagnostics> {
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let journal = dirs.journal();
    if exists(&journal) || !exists(&dirs.key_file()) || !exists(&dirs.plugin_catalog()) {
        return Ok(());
    }
    let message = format!("the agent's journal `{}` is missing", journal.display());
    let code = Code::JournalMissing;
    Err(Diagnostic::error(code, message)
        .note("the key of its secrets and the catalogue of its plugin exist")
        .help(code.advice())
        .into())
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
    let hidden_directories = hidden_directories(config, dirs).await?;
    let own = std::iter::once(dirs.data().to_owned()).chain(hidden_directories.clone());
    check_host_volumes(&config.host_volumes, &own.collect::<Vec<_>>())?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let ids: Arc<dyn IdSource> = Arc::new(RandomIds);
    let sealer: Arc<dyn Sealer> = Arc::new(open_sealer(dirs, cell).await?);
    let sent = sent_secrets(cell, &sealer);
    let id = this_node(dirs.node_id_file(), cell, &*ids).await?;
    // The agent of one command ends with it, and a task would not.
    let drivers = match config.http {
        Some(_) => task_drivers(prepare_limits().await?),
        None => TaskDrivers::new(),
    };
    let offered = NodeOffer { drivers: &drivers, host_volumes: &config.host_volumes };
    let node = register_node(cell, id, &offered, &*clock, &*ids).await?;
    // A plugin of an earlier agent ends, whether it starts again.
    let plugin_job = plugin_job::prepare(config, dirs, cell, &node.id).await?;
    let plugin_job = plugin_job.filter(|_| config.runs_embedded_plugin);
    let call_locks = VolumeCallLocks::new(HostSession::new(ids.uuid()));
    let registry = Arc::new(Registry::new(call_locks));
    let events = Arc::new(NodeEvents::new(node.id.clone(), clock.clone()));
    let hosts = StepHosts::new(&registry, dirs.mounts(), events.clone());
    let observer = Arc::new(RecordingObserver::new(cell.clone(), clock.clone()));
    let plugins = Arc::new(PluginHost::new(PluginHostDeps {
        connector: Arc::new(GrpcConnector::measured(metrics.clone())),
        sent: sent.clone(),
        registry: registry.clone(),
        observer: observer.clone(),
        mounter: Arc::new(LinuxMounter),
        clock: clock.clone(),
        ids: ids.clone(),
        node: node.id.clone(),
        sockets: dirs.plugin_sockets(),
        volumes: dirs.mounts(),
    }));
    let deps = SupervisorDeps {
        driver: Arc::new(RawExec { command: hostpath_command(config, dirs) }),
        connector: Arc::new(GrpcConnector::measured(metrics.clone())),
        sent: sent.clone(),
        registry: registry.clone(),
        observer: observer.clone(),
        clock: clock.clone(),
        ids: ids.clone(),
    };
    let embedded = match plugin_job {
        Some(_) => None,
        None if !config.runs_embedded_plugin => None,
        None => Some(hostpath_task(dirs, cell, node.id.clone(), &*ids)),
    };
    let supervisors = supervisors(config, embedded, (dirs, cell, &node.id), deps).await?;
    let serving = serve_metrics_at(config.metrics, metrics.clone()).await?;
    let calls = PluginCallQueues::new(
        config.calls,
        VolumeLimits::MAX_WAITING,
        metrics.clone(),
        registry,
        hosts.controllers.clone(),
    );
    let nodes = NodeHosts::new([(node.id.clone(), hosts.node.clone())]);
    let ports = ServerPorts { cell: cell.clone(), sealer, clock, ids, nodes, calls };
    let own = Arc::new(node.clone());
    let logs = NodeTaskLogs::new(dirs.data().to_owned(), drivers.clone());
    let services = Services::new(ports.clone(), volume_limits(config), agent_info(node, address))
        .with_task_logs(Arc::new(logs))
        .with_metrics(metrics)
        .with_node_events(events)
        .with_root_tasks(config.allows_root_tasks);
    let runners = AllocRunners::new(AllocRunnerDeps {
        control: Arc::new(services.control_plane(own.id.clone())),
        drivers,
        host_volumes: config.host_volumes.clone(),
        allows_root_tasks: config.allows_root_tasks,
        clock: ports.clock,
        ids: ports.ids,
        node: Arc::clone(&own),
        mounter: Arc::new(LinuxMounter),
        plugins: plugins.clone(),
        data_directory: dirs.data().to_owned(),
        hidden_directories,
    });
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

fn sent_secrets(cell: &StateCell, sealer: &Arc<dyn Sealer>) -> Arc<dyn SentSecretsReader> {
    Arc::new(RecordedSecrets::new(cell.clone(), sealer.clone()))
}

fn volume_limits(config: &AgentConfig) -> VolumeLimits {
    VolumeLimits {
        // A command has read what exists, and creates the rest itself.
        continues_creations: !config.is_of_command(),
        ..VolumeLimits::default()
    }
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
        let known = (dirs, cell, node.clone());
        let found = running_plugin(endpoint, config, (&*deps.connector, &*deps.sent), known);
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

/// Opens the key. With another key the agent must not start. Finishes a rotation of the key of which only the
/// last step is left.
async fn open_sealer(dirs: &AgentDirs, cell: &StateCell) -> Result<KeySealer, Diagnostics> {
    let sealer = open_key(dirs, cell).await?;
    if !sealer.is_in_rotation() {
        return Ok(sealer);
    }
    let (file, state) = (dirs.key_file(), cell.read(State::clone));
    let finished = blocking::run_blocking(move || finish_if_resealed(&file, &state)).await?;
    if finished.map_err(|error| key_problem(&error))? {
        return open_key(dirs, cell).await;
    }
    tracing::warn!(
        key.file = %dirs.key_file().display(),
        "a rotation of the key was interrupted; stop the agent and run `nomad-csi agent key rotate`"
    );
    Ok(sealer)
}

/// Opens the key and verifies it on a recorded secret.
async fn open_key(dirs: &AgentDirs, cell: &StateCell) -> Result<KeySealer, Diagnostics> {
    let (file, sealed) = (dirs.key_file(), cell.read(any_sealed));
    let open = move || {
        let sample = sealed.as_ref().map(|(owner, secrets)| (owner, secrets));
        KeySealer::open(&file, sample)
    };
    let sealer = blocking::run_blocking(open).await?;
    sealer.map_err(|error| key_problem(&error))
}
