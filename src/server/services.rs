//! The services behind the HTTP API, and their shutdown.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::acl::{AclService, AclSettings};
use super::cell::StateCell;
use super::claims::ClaimService;
use super::error::ServerError;
use super::jobs::{JobScheduler, JobService, LocalControlPlane};
use super::namespaces::NamespaceService;
use super::node_events::NodeEvents;
use super::nodes::{PresenceDriver, PresenceLimits, RecordedNodes};
use super::ports::ServerPorts;
use super::variables::VariableService;
use super::volumes::{CreationDriver, VolumeLimits, VolumeService};
use nomad_csi_model::NodeId;
use nomad_csi_ports::{
    AllocAccess, Measurements, MetricsSource, NoMeasurements, NodePlane, NodePresence, TaskLogs,
    VolumeStatsSample,
};

/// The task that drives claims. Clones share their state.
#[derive(Clone)]
struct DriverTask {
    task: TaskTracker,
    stop: CancellationToken,
    abort: CancellationToken,
}

impl DriverTask {
    /// Of a server that drives nothing.
    fn none() -> Self {
        let task = TaskTracker::new();
        task.close();
        Self { task, stop: CancellationToken::new(), abort: CancellationToken::new() }
    }

    fn start(claims: &ClaimService) -> Self {
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        let task = TaskTracker::new();
        task.spawn(claims.driver(stop.clone()).run(abort.clone()));
        task.close();
        Self { task, stop, abort }
    }

    /// Starts no more steps, and aborts those that exceed `grace`.
    async fn stop(&self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.task.wait()).await.is_err() {
            self.abort.cancel();
            self.task.wait().await;
        }
    }
}

/// One job is validated at a time for all who ask, and one for the operator.
#[derive(Clone)]
pub(super) struct ValidationPermits {
    pub(super) everyone: std::sync::Arc<Semaphore>,
    pub(super) operator: std::sync::Arc<Semaphore>,
}

impl Default for ValidationPermits {
    fn default() -> Self {
        let one_permit = || std::sync::Arc::new(Semaphore::new(1));
        Self { everyone: one_permit(), operator: one_permit() }
    }
}

/// The shortest time between two measurements of the health of volumes.
const HEALTH_PERIOD: Duration = Duration::from_secs(60);

/// Measures the health of volumes after the metrics were read, at most once per period: the next reader finds
/// it. Without readers no plugin is asked.
async fn measure_health<M: Measurements + MetricsSource>(
    volumes: VolumeService,
    metrics: std::sync::Arc<M>,
) {
    let reads = metrics.reads();
    loop {
        reads.notified().await;
        if let Ok(counts) = volumes.count_health().await {
            metrics.volume_health(counts);
        }
        tokio::time::sleep(HEALTH_PERIOD).await;
    }
}

/// The shortest time between two samples of the statistics of volumes.
const STATS_PERIOD: Duration = Duration::from_secs(60);
/// How long a sample is shown without a reader.
const STATS_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Samples the statistics of published volumes after the metrics were read, at most once per period: the next reader
/// finds them. Without readers no plugin is asked, and a reader after a long time finds none instead of old ones.
async fn sample_stats<M: Measurements + MetricsSource>(
    claims: ClaimService,
    metrics: std::sync::Arc<M>,
) {
    let reads = metrics.reads();
    loop {
        let read = tokio::time::timeout(STATS_LIFETIME, reads.notified()).await;
        if read.is_err() {
            metrics.volume_stats(VolumeStatsSample::default());
            reads.notified().await;
        }
        metrics.volume_stats(claims.sample_stats().await);
        tokio::time::sleep(STATS_PERIOD).await;
    }
}

/// The agent's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// This program's version.
    pub version: String,
    /// The agent's name, mostly the host's.
    pub name: String,
    /// Its region.
    pub region: String,
    /// Its datacenter.
    pub datacenter: String,
    /// `HOST:PORT` of its TCP listener; empty if it has only a socket.
    pub address: String,
    /// The ID of its node; empty without a node.
    pub node_id: String,
}

