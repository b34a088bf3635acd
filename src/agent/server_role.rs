//! `agent server`: answers the API and drives the steps of claims on nodes of other processes.
//!
//! ```text
//! start   directory, lock, sockets, operator's token, leadership, journal and state, key, term, port for nodes, HTTP, "ready"
//! stop    HTTP (running requests are completed), calls to nodes, connections, state and journal, leadership, token, sockets
//! ```
//!
//! Nodes, their tasks and mounts go on without it. With the journal in its directory, its term begins with the index of its
//! start in the journal. With the journal in etcd, it follows the server that leads until it leads itself (`standby`), and again
//! when it leads no more. The sockets stay open all the time.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::assemble::volume_limits;
use super::blocking::run_blocking;
use super::cluster_nodes::ClusterNodes;
use super::cluster_tls::load_tls;
use super::core_dumps::restrict_core_dumps;
use super::data_role::DataRole;
use super::directory::AgentDirs;
use super::etcd_store::{EtcdStore, Led};
use super::listen::DRAIN_LIMIT;
use super::node_registration::not_committed;
use super::open_state::{open_cell, open_cell_over, open_sealer};
use super::role_file::{EtcdConfig, ServerConfig};
use super::run::{notify_ready, notify_stopping, open_directory, release_directory};
use super::server_ports::server_ports;
use super::server_sockets::{ServerSockets, about};
use super::standby::follow;
use crate::telemetry::AgentMetrics;
use nomad_csi_claims::state::{Event, EventKind};
use nomad_csi_etcd::LeadingServer;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{Term, shell_quoted};
use nomad_csi_ports::{Clock as _, IdSource as _, LeaderLease, RandomIds, SoleServer, SystemClock};
use nomad_csi_rpc::{ConnectedNodes, ControlPlaneService, LeaderServices, Role, Routes};
use nomad_csi_server::http::{ConnectionSlots, ServerRole, forwarded_router, router_of};
use nomad_csi_server::{AgentInfo, Expected, NodeEvents, Services, StateCell};

/// Runs a server until `stop`, then stops it in order.
///
/// # Errors
/// If it cannot start. Nothing keeps running then.
pub async fn run_server(config: ServerConfig, stop: CancellationToken) -> Result<(), Diagnostics> {
    restrict_core_dumps(config.agent.allows_core_dumps);
    let tls = load_tls(&config.tls, Role::Server, &config.region).await?;
    let (dirs, lock) = open_directory(&config.agent, DataRole::Server).await?;
    let served = match ServerSockets::open(&config, &dirs, tls).await {
        Ok(sockets) => serve_in_parts(&config, &dirs, sockets, &stop).await,
        Err(problems) => Err(problems),
    };
    release_directory(dirs, lock).await;
    served
}

/// Serves until `stop`, and closes the sockets.
async fn serve_in_parts(
    config: &ServerConfig,
    dirs: &AgentDirs,
    sockets: ServerSockets,
    stop: &CancellationToken,
) -> Result<(), Diagnostics> {
    let sockets = Arc::new(sockets);
    let served = match &config.etcd {
        None => lead(config, dirs, &sockets, None, stop).await,
        Some(etcd) => serve_over_etcd(config, etcd, dirs, &sockets, stop).await,
    };
    if let Some(sockets) = Arc::into_inner(sockets) {
        sockets.close().await;
    }
    served
}

/// Leads whenever this server can, and follows the server that leads in between.
async fn serve_over_etcd(
    config: &ServerConfig,
    etcd: &EtcdConfig,
    dirs: &AgentDirs,
    sockets: &Arc<ServerSockets>,
    stop: &CancellationToken,
) -> Result<(), Diagnostics> {
    let address = config.advertise.clone().unwrap_or_else(|| sockets.cluster_address());
    let store = EtcdStore::open(etcd, LeadingServer { name: config.name(), address }).await?;
    let journal = dirs.journal();
    if run_blocking(move || journal.symlink_metadata().is_ok()).await? {
        return Err(has_own_journal(dirs));
    }
    // A server that waits is one that works as it should.
    notify_ready();
    store.check_key(&dirs.key_file(), stop).await?;
    let (seen, leader) = watch::channel(None);
    loop {
        let end = CancellationToken::new();
        let leading = async {
            let led = store.lead(&seen, stop).await;
            end.cancel();
            led
        };
        let following = follow(config, dirs, sockets, &store, &leader, &end);
        let (led, ()) = tokio::join!(leading, following);
        let Some(led) = led else {
            return Ok(());
        };
        lead(config, dirs, sockets, Some(led), stop).await?;
        if stop.is_cancelled() {
            return Ok(());
        }
        tracing::warn!("this server leads no more: it waits until it can lead again");
    }
}

