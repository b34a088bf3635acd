//! The server half of the agent over fakes, for tests: one node, one plugin, all in memory.
//!
//! [`FakeAgent`] owns what outlives the agent: the journal, the plugin, the clock and the IDs.
//! [`FakeAgent::restart`] ends the agent as `kill -9` does, and starts it again on them.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::DropGuard;

use super::hosts::FakeHosts;
use super::journal::MemoryJournal;
use super::lease::FakeLease;
use super::sealer::FakeSealer;
use crate::cell::{CellOptions, Expected, StateCell, StateLimits};
use crate::journal::JournalError;
use crate::plugin_call_queue::PluginConcurrency;
use crate::plugin_call_queues::PluginCallQueues;
use crate::ports::ServerPorts;
use crate::services::{AgentInfo, Services};
use crate::volumes::{VolumeLimits, VolumeService};
use nomad_csi_claims::state::{Event, EventKind, NamespaceEvent, State};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Capability, ControllerInfo, ExternalNodeId, Health,
    HostSession, MountConfig, Namespace, NamespacedId, Node, NodeId, NodeInfo, PluginId,
    PluginInstance, Term, VolumeId, VolumeRequest,
};
use nomad_csi_ports::{Clock as _, HostDirectory, NodeHost, PluginConnection};
use nomad_csi_testing::{
    CountingIds, FakeBackend, FakeClock, FakeDirectory, FakePlugin, FakeStepHost, NoCallObserver,
    PluginSettings,
};

/// The agent with its fakes.
pub struct FakeAgent {
    /// The plugin.
    pub backend: Arc<FakeBackend>,
    /// The agent's journal.
    pub journal: MemoryJournal,
    /// Its clock.
    pub clock: FakeClock,
    /// Its IDs.
    pub ids: CountingIds,
    /// Its key.
    pub sealer: FakeSealer,
    /// Its leadership.
    pub lease: FakeLease,
    /// Connections to plugins.
    pub directory: Arc<FakeDirectory>,
    /// The nodes.
    pub hosts: Arc<FakeHosts>,
    /// The state.
    pub cell: StateCell,
    /// Volume operations.
    pub volumes: VolumeService,
    /// The services behind the HTTP API.
    pub services: Services,
    limits: VolumeLimits,
    /// Stops background tasks with the agent.
    _end: DropGuard,
}

impl FakeAgent {
    /// The plugin's ID.
    pub const PLUGIN: &'static str = "fake";
    /// The node's ID.
    pub const NODE: &'static str = "11111111-2222-4333-8444-555555555555";
    /// The ID of the second node, which [`FakeAgent::add_node`] adds.
    pub const SECOND_NODE: &'static str = "22222222-2222-4333-8444-555555555555";
    /// The ID of the allocation that runs the plugin.
    pub const ALLOC: &'static str = "99999999-2222-4333-8444-555555555555";

    /// The run of the process of every node.
    pub const SESSION: &'static str = "session";
    /// The leadership of the server.
    pub const TERM: Term = Term { epoch: 0, revision: 2 };

    /// Starts an agent for the first time, with a healthy plugin.
    ///
    /// # Errors
    /// If the journal has an injected fault.
    pub async fn start(settings: PluginSettings) -> Result<Self, JournalError> {
        let backend = FakeBackend::new(settings);
        let (journal, clock, ids) = Default::default();
        Self::on(backend, journal, clock, ids, VolumeLimits::default()).await
    }