impl AgentInfo {
    /// The Nomad version whose API the agent serves. Nomad's clients read it as the server's version.
    pub const NOMAD_VERSION: &'static str = "2.0.5";
    /// Nomad's default region.
    pub const REGION: &'static str = "global";
    /// Nomad's default datacenter.
    pub const DATACENTER: &'static str = "dc1";
}

/// The services of the agent. Clones share their state.
#[derive(Clone)]
pub struct Services {
    /// The state.
    pub cell: StateCell,
    /// Volume operations.
    pub volumes: VolumeService,
    /// Claims of volumes.
    pub claims: ClaimService,
    driver: DriverTask,
    /// Jobs.
    pub jobs: JobService,
    ports: ServerPorts,
    /// The tasks that place allocations and continue creations.
    background: TaskTracker,
    pub(super) measurements: std::sync::Arc<dyn Measurements>,
    metrics: Option<std::sync::Arc<dyn MetricsSource>>,
    pub(super) node_events: Option<std::sync::Arc<NodeEvents>>,
    /// The ACL.
    pub acl: AclService,
    /// Namespaces.
    pub namespaces: NamespaceService,
    /// Variables.
    pub variables: VariableService,
    /// The agent's report about itself.
    pub agent_info: std::sync::Arc<AgentInfo>,
    pub(super) validations: ValidationPermits,
    pub(super) stopping: CancellationToken,
}

impl Services {
    /// Services over these ports. Needs a running tokio runtime, which expires locks of variables, drives claims,
    /// continues creations, and places the allocations of jobs.
    pub fn new(ports: ServerPorts, limits: VolumeLimits, about: AgentInfo) -> Self {
        let continues_creations = limits.continues_creations;
        let mut services = Self::following(ports, limits, about);
        services.driver = DriverTask::start(&services.claims);
        let (ports, stopping) = (&services.ports, &services.stopping);
        services.variables.start_expiry(stopping.clone());
        let background = TaskTracker::new();
        background.spawn(services.acl.clone().expire_tokens(stopping.clone()));
        background.spawn(JobScheduler::new(ports.clone()).run(stopping.clone()));
        if continues_creations {
            let creations = CreationDriver::new(services.volumes.clone(), ports, &limits);
            background.spawn(creations.run(stopping.clone()));
        }
        background.close();
        services.background = background;
        services
    }

    /// Services of a server that does not lead: they answer reads, and nothing runs by itself.
    pub fn following(ports: ServerPorts, limits: VolumeLimits, about: AgentInfo) -> Self {
        let background = TaskTracker::new();
        background.close();
        Self {
            cell: ports.cell.clone(),
            claims: ClaimService::new(ports.clone(), limits.claims),
            driver: DriverTask::none(),
            jobs: JobService::new(ports.clone()),
            background,
            measurements: std::sync::Arc::new(NoMeasurements),
            metrics: None,
            node_events: None,
            acl: AclService::new(
                ports.cell.clone(),
                ports.clock.clone(),
                ports.ids.clone(),
                AclSettings::default(),
            ),
            namespaces: NamespaceService::new(ports.cell.clone(), ports.clock.clone()),
            variables: VariableService::new(ports.clone()),
            validations: ValidationPermits::default(),
            volumes: VolumeService::new(ports.clone(), &limits),
            ports,
            agent_info: std::sync::Arc::new(about),
            stopping: CancellationToken::new(),
        }
    }

    /// Sets whether jobs may run tasks of `exec` as root.
    #[must_use]
    pub fn with_root_tasks(self, are_allowed: bool) -> Self {
        Self { jobs: self.jobs.with_root_tasks(are_allowed), ..self }
    }

    /// Sets whether there is an ACL.
    #[must_use]
    pub fn with_acl(self, settings: AclSettings) -> Self {
        Self { acl: self.acl.with_settings(settings), ..self }
    }