/// Leads until `stop`, or until the leadership is over.
async fn lead(
    config: &ServerConfig,
    dirs: &AgentDirs,
    sockets: &Arc<ServerSockets>,
    led: Option<Led>,
    stop: &CancellationToken,
) -> Result<(), Diagnostics> {
    let server = match start_unless_stopped(config, dirs, sockets, led.as_ref(), stop).await {
        Ok(server) => server,
        Err(problems) => {
            let Some(led) = led else {
                return Err(problems);
            };
            let is_over = led.leadership.lost().is_cancelled();
            led.end(async {}).await;
            // A stop ends a start that waits for etcd; and where another server leads, this one waits.
            return if is_over { Ok(()) } else { Err(problems) };
        }
    };
    notify_ready();
    let lost = async {
        match &led {
            None => std::future::pending().await,
            Some(led) => led.leadership.lost().cancelled().await,
        }
    };
    tokio::select! {
        () = stop.cancelled() => {
            tracing::info!("stopping: running requests are completed; a second signal aborts them");
            notify_stopping();
        }
        () = lost => {}
    }
    match led {
        None => server.stop().await,
        Some(led) => led.end(server.stop()).await,
    }
    Ok(())
}

/// Starts a server. A stop does not wait for an etcd that does not answer.
async fn start_unless_stopped(
    config: &ServerConfig,
    dirs: &AgentDirs,
    sockets: &Arc<ServerSockets>,
    led: Option<&Led>,
    stop: &CancellationToken,
) -> Result<Server, Diagnostics> {
    let mut starting = std::pin::pin!(Server::start(config, dirs, sockets, led));
    tokio::select! {
        started = &mut starting => return started,
        () = stop.cancelled() => {}
    }
    if let Some(led) = led {
        led.journal.give_up();
    }
    starting.await
}

/// The directory was that of a server without etcd.
fn has_own_journal(dirs: &AgentDirs) -> Diagnostics {
    let data = shell_quoted(dirs.data().display());
    let message = format!(
        "`{}` has a journal of its own, and the configuration names etcd",
        dirs.data().display()
    );
    let help = format!(
        "move it with `nomad-csi agent migrate --from {data} --config FILE`, or use an empty directory"
    );
    Diagnostic::error(Code::AgentDirectory, message).help(help).into()
}

/// A server that leads.
struct Server {
    services: Services,
    http: JoinSet<()>,
    nodes: JoinSet<()>,
    stop_http: CancellationToken,
    stop_nodes: CancellationToken,
    /// Cancelled when forwarded requests are completed.
    requests_ended: CancellationToken,
}

impl Server {
    async fn start(
        config: &ServerConfig,
        dirs: &AgentDirs,
        sockets: &Arc<ServerSockets>,
        led: Option<&Led>,
    ) -> Result<Self, Diagnostics> {
        let connected = Arc::new(ConnectedNodes::default());
        let cell = match led {
            None => open_cell(&config.agent, (dirs, DataRole::Server), &sockets.metrics).await?,
            Some(led) => {
                open_cell_over(&config.agent, led.journal.clone(), &sockets.metrics).await?
            }
        };
        let parts = (about(config, &sockets.http), &connected, led);
        let wired = wire(config, dirs, &cell, parts, sockets.metrics.clone()).await;
        let (services, events) = match wired {
            Ok(wired) => wired,
            Err(problems) => {
                cell.stop().await;
                return Err(problems);
            }
        };
        let (stop_http, stop_nodes) = (CancellationToken::new(), CancellationToken::new());
        let requests_ended = CancellationToken::new();
        let plane = ControlPlaneService::new(services.node_plane(events), connected.clone());
        let settings = config.agent.http_settings.clone();
        let limits = settings.limits.clone();
        let role = ServerRole::Leader { has_standbys: led.is_some() };
        let router = router_of(role, services.clone(), settings, sockets.operator.access());
        let places =
            ConnectionSlots::new(limits.connections, limits.waiting_queries, limits.streams);
        let answers = LeaderServices {
            nodes: connected,
            calls: plane.into_routes(),
            requests: Routes::from(forwarded_router(router.clone(), places)),
            stop_requests: stop_http.clone(),
            requests_ended: requests_ended.clone(),
        };
        let (mut http, mut nodes) = (JoinSet::new(), JoinSet::new());
        let (open, stopped) = (sockets.clone(), stop_nodes.clone());
        nodes.spawn(async move { open.port.serve(answers, stopped).await });
        let (open, stopped) = (sockets.clone(), stop_http.clone());
        let serving =
            async move { open.http.serve_for_now(router, limits, stopped, DRAIN_LIMIT).await };
        http.spawn(serving);
        tracing::info!(
            address = sockets.http.url(),
            cluster = sockets.cluster_address(),
            socket = %dirs.agent_socket().display(),
            data = %dirs.data().display(),
            "the server is ready"
        );
        Ok(Self { services, http, nodes, stop_http, stop_nodes, requests_ended })
    }

