//! Servers and nodes of a test, with real sockets and certificates.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use super::super::node_profile::NodeProfile;
use super::super::remote::RemoteControlPlane;
use super::super::service::ControlPlaneService;
use crate::tls::authority::Authority;
use crate::tls::cluster_tls::ClusterTls;
use crate::tls::role::Role;
use crate::tls::samples;
use crate::transport::connected_nodes::ConnectedNodes;
use crate::transport::dialer::Dialer;
use crate::transport::listener::{LeaderServices, NodeListener};
use nomad_csi_model::{
    AllocId, AllocReport, Job, JobId, JobType, MountOptions, Namespace, Node, NodeId, PluginId,
    PluginInstance, RestartPolicy, Task, TaskEnvironment, TaskGroup, Term, VolumeAlias,
};
use nomad_csi_ports::{
    AssignedAlloc, AssignedAllocs, ClusterMemory, ClusterMemoryError, ClusterPosition,
    ControlPlane, ControlPlaneError, LostMount, MountDelay, MountEvent, MountObserver,
    MountRefused, NodePlane, NodeSecret, NotLeader, PluginObserver, Registration,
    RegistrationRefused, ReportRefused,
};
use nomad_csi_testing::{CountingIds, FakeControlPlane};

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// A text that must not be shown.
pub(super) const CANARY: &str = "hunter2";

/// Waits for what must happen, with a limit.
pub(super) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("it did not happen: {what}"))
}

pub(super) fn at(cluster: &str, revision: u64, index: u64) -> ClusterPosition {
    let term = Term { epoch: 1, revision };
    let leader = format!("leader-{revision}");
    ClusterPosition { cluster_id: cluster.to_owned(), term, index, leader }
}

/// An allocation whose job has secrets.
pub(super) fn assigned(id: &str) -> AssignedAlloc {
    let restart = RestartPolicy::of_type(JobType::Service);
    let mut task = Task::new("web", "exec", restart);
    task.environment = TaskEnvironment::from_iter([("PASSWORD", CANARY)]);
    let mut group = TaskGroup::new("g", JobType::Service);
    let kind = nomad_csi_model::JobVolumeKind::Csi {
        access_mode: None,
        attachment_mode: None,
        mount_options: Some(MountOptions {
            fs_type: "ext4".to_owned(),
            mount_flags: vec![format!("password={CANARY}")],
        }),
    };
    let volume = nomad_csi_model::JobVolume {
        source: "db".to_owned(),
        read_only: false,
        per_alloc: false,
        sticky: false,
        kind,
    };
    group.volumes.insert("data".into(), volume);
    group.tasks = vec![task];
    let mut job = Job::new(Namespace::default(), JobId::new("shop"));
    job.groups = vec![group];
    AssignedAlloc {
        id: id.into(),
        job: Arc::new(job),
        group: "g".to_owned(),
        index: 3,
        wants_stop: false,
        cut_off: ["data".into()].into(),
        report: None,
    }
}

/// What a server records of a cluster.
pub(super) struct TestPlane {
    pub(super) position: Mutex<Result<ClusterPosition, NotLeader>>,
    pub(super) control: Mutex<HashMap<NodeId, Arc<FakeControlPlane>>>,
    secrets: Mutex<HashMap<NodeId, [u8; 32]>>,
    pub(super) registrations: watch::Sender<Vec<(NodeId, String)>>,
    pub(super) plugins: watch::Sender<Vec<String>>,
    pub(super) events: watch::Sender<Vec<(NodeId, MountEvent)>>,
    pub(super) gate: Gate,
}

/// Stops calls that arrive, while it is closed. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Gate {
    is_closed: watch::Sender<bool>,
    arrived: watch::Sender<u64>,
}

impl Gate {
    /// Stops every call from now on.
    pub(super) fn close(&self) {
        self.is_closed.send_replace(true);
    }

    /// Lets all calls pass.
    pub(super) fn open(&self) {
        self.is_closed.send_replace(false);
    }

    async fn pass(&self) {
        if *self.is_closed.borrow() {
            self.arrived.send_modify(|count| *count += 1);
        }
        self.is_closed.subscribe().wait_for(|is_closed| !is_closed).await.unwrap();
    }

    /// Waits until this many calls have been stopped.
    pub(super) async fn wait_for_arrivals(&self, number: u64) {
        self.arrived.subscribe().wait_for(|count| *count >= number).await.unwrap();
    }

    /// Returns how many calls have been stopped.
    pub(super) fn arrivals(&self) -> u64 {
        *self.arrived.borrow()
    }
}

/// A server that stops calls at a gate.
struct Gated {
    gate: Gate,
    control: Arc<FakeControlPlane>,
}

#[async_trait]
impl ControlPlane for Gated {
    async fn assigned(&self, after: Option<u64>) -> Result<AssignedAllocs, ControlPlaneError> {
        self.gate.pass().await;
        self.control.assigned(after).await
    }

    async fn mount(&self, alloc: &AllocId, alias: &VolumeAlias) -> Result<PathBuf, MountRefused> {
        self.gate.pass().await;
        self.control.mount(alloc, alias).await
    }