    /// Shows the events of nodes.
    #[must_use]
    pub fn with_node_events(self, events: std::sync::Arc<NodeEvents>) -> Self {
        Self { node_events: Some(events), ..self }
    }

    /// Measures requests, and serves the metrics.
    #[must_use]
    pub fn with_metrics_of_requests<M: Measurements + MetricsSource + 'static>(
        self,
        metrics: std::sync::Arc<M>,
    ) -> Self {
        Self { measurements: metrics.clone(), metrics: Some(metrics), ..self }
    }

    /// Measures requests, the health of volumes and their statistics, and serves the metrics.
    #[must_use]
    pub fn with_metrics<M: Measurements + MetricsSource + 'static>(
        self,
        metrics: std::sync::Arc<M>,
    ) -> Self {
        let measuring = measure_health(self.volumes.clone(), metrics.clone());
        let sampling = sample_stats(self.claims.clone(), metrics.clone());
        let stopping = self.stopping.clone();
        tokio::spawn(async move {
            let measured = async { tokio::join!(measuring, sampling) };
            stopping.run_until_cancelled(measured).await
        });
        self.with_metrics_of_requests(metrics)
    }

    /// Returns the metrics as text; empty if nothing is measured.
    pub(super) fn metrics(&self) -> String {
        let source = self.metrics.as_ref();
        source.map(|source| source.metrics()).unwrap_or_default()
    }

    /// Returns a random number between 0 and 1, for pauses.
    pub(super) fn jitter(&self) -> f64 {
        self.ports.ids.jitter()
    }

    /// Returns the time.
    pub(super) fn now(&self) -> i64 {
        self.ports.clock.now()
    }

    /// Returns what reads the output of the tasks of a node; `None` if it cannot be reached or has no tasks.
    pub(super) fn task_logs(&self, node: &NodeId) -> Option<std::sync::Arc<dyn TaskLogs>> {
        self.ports.hosts.node(node)?.logs
    }

    /// Returns the tasks and files of the allocations of a node; `None` if it cannot be reached or has no tasks.
    pub(super) fn alloc_access(&self, node: &NodeId) -> Option<std::sync::Arc<dyn AllocAccess>> {
        self.ports.hosts.node(node)?.allocs
    }

    /// Returns what a node in this process needs of the server.
    pub fn control_plane(&self, node: NodeId) -> LocalControlPlane {
        LocalControlPlane::new(self.ports.clone(), self.claims.clone(), node)
    }

    /// Returns what nodes of other processes need of the server. What happens to their mounts goes to `events`.
    pub fn node_plane(&self, events: std::sync::Arc<NodeEvents>) -> std::sync::Arc<dyn NodePlane> {
        let (ports, claims) = (self.ports.clone(), self.claims.clone());
        std::sync::Arc::new(RecordedNodes::new(ports, claims, events))
    }

    /// Refuses a request that only the leader answers, while another server may lead.
    pub(crate) fn leads(&self) -> Result<(), ServerError> {
        self.ports.lease.is_certain().then_some(()).ok_or(ServerError::NoLeader)
    }

    /// Records which nodes are connected, until the services are drained.
    pub fn record_presence(
        &self,
        presence: std::sync::Arc<dyn NodePresence>,
        limits: PresenceLimits,
    ) {
        let driver = PresenceDriver::new(self.ports.clone(), presence, limits);
        self.background.spawn(driver.run(self.stopping.clone()));
    }

    /// Ends blocking reads, refuses new operations, waits up to `grace` for running ones and aborts the
    /// rest. The next run continues them. The cell keeps running; stop it after everything that
    /// commits.
    pub async fn drain(&self, grace: Duration) {
        self.stopping.cancel();
        tokio::join!(self.volumes.stop(grace), self.driver.stop(grace));
        self.variables.wait_stopped().await;
        self.background.wait().await;
    }
}
