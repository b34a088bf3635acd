//! The server half over fakes, for tests: one node, one plugin, everything in memory.
//!
//! What outlives the agent (the journal, the plugin with its world, clock and IDs) is in the value;
//! [`FakeAgent::restart`] ends the agent as `kill -9` does and starts it again on what is left.

use std::sync::Arc;

use tokio_util::sync::DropGuard;

use super::cell::{CellOptions, Expected, StateCell};
use super::services::{About, Services};
use super::volumes::{VolumeLimits, VolumePorts, Volumes};
use crate::model::{
    AccessMode, AllocId, AttachmentMode, Capability, ControllerInfo, Health, Namespace,
    NamespacedId, Node, NodeId, NodeInfo, NodeStatus, PluginId, PluginInstance, VolumeId,
    VolumeRequest,
};
use crate::ports::fake::{
    CountingIds, FakeBackend, FakeClock, FakeDirectory, FakePlugin, FakeSealer, MemoryJournal,
    Settings,
};
use crate::ports::{Clock as _, JournalError, PluginConnection};
use crate::state::{Event, EventKind, State};

/// The agent and its world.
pub struct FakeAgent {
    /// The plugin.
    pub backend: Arc<FakeBackend>,
    /// What the agent has written.
    pub journal: MemoryJournal,
    /// Its clock.
    pub clock: FakeClock,
    /// Its IDs.
    pub ids: CountingIds,
    /// Its key.
    pub sealer: FakeSealer,
    /// Where it finds the plugin.
    pub directory: Arc<FakeDirectory>,
    /// What it remembers.
    pub cell: StateCell,
    /// What it does with volumes.
    pub volumes: Volumes,
    /// All that requests are answered from.
    pub services: Services,
    limits: VolumeLimits,
    /// Ends what works unasked, with the agent.
    _end: DropGuard,
}

impl FakeAgent {
    /// The plugin's ID.
    pub const PLUGIN: &'static str = "fake";
    /// The node's ID.
    pub const NODE: &'static str = "11111111-2222-4333-8444-555555555555";

    /// An agent that has just started for the first time, with a plugin that is well.
    ///
    /// # Errors
    /// Never, as long as the journal in memory has no fault to play.
    pub async fn start(settings: Settings) -> Result<Self, JournalError> {
        let backend = FakeBackend::new(settings);
        let (journal, clock, ids) = Default::default();
        Self::on(backend, journal, clock, ids, VolumeLimits::default()).await
    }

    /// The agent's end at this moment, and its start on what is left, with other limits.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn restart(self, limits: VolumeLimits) -> Result<Self, JournalError> {
        let Self {
            backend,
            journal,
            clock,
            ids,
            ..
        } = self;
        Self::on(backend, journal, clock, ids, limits).await
    }

    /// An agent that starts on what another one left.
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
        let directory = Arc::new(FakeDirectory::default());
        let connection = FakePlugin::over(backend.clone()).connection();
        directory.insert(Self::PLUGIN.into(), Self::NODE.into(), connection);
        let sealer = FakeSealer::default();
        let ports = VolumePorts {
            cell: cell.clone(),
            directory: directory.clone(),
            sealer: Arc::new(sealer.clone()),
            clock: Arc::new(clock.clone()),
            ids: Arc::new(ids.clone()),
        };
        let services = Services::new(ports, limits, Self::about());
        let agent = Self {
            _end: services.stopping.clone().drop_guard(),
            volumes: services.volumes.clone(),
            services,
            backend,
            journal,
            clock,
            ids,
            sealer,
            directory,
            cell,
            limits,
        };
        agent.report().await;
        Ok(agent)
    }

    /// What it says of itself.
    pub fn about() -> About {
        About {
            version: "1.2.3".into(),
            name: "here".into(),
            region: About::REGION.into(),
            datacenter: About::DATACENTER.into(),
            address: "127.0.0.1:4646".into(),
            node_id: Self::NODE.into(),
        }
    }

    /// The limits it was started with.
    pub fn limits(&self) -> VolumeLimits {
        self.limits
    }

    /// Records what a start and a fingerprint of the plugin would.
    pub async fn report(&self) {
        let node = Node {
            id: NodeId::new(Self::NODE),
            name: "here".into(),
            datacenter: "dc1".into(),
            status: NodeStatus::Ready,
        };
        let origin = "00000000-0000-4000-8000-00000000000a".to_owned();
        self.happened(EventKind::AgentStarted { origin }).await;
        self.happened(EventKind::NodeRegistered { node }).await;
        self.observe(true).await;
    }

    /// Puts another plugin on its node, well, behind that connection.
    pub async fn add_plugin(&self, id: &str, settings: Settings, connection: PluginConnection) {
        self.directory
            .insert(id.into(), Self::NODE.into(), connection);
        self.observe_as(id, settings, true).await;
    }

    /// Records the plugin as it says it is, well or unwell.
    pub async fn observe(&self, healthy: bool) {
        self.observe_as(Self::PLUGIN, self.backend.settings(), healthy)
            .await;
    }

    async fn observe_as(&self, id: &str, settings: Settings, healthy: bool) {
        let instance = PluginInstance {
            alloc_id: AllocId::new("99999999-2222-4333-8444-555555555555"),
            health: Health {
                healthy,
                description: if healthy { "healthy" } else { "unhealthy" }.into(),
            },
            updated_at: self.clock.now(),
            provider: settings.info.name,
            provider_version: settings.info.vendor_version,
            requires_controller: settings.plugin.controller_service,
            requires_topologies: settings.plugin.volume_accessibility_constraints,
            controller: settings
                .controller
                .map(|capabilities| ControllerInfo { capabilities }),
            node: settings.node.map(|capabilities| NodeInfo {
                capabilities,
                external_node_id: settings.description.external_node_id,
                max_volumes: settings.description.max_volumes,
                accessible_topology: settings.description.accessible_topology,
            }),
        };
        self.happened(EventKind::PluginInstanceObserved {
            plugin: PluginId::new(id),
            node: NodeId::new(Self::NODE),
            instance: Box::new(instance),
        })
        .await;
    }

    async fn happened(&self, kind: EventKind) {
        let event = Event::new(self.clock.now(), kind);
        if let Err(error) = self.cell.commit(Expected::Any, event).await {
            tracing::error!(error = %error, "the fake agent could not record an event");
        }
    }

    /// What the agent remembers now.
    pub fn state(&self) -> State {
        self.cell.read(State::clone)
    }

    /// A request that can be created and registered.
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