    async fn wait_for_mount_delay(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
        known: Option<&MountDelay>,
    ) -> Result<MountDelay, ControlPlaneError> {
        self.gate.pass().await;
        self.control.wait_for_mount_delay(alloc, alias, known).await
    }

    async fn wait_for_claim_change(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        self.gate.pass().await;
        self.control.wait_for_claim_change(alloc, alias).await
    }

    async fn note_lost(&self, lost: &LostMount, reason: &str) -> Result<(), ControlPlaneError> {
        self.gate.pass().await;
        self.control.note_lost(lost, reason).await
    }

    async fn note_cut_off(
        &self,
        alloc: &AllocId,
        alias: &VolumeAlias,
    ) -> Result<(), ControlPlaneError> {
        self.gate.pass().await;
        self.control.note_cut_off(alloc, alias).await
    }

    async fn report(&self, alloc: &AllocId, report: AllocReport) -> Result<(), ControlPlaneError> {
        self.gate.pass().await;
        self.control.report(alloc, report).await
    }
}

impl TestPlane {
    pub(super) fn new(position: ClusterPosition) -> Arc<Self> {
        Arc::new(Self {
            position: Mutex::new(Ok(position)),
            control: Mutex::default(),
            secrets: Mutex::default(),
            registrations: watch::Sender::default(),
            plugins: watch::Sender::default(),
            events: watch::Sender::default(),
            gate: Gate::default(),
        })
    }

    fn recorder(&self, node: &NodeId) -> Recorder {
        Recorder {
            gate: self.gate.clone(),
            node: node.clone(),
            plugins: self.plugins.clone(),
            events: self.events.clone(),
        }
    }

    /// Returns the server as a node sees it.
    pub(super) fn control_of(&self, node: &str) -> Arc<FakeControlPlane> {
        self.control.lock().entry(node.into()).or_default().clone()
    }
}

#[async_trait]
impl NodePlane for TestPlane {
    async fn register(
        &self,
        registration: Registration,
    ) -> Result<ClusterPosition, RegistrationRefused> {
        self.gate.pass().await;
        let position = self.position()?;
        let (node, secret) = (registration.node.id, registration.secret);
        let mut secrets = self.secrets.lock();
        if secrets.entry(node.clone()).or_insert(*secret.expose()) != secret.expose() {
            return Err(RegistrationRefused::WrongSecret);
        }
        drop(secrets);
        if let Some(known) = registration.known
            && known.cluster_id != position.cluster_id
        {
            let (node, server) = (known.cluster_id, position.cluster_id);
            return Err(RegistrationRefused::OtherCluster { node, server });
        }
        let session = registration.session.as_str().to_owned();
        self.registrations.send_modify(|all| all.push((node, session)));
        Ok(position)
    }

    fn position(&self) -> Result<ClusterPosition, NotLeader> {
        self.position.lock().clone()
    }

    fn of(&self, node: &NodeId) -> Arc<dyn ControlPlane> {
        Arc::new(Gated { gate: self.gate.clone(), control: self.control_of(node.as_str()) })
    }

    fn plugins_of(&self, node: &NodeId) -> Arc<dyn PluginObserver> {
        Arc::new(self.recorder(node))
    }

    fn mounts_of(&self, node: &NodeId) -> Arc<dyn MountObserver> {
        Arc::new(self.recorder(node))
    }
}

struct Recorder {
    gate: Gate,
    node: NodeId,
    plugins: watch::Sender<Vec<String>>,
    events: watch::Sender<Vec<(NodeId, MountEvent)>>,
}

#[async_trait]
impl PluginObserver for Recorder {
    async fn changed(
        &self,
        plugin: &PluginId,
        node: &NodeId,
        instance: PluginInstance,
    ) -> Result<(), ReportRefused> {
        self.gate.pass().await;
        let text = format!("{}: {plugin} on {node}: {instance:?}", self.node);
        self.plugins.send_modify(|all| all.push(text));
        Ok(())
    }

    async fn gone(&self, plugin: &PluginId, alloc: &AllocId) -> Result<(), ReportRefused> {
        self.gate.pass().await;
        if alloc.as_str() == "foreign" {
            return Err(ReportRefused { reason: "it is of another node".to_owned() });
        }
        self.plugins.send_modify(|all| all.push(format!("{}: {plugin} {alloc} gone", self.node)));
        Ok(())
    }
}

impl MountObserver for Recorder {
    fn observed(&self, event: MountEvent) {
        self.events.send_modify(|all| all.push((self.node.clone(), event)));
    }
}

/// A server that runs.
pub(super) struct TestServer {
    pub(super) address: SocketAddr,
    pub(super) nodes: Arc<ConnectedNodes>,
    stop: CancellationToken,
    served: JoinHandle<()>,
}

