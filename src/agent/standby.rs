//! The part of a server that does not lead: it follows the journal of the leader, answers reads, and forwards the rest.
//!
//! It begins when a leader has recorded the key of the cluster, so that it can open what the key seals, and ends at once when
//! this server leads: requests that wait are answered, streams end, and forwarded connections of nodes are closed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::assemble::volume_limits;
use super::cluster_nodes::ClusterNodes;
use super::directory::AgentDirs;
use super::etcd_store::EtcdStore;
use super::leader_link::{ClusterLeader, address_of};
use super::role_file::ServerConfig;
use super::server_ports::server_ports;
use super::server_sockets::{ServerSockets, about};
use nomad_csi_etcd::LeadingServer;
use nomad_csi_model::Term;
use nomad_csi_ports::{Measurements as _, NotLeading, VolumeStatsSample};
use nomad_csi_server::http::{ServerRole, Standby, router_of};
use nomad_csi_server::store::KeySealer;
use nomad_csi_server::{FollowedState, Services};

/// How long requests may go on when this server leads.
const END_LIMIT: Duration = Duration::from_secs(1);
/// The time between two attempts to read a journal.
const RETRY: Duration = Duration::from_secs(1);

/// Follows the leader that `seen` names, until `end`.
pub(super) async fn follow(
    config: &ServerConfig,
    dirs: &AgentDirs,
    sockets: &Arc<ServerSockets>,
    store: &EtcdStore,
    seen: &watch::Receiver<Option<LeadingServer>>,
    end: &CancellationToken,
) {
    let Some(sealer) = sealer(store, dirs, end).await else {
        return;
    };
    let opened = end.run_until_cancelled(open(store)).await;
    let Some(state) = opened else {
        return;
    };
    let services = services(config, sockets, &state, sealer);
    let leader = Arc::new(ClusterLeader::new(seen.clone(), sockets.tls.clone()));
    let role = ServerRole::Standby(Standby { state: state.clone(), leader });
    let settings = config.agent.http_settings.clone();
    let limits = settings.limits.clone();
    let router = router_of(role, services.clone(), settings, sockets.operator.access());
    let mut serving = JoinSet::new();
    let (open, ended) = (sockets.clone(), end.clone());
    serving.spawn(async move { open.http.serve_for_now(router, limits, ended, END_LIMIT).await });
    let (open, ended, seen) = (sockets.clone(), end.clone(), seen.clone());
    let leader = Arc::new(move || address_of(seen.borrow().as_ref()));
    serving.spawn(async move { open.port.forward(leader, ended).await });
    tracing::info!(
        address = sockets.http.url(),
        cluster = sockets.cluster_address(),
        socket = %dirs.agent_socket().display(),
        data = %dirs.data().display(),
        "this server answers reads, and forwards the rest to the one that leads"
    );
    end.cancelled().await;
    services.drain(END_LIMIT).await;
    while serving.join_next().await.is_some() {}
    state.cell().stop().await;
}

/// Returns the key of the cluster, when a leader has recorded it and it is in the directory; `None` if `end` comes before.
async fn sealer(store: &EtcdStore, dirs: &AgentDirs, end: &CancellationToken) -> Option<KeySealer> {
    let mut said = String::new();
    loop {
        let problems = match store.recorded_sealer(&dirs.key_file(), end).await {
            Ok(sealer) => return sealer,
            Err(problems) => problems,
        };
        let reasons = problems.iter().map(|problem| problem.message.as_str());
        let reason = reasons.collect::<Vec<_>>().join("; ");
        if reason != said {
            tracing::error!(reason, "this server cannot follow the leader: it tries again");
            said = reason;
        }
        tokio::select! {
            () = sleep(RETRY) => {}
            () = end.cancelled() => return None,
        }
    }
}

/// Reads the journal of the leader, again and again until it can be read.
async fn open(store: &EtcdStore) -> FollowedState {
    let mut is_failing = false;
    loop {
        match FollowedState::open(Arc::new(store.followed())).await {
            Ok(state) => return state,
            Err(error) if !is_failing => {
                tracing::warn!(%error, reason = %error.source, "the journal of the leader cannot be read: this server waits");
                is_failing = true;
            }
            Err(_) => {}
        }
        sleep(RETRY).await;
    }
}

/// Returns the services of a server that calls no node and changes nothing.
fn services(
    config: &ServerConfig,
    sockets: &ServerSockets,
    state: &FollowedState,
    sealer: KeySealer,
) -> Services {
    let metrics = sockets.metrics.clone();
    let nodes = Arc::new(ClusterNodes {
        connected: Arc::default(),
        term: Term { epoch: Term::FIRST_EPOCH_OF_ETCD, revision: 0 },
        lease: Arc::new(NotLeading),
    });
    let (cell, sealer) = (state.cell().clone(), Arc::new(sealer));
    let ports = server_ports(config, cell, sealer, &nodes, metrics.clone());
    let limits = volume_limits(&config.agent);
    // What it measured as the leader is another server's now.
    metrics.volume_health(BTreeMap::default());
    metrics.volume_stats(VolumeStatsSample::default());
    let services = Services::following(ports, limits, about(config, &sockets.http));
    services.with_metrics_of_requests(metrics).with_acl(config.acl)
}