    async fn stop(mut self) {
        self.stop_http.cancel();
        let served = async { while self.http.join_next().await.is_some() {} };
        let forwarded = timeout(DRAIN_LIMIT, self.requests_ended.cancelled());
        drop(tokio::join!(self.services.drain(DRAIN_LIMIT), served, forwarded));
        self.stop_nodes.cancel();
        while self.nodes.join_next().await.is_some() {}
        self.services.cell.stop().await;
    }
}

async fn wire(
    config: &ServerConfig,
    dirs: &AgentDirs,
    cell: &StateCell,
    (about, connected, led): (AgentInfo, &Arc<ConnectedNodes>, Option<&Led>),
    metrics: Arc<AgentMetrics>,
) -> Result<(Services, Arc<NodeEvents>), Diagnostics> {
    let sealer = Arc::new(open_sealer(dirs, cell).await?);
    if let Some(led) = led {
        led.check_key(&sealer, &dirs.key_file()).await?;
    }
    let leads = EventKind::LeaderStarted { origin: RandomIds.uuid() };
    let started = cell.commit(Expected::Any, Event::new(SystemClock.now(), leads)).await;
    let revision = started.map_err(|error| not_committed(&error))?;
    let term =
        led.map_or(Term { epoch: Term::EPOCH_OF_A_FILE, revision }, |led| led.leadership.term());
    let connected = connected.clone();
    let lease: Arc<dyn LeaderLease> = match led {
        None => Arc::new(SoleServer),
        Some(led) => led.leadership.clone(),
    };
    let nodes = Arc::new(ClusterNodes { connected, term, lease });
    let ports = server_ports(config, cell.clone(), sealer, &nodes, metrics.clone());
    let events = Arc::new(NodeEvents::new(ports.clock.clone()));
    let services = Services::new(ports, volume_limits(&config.agent), about)
        .with_metrics(metrics)
        .with_node_events(events.clone())
        .with_acl(config.acl)
        .with_root_tasks(config.agent.allows_root_tasks);
    services.record_presence(nodes, config.presence);
    Ok((services, events))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::listen::Listeners;
    use nomad_csi_claims::state::samples::jobs::{job, job_key};

    #[tokio::test]
    async fn a_server_admits_tasks_of_root_only_if_its_file_does() {
        let root = |mut job: nomad_csi_model::Job| {
            "root".clone_into(&mut job.groups[0].tasks[0].user);
            "exec".clone_into(&mut job.groups[0].tasks[0].driver);
            job
        };
        for (key, expected) in [("", &[Code::JobRootTask][..]), ("allow_root_tasks = true\n", &[])]
        {
            let directory = tempfile::tempdir().unwrap();
            let file = directory.path().join("server.toml");
            let tls = "ca = 'a'\ncert = 'b'\nkey = 'c'\n";
            let text = format!("{key}data_dir = 'data'\n[cluster]\naddress = '127.0.0.1:0'\n{tls}");
            std::fs::write(&file, text).unwrap();
            let config = ServerConfig::read(&file, None).unwrap();
            let (dirs, lock) = open_directory(&config.agent, DataRole::Server).await.unwrap();
            let listeners = Listeners::open(None, &dirs.agent_socket()).await.unwrap();
            let metrics = Arc::new(AgentMetrics::default());
            let role = (&dirs, DataRole::Server);
            let cell = open_cell(&config.agent, role, &metrics).await.unwrap();
            let parts = (about(&config, &listeners), &Arc::default(), None);
            let (services, _) = wire(&config, &dirs, &cell, parts, metrics).await.unwrap();
            let problems = services.jobs.problems(&root(job(&job_key("web"))));
            let codes: Vec<_> = problems.iter().map(|problem| problem.code).collect();
            assert_eq!(codes, expected, "{key}");
            services.cell.stop().await;
            release_directory(dirs, lock).await;
        }
    }
}