    /// Ends the agent like a crash, and starts it again with other limits.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn restart(self, limits: VolumeLimits) -> Result<Self, JournalError> {
        self.services.drain(Duration::ZERO).await;
        let Self { backend, journal, clock, ids, .. } = self;
        Self::on(backend, journal, clock, ids, limits).await
    }

    /// Ends the agent like a crash, and starts it again with other limits of the state.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn restart_within(self, limits: StateLimits) -> Result<Self, JournalError> {
        self.services.drain(Duration::ZERO).await;
        let options = CellOptions { limits, ..CellOptions::default() };
        let cell = StateCell::open(Arc::new(self.journal.clone()), options).await?;
        let Self { backend, journal, clock, ids, limits, .. } = self;
        Self::with_cell(cell, backend, (journal, clock, ids), limits).await
    }

    /// Starts an agent on the journal and plugin of another one.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn on(
        backend: Arc<FakeBackend>,
        journal: MemoryJournal,
        clock: FakeClock,
        ids: CountingIds,
        limits: VolumeLimits,
    ) -> Result<Self, JournalError> {
        let cell = StateCell::open(Arc::new(journal.clone()), CellOptions::default()).await?;
        Self::with_cell(cell, backend, (journal, clock, ids), limits).await
    }

    async fn with_cell(
        cell: StateCell,
        backend: Arc<FakeBackend>,
        (journal, clock, ids): (MemoryJournal, FakeClock, CountingIds),
        limits: VolumeLimits,
    ) -> Result<Self, JournalError> {
        let directory = Arc::new(FakeDirectory::default());
        let controllers = Self::host(&backend, None);
        let connection = controllers.serialized_plugin().connection();
        directory.insert(Self::PLUGIN.into(), Self::ALLOC.into(), connection);
        let (sealer, lease) = (FakeSealer::default(), FakeLease::default());
        let hosts = Self::nodes(&backend, controllers, directory.clone());
        let ports = ServerPorts {
            cell: cell.clone(),
            sealer: Arc::new(sealer.clone()),
            clock: Arc::new(clock.clone()),
            ids: Arc::new(ids.clone()),
            term: Self::TERM,
            lease: Arc::new(lease.clone()),
            calls: Self::plugin_call_queues(&cell, hosts.clone()),
            hosts: hosts.clone(),
        };
        let services = Services::new(ports, limits, Self::agent_info());
        let agent = Self {
            _end: services.stopping.clone().drop_guard(),
            volumes: services.volumes.clone(),
            services,
            backend,
            journal,
            clock,
            ids,
            sealer,
            lease,
            directory,
            hosts,
            cell,
            limits,
        };
        agent.record_start().await;
        Ok(agent)
    }

    /// Queues of the usual concurrency, without metrics.
    pub fn plugin_call_queues(cell: &StateCell, hosts: Arc<dyn HostDirectory>) -> PluginCallQueues {
        let (concurrency, observer) = (PluginConcurrency::DEFAULT, Arc::new(NoCallObserver));
        PluginCallQueues::new(concurrency, 1024, observer, cell.clone(), hosts)
    }

    /// Returns what the agent reports about itself.
    pub fn agent_info() -> AgentInfo {
        AgentInfo {
            version: "1.2.3".into(),
            name: "here".into(),
            region: AgentInfo::REGION.into(),
            datacenter: AgentInfo::DATACENTER.into(),
            address: "127.0.0.1:4646".into(),
            node_id: Self::NODE.into(),
        }
    }

    /// The nodes, with these controllers and plugins.
    pub fn nodes(
        backend: &Arc<FakeBackend>,
        controllers: FakeStepHost,
        plugins: Arc<FakeDirectory>,
    ) -> Arc<FakeHosts> {
        let node = |id: &str, node| -> (NodeId, Arc<dyn NodeHost>) {
            (NodeId::new(id), Arc::new(Self::host(backend, node)))
        };
        let nodes =
            [node(Self::NODE, None), node(Self::SECOND_NODE, Some(Self::second_external_node()))];
        Arc::new(FakeHosts::new(nodes, Arc::new(controllers), plugins))
    }

    /// The host of a node, or of the controllers.
    pub fn host(backend: &Arc<FakeBackend>, node: Option<ExternalNodeId>) -> FakeStepHost {
        FakeStepHost::new(backend.clone(), Self::PLUGIN.into(), node, Self::SESSION)
    }

    /// The limits that it was started with.
    pub fn limits(&self) -> VolumeLimits {
        self.limits
    }

    /// Records the events of a start and of a first fingerprint.
    pub async fn record_start(&self) {
        let node = Self::node(Self::NODE, "here");
        let origin = "00000000-0000-4000-8000-00000000000a".to_owned();
        self.record_event(EventKind::AgentStarted { origin }).await;
        self.record_event(EventKind::NodeRegistered { node }).await;
        self.connect_node(Self::NODE).await;
        self.observe(true).await;
    }

    /// Records the run of the process of a node.
    async fn connect_node(&self, id: &str) {
        self.record_event(EventKind::NodeConnected {
            node: NodeId::new(id),
            session: HostSession::new(Self::SESSION),
            secret_hash: None,
        })
        .await;
    }

    /// The provider's ID of the second node.
    pub fn second_external_node() -> ExternalNodeId {
        ExternalNodeId::new("fake-node-2")
    }

    /// Creates namespaces.
    pub async fn add_namespaces(&self, names: &[&str]) {
        for name in names {
            let name = Namespace::new(*name);
            let event =
                NamespaceEvent::Written { description: String::new(), meta: Default::default() };
            self.record_event(EventKind::Namespace { name, event }).await;
        }
    }

    /// Adds a second node, on which the plugin runs too.
    pub async fn add_node(&self) {
        let alloc = "88888888-2222-4333-8444-555555555555";
        self.add_node_as(Self::SECOND_NODE, Self::second_external_node(), alloc).await;
    }

    /// Adds a node with this ID and the provider's ID, on which `alloc` runs the plugin.
    pub async fn add_node_as(&self, id: &str, external: ExternalNodeId, alloc: &str) {
        self.backend.add_node(external.clone(), None);
        let node = Self::node(id, "there");
        self.record_event(EventKind::NodeRegistered { node }).await;
        self.connect_node(id).await;
        let host = Self::host(&self.backend, Some(external.clone()));
        self.hosts.add(id.into(), Arc::new(host));
        let mut settings = self.backend.settings();
        settings.description.external_node_id = external.clone();
        settings.controller = None;
        let plugin = FakePlugin::on_node(self.backend.clone(), external);
        self.directory.insert(Self::PLUGIN.into(), alloc.into(), plugin.connection());
        self.observe_on(Self::PLUGIN, alloc, settings, true, id).await;
    }

    /// Adds another healthy plugin to the node.
    pub async fn add_plugin(
        &self,
        id: &str,
        settings: PluginSettings,
        connection: PluginConnection,
    ) {
        self.directory.insert(id.into(), Self::ALLOC.into(), connection);
        self.observe_as(id, Self::ALLOC, settings, true).await;
    }

    /// Adds another healthy allocation of the plugin to the node.
    pub async fn add_alloc(&self, alloc: &str, connection: PluginConnection) {
        self.directory.insert(Self::PLUGIN.into(), alloc.into(), connection);
        self.observe_as(Self::PLUGIN, alloc, self.backend.settings(), true).await;
    }

    /// Records a fingerprint of the plugin.
    pub async fn observe(&self, healthy: bool) {
        self.observe_as(Self::PLUGIN, Self::ALLOC, self.backend.settings(), healthy).await;
    }

    /// Records a fingerprint of another process of the plugin.
    pub async fn observe_process(&self, process: &str) {
        let mut instance = self.instance(Self::ALLOC, self.backend.settings(), true);
        instance.process = Some(process.to_owned());
        self.record_event(EventKind::PluginAllocObserved {
            plugin: PluginId::new(Self::PLUGIN),
            node: NodeId::new(Self::NODE),
            instance: Box::new(instance),
        })
        .await;
    }

    /// Records a fingerprint of another allocation of the plugin.
    pub async fn observe_alloc(&self, alloc: &str, healthy: bool) {
        self.observe_as(Self::PLUGIN, alloc, self.backend.settings(), healthy).await;
    }

    /// Records the end of an allocation of the plugin.
    pub async fn end_alloc(&self, alloc: &str) {
        let plugin = PluginId::new(Self::PLUGIN);
        let alloc = AllocId::new(alloc);
        self.record_event(EventKind::PluginAllocGone { plugin, alloc }).await;
    }

    /// Records a fingerprint of another plugin on the node.
    pub async fn observe_plugin(&self, id: &str, healthy: bool) {
        self.observe_as(id, Self::ALLOC, self.backend.settings(), healthy).await;
    }

    async fn observe_as(&self, id: &str, alloc: &str, settings: PluginSettings, healthy: bool) {
        self.observe_on(id, alloc, settings, healthy, Self::NODE).await;
    }

    async fn observe_on(
        &self,
        id: &str,
        alloc: &str,
        settings: PluginSettings,
        healthy: bool,
        node: &str,
    ) {
        let instance = self.instance(alloc, settings, healthy);
        self.record_event(EventKind::PluginAllocObserved {
            plugin: PluginId::new(id),
            node: NodeId::new(node),
            instance: Box::new(instance),
        })
        .await;
    }

    fn instance(&self, alloc: &str, settings: PluginSettings, healthy: bool) -> PluginInstance {
        PluginInstance {
            alloc_id: AllocId::new(alloc),
            health: Health {
                healthy,
                description: if healthy { "healthy" } else { "unhealthy" }.into(),
            },
            updated_at: self.clock.now(),
            provider: settings.info.name,
            provider_version: settings.info.vendor_version,
            process: Some("run 1".to_owned()),
            requires_controller: settings.plugin.controller_service,
            requires_topologies: settings.plugin.volume_accessibility_constraints,
            controller: settings.controller.map(|capabilities| ControllerInfo { capabilities }),
            node: settings.node.map(|capabilities| NodeInfo {
                storage: vec![],
                capabilities,
                external_node_id: settings.description.external_node_id,
                max_volumes: settings.description.max_volumes,
                accessible_topology: settings.description.accessible_topology,
            }),
        }
    }

    /// Records an event of any kind.
    pub async fn record_event(&self, kind: EventKind) {
        let event = Event::new(self.clock.now(), kind);
        if let Err(error) = self.cell.commit(Expected::Any, event).await {
            tracing::error!(error = %error, "the fake agent could not record an event");
        }
    }

    fn node(id: &str, name: &str) -> Node {
        Node {
            drivers: [("exec".to_owned(), MountConfig::All)].into(),
            ..Node::new(NodeId::new(id), name, "dc1")
        }
    }

    /// A copy of the state.
    pub fn state(&self) -> State {
        self.cell.read(State::clone)
    }

    /// A valid request to create or register a volume.
    pub fn request(id: &str) -> VolumeRequest {
        let capability = Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        };
        VolumeRequest {
            name: Some(format!("{id}-name")),
            ..VolumeRequest::new(Self::key(id), PluginId::new(Self::PLUGIN), vec![capability])
        }
    }

    /// A volume in the default namespace.
    pub fn key(id: &str) -> NamespacedId {
        NamespacedId::new(Namespace::default(), VolumeId::new(id))
    }
}