impl TestServer {
    pub(super) async fn start(plane: &Arc<TestPlane>, tls: ClusterTls, address: &str) -> Self {
        let nodes = Arc::new(ConnectedNodes::default());
        let (_, tls) = watch::channel(tls);
        let address = address.parse().unwrap();
        let listener = NodeListener::bind(address, tls).await.unwrap();
        let address = listener.address().unwrap();
        let service = ControlPlaneService::new(plane.clone(), nodes.clone());
        let stop = CancellationToken::new();
        let services = LeaderServices {
            nodes: nodes.clone(),
            calls: service.into_routes(),
            requests: Routes::default(),
            stop_requests: stop.clone(),
            requests_ended: CancellationToken::new(),
        };
        let stopped = stop.clone();
        let served = tokio::spawn(async move { listener.serve(services, stopped).await });
        Self { address, nodes, stop, served }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        soon("the server stops", self.served).await.unwrap();
    }

    /// Waits until these nodes are connected.
    pub(super) async fn wait_for_nodes(&self, expected: &[&str]) {
        let expected: Vec<NodeId> = expected.iter().map(|node| NodeId::new(*node)).collect();
        let mut changes = self.nodes.changes();
        let what = format!("nodes {expected:?} are connected");
        soon(&what, async {
            while self.nodes.nodes() != expected {
                changes.changed().await.unwrap();
            }
        })
        .await;
    }
}

/// A memory of a cluster without a file, which cannot be written while the second field is true.
#[derive(Default)]
pub(super) struct TestMemory(pub(super) Mutex<Option<ClusterPosition>>, pub(super) AtomicBool);

impl ClusterMemory for TestMemory {
    fn load(&self) -> Result<Option<ClusterPosition>, ClusterMemoryError> {
        Ok(self.0.lock().clone())
    }

    fn store(&self, position: &ClusterPosition) -> Result<(), ClusterMemoryError> {
        if self.1.load(Ordering::SeqCst) {
            return Err(ClusterMemoryError { reason: "the disk of the node is full".to_owned() });
        }
        *self.0.lock() = Some(position.clone());
        Ok(())
    }
}

/// Collects the warnings of a thread.
#[derive(Clone, Default)]
pub(super) struct Warnings(pub(super) watch::Sender<Vec<String>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            write!(text, "{field}={value:?} ").unwrap();
        });
        self.0.send_modify(|all| all.push(text));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// The certificates of a test.
pub(super) struct Certificates {
    pub(super) authority: Authority,
    directory: tempfile::TempDir,
}

impl Certificates {
    pub(super) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { authority: samples::authority(directory.path()), directory }
    }

    pub(super) fn tls(&self, role: Role, name: &str) -> ClusterTls {
        for old in [format!("{name}.pem"), format!("{name}-key.pem")] {
            std::fs::remove_file(self.directory.path().join(old)).ok();
        }
        samples::tls(&self.authority, role, name)
    }
}

pub(super) fn profile(node: &str, secret: u8, session: &str) -> NodeProfile {
    NodeProfile {
        node: Node::new(node.into(), "alpha", "dc1"),
        secret: NodeSecret::new([secret; 32]),
        session: session.into(),
        boot_id: "boot".to_owned(),
        version: "0.1.0".to_owned(),
        features: vec![],
    }
}

/// A node that runs.
pub(super) struct TestNode {
    pub(super) remote: Arc<RemoteControlPlane>,
    pub(super) memory: Arc<TestMemory>,
    stop: CancellationToken,
    running: Vec<JoinHandle<()>>,
}

impl TestNode {
    pub(super) async fn start(
        profile: NodeProfile,
        tls: ClusterTls,
        servers: &[SocketAddr],
        memory: Option<ClusterPosition>,
    ) -> Self {
        let memory = Arc::new(TestMemory(Mutex::new(memory), AtomicBool::new(false)));
        let ids = Arc::new(CountingIds::default());
        let opened = RemoteControlPlane::open(profile, memory.clone(), ids.clone()).await;
        let remote = Arc::new(opened.unwrap());
        let stop = CancellationToken::new();
        let servers = servers.iter().map(ToString::to_string).collect();
        let (_, tls) = watch::channel(tls);
        let dialer = Dialer::new(servers, tls, remote.clone(), Routes::default(), ids);
        let (followed, until) = (remote.clone(), stop.clone());
        let running = vec![
            tokio::spawn(dialer.run(stop.clone())),
            tokio::spawn(async move { followed.run(until).await }),
        ];
        Self { remote, memory, stop, running }
    }

    pub(super) async fn stop(self) {
        self.stop.cancel();
        for running in self.running {
            soon("the node stops", running).await.unwrap();
        }
    }
}

/// One server and one node, connected.
pub(super) struct Bed {
    pub(super) plane: Arc<TestPlane>,
    pub(super) certificates: Certificates,
    pub(super) server: TestServer,
    pub(super) node: TestNode,
}

impl Bed {
    pub(super) async fn new() -> Self {
        let certificates = Certificates::new();
        let plane = TestPlane::new(at("c1", 5, 100));
        let tls = certificates.tls(Role::Server, "s1");
        let server = TestServer::start(&plane, tls, "127.0.0.1:0").await;
        let tls = certificates.tls(Role::Node, "n1");
        let node = TestNode::start(profile("n1", 1, "run-1"), tls, &[server.address], None).await;
        server.wait_for_nodes(&["n1"]).await;
        Self { plane, certificates, server, node }
    }
}
