//! A host over the strict fake plugin, for tests: its call locks, its directories and its mount table.
//!
//! The plugin is on the node `i-42`, and sees the directory of its volumes under another name.
//! [`FakeHost::restart`] is the agent's next process on the same machine.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::controller_host::LocalControllerHost;
use super::process_run::ProcessRun;
use super::registry::{Registry, RunningInstance};
use super::volume_call_locks::VolumeCallLocks;
use super::volume_manager::{MountDirectories, VolumeManager};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ControllerCapabilities,
    MountOptions, NamespacedId, NodeCapabilities, PublishContext, RemoteVolume, Secrets, Term,
    Usage, VolumeAlias,
};
use nomad_csi_ports::{
    CallOrder, ControllerHost as _, ControllerPublishRequest, ControllerUnpublishRequest,
    HostError, MountEvent, MountObserver, NodeExpandRequest, NodeHost as _, PublishRequest, Rpc,
    StageRequest, UnpublishRequest, UnstageRequest,
};
use nomad_csi_testing::{FakeBackend, FakeMachine, FakeMounter, FakePlugin, PluginSettings};

pub(super) const ALLOC: &str = "alloc-1";
const PLUGIN: &str = "fake";
const TASK: &str = "plugin-task";
const NODE: &str = "i-42";
/// The path under which the plugin sees its directory.
const IN_PLUGIN: &str = "/local/csi";

/// The steps of a claim in the order in which they are taken.
pub(super) const STEPS: [Rpc; 7] = [
    Rpc::ControllerPublishVolume,
    Rpc::NodeStageVolume,
    Rpc::NodePublishVolume,
    Rpc::NodeExpandVolume,
    Rpc::NodeUnpublishVolume,
    Rpc::NodeUnstageVolume,
    Rpc::ControllerUnpublishVolume,
];

/// Records events.
#[derive(Default)]
pub(super) struct FakeEvents(Mutex<Vec<MountEvent>>);

impl FakeEvents {
    pub(super) fn take(&self) -> Vec<MountEvent> {
        std::mem::take(&mut self.0.lock())
    }
}

impl MountObserver for FakeEvents {
    fn observed(&self, event: MountEvent) {
        self.0.lock().push(event);
    }
}

pub(super) struct FakeHost {
    pub(super) backend: Arc<FakeBackend>,
    pub(super) mounter: FakeMounter,
    pub(super) registry: Arc<Registry>,
    pub(super) manager: VolumeManager,
    pub(super) controller: LocalControllerHost,
    pub(super) events: Arc<FakeEvents>,
    pub(super) directory: Arc<tempfile::TempDir>,
    session: &'static str,
    mode: AttachmentMode,
}

pub(super) fn settings() -> PluginSettings {
    PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            publish_unpublish_volume: true,
            expand_volume: true,
            ..ControllerCapabilities::default()
        }),
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            expand_volume: true,
            ..NodeCapabilities::default()
        }),
        secrets: Secrets::from_iter([("token", "hunter2")]),
        default_capacity: Bytes::new(1 << 30).unwrap(),
        ..PluginSettings::default()
    }
}

pub(super) fn volume() -> RemoteVolume {
    RemoteVolume { plugin_id: PLUGIN.into(), external_id: "vol/1".into() }
}

pub(super) fn name() -> NamespacedId {
    NamespacedId::new("default".into(), "db".into())
}

impl FakeHost {
    /// A host whose plugin has a volume and needs every step.
    pub(super) fn start() -> Self {
        Self::with(settings(), AttachmentMode::FileSystem)
    }

    pub(super) fn with(settings: PluginSettings, mode: AttachmentMode) -> Self {
        let backend = FakeBackend::new(settings);
        backend.add_volume("vol/1".into(), BTreeMap::new());
        // In memory, because every step syncs its files.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let directory = Arc::new(directory.unwrap());
        let host = Self::on(backend, FakeMounter::new(), directory, ("session-1", mode));
        host.connect_machine(true);
        host
    }

    fn on(
        backend: Arc<FakeBackend>,
        mounter: FakeMounter,
        directory: Arc<tempfile::TempDir>,
        (session, mode): (&'static str, AttachmentMode),
    ) -> Self {
        let registry = Arc::new(Registry::new(VolumeCallLocks::new(session.into())));
        let events = Arc::new(FakeEvents::default());
        let directories = MountDirectories { base: directory.path().to_owned() };
        let (mounts, observer) = (Arc::new(mounter.clone()), events.clone());
        let manager = VolumeManager::new(registry.clone(), mounts, observer, directories);
        let controller = LocalControllerHost::new(registry.clone());
        let host = Self {
            backend,
            mounter,
            registry,
            manager,
            controller,
            events,
            directory,
            session,
            mode,
        };
        host.register();
        host
    }

    /// Sets whether what the plugin mounts reaches this machine.
    pub(super) fn connect_machine(&self, is_connected: bool) {
        let shared = Some((IN_PLUGIN.into(), self.directory.path().join(PLUGIN)));
        let machine = FakeMachine { shared, ..FakeMachine::new(self.mounter.clone()) };
        self.backend.add_node(NODE.into(), is_connected.then_some(machine));
    }

    fn register(&self) {
        let settings = self.backend.settings();
        let plugin = FakePlugin::on_node(self.backend.clone(), NODE.into());
        let instance = RunningInstance {
            connection: plugin.connection(),
            controller: settings.controller,
            node: settings.node,
            run: ProcessRun::default(),
            volumes_in_plugin: Some(IN_PLUGIN.into()),
        };
        self.registry.register(&PLUGIN.into(), &TASK.into(), instance);
    }

    /// Ends the plugin's process and starts the next one.
    pub(super) async fn restart_plugin(&self) {
        self.backend.crash();
        if let Ok(instance) = self.registry.running(&PLUGIN.into(), &TASK.into()) {
            instance.run.end().await;
        }
        self.backend.restart();
        self.register();
    }

    /// The agent's next process, which has ended the plugin of the one before.
    pub(super) async fn restart(self, session: &'static str) -> Self {
        self.restart_plugin().await;
        let mode = (session, self.mode);
        Self::on(self.backend, self.mounter, self.directory, mode)
    }

    pub(super) fn order(&self, index: u64) -> CallOrder {
        CallOrder {
            term: Term::default(),
            number: index,
            session: self.session.into(),
            instance: TASK.into(),
        }
    }

    pub(super) fn usage(&self) -> Usage {
        Usage {
            capability: Capability {
                access_mode: AccessMode::MultiNodeMultiWriter,
                attachment_mode: self.mode,
            },
            mount_options: MountOptions::default(),
        }
    }

    /// The publish context that the server has recorded.
    fn context(&self) -> PublishContext {
        let attachments = self.backend.attachments().into_values();
        let mut contexts = attachments.map(|attachment| attachment.publish_context);
        contexts.next().unwrap_or_default()
    }

    fn attaches(&self) -> bool {
        let controller = self.backend.settings().controller;
        controller.is_some_and(|controller| controller.publish_unpublish_volume)
    }

    fn stages(&self) -> bool {
        let node = self.backend.settings().node;
        node.is_some_and(|node| node.stage_unstage_volume)
    }

    pub(super) fn attach_request(&self) -> ControllerPublishRequest {
        ControllerPublishRequest {
            volume: volume(),
            name: name(),
            node: NODE.into(),
            usage: self.usage(),
            read_only: false,
            volume_context: BTreeMap::new(),
            secrets: settings().secrets,
        }
    }

    pub(super) fn detach_request() -> ControllerUnpublishRequest {
        ControllerUnpublishRequest {
            volume: volume(),
            name: name(),
            node: NODE.into(),
            secrets: settings().secrets,
        }
    }

    pub(super) fn stage_request(&self) -> StageRequest {
        StageRequest {
            volume: volume(),
            name: name(),
            usage: self.usage(),
            attaches: self.attaches(),
            publish_context: self.context(),
            volume_context: BTreeMap::new(),
            secrets: settings().secrets,
        }
    }

    pub(super) fn publish_request(&self, alloc: &str) -> PublishRequest {
        PublishRequest {
            volume: volume(),
            name: name(),
            alloc: alloc.into(),
            alias: "data".into(),
            usage: self.usage(),
            attaches: self.attaches(),
            stages: self.stages(),
            read_only: false,
            publish_context: self.context(),
            volume_context: BTreeMap::new(),
            secrets: settings().secrets,
        }
    }

    pub(super) fn unpublish_request(alloc: &str) -> UnpublishRequest {
        UnpublishRequest {
            volume: volume(),
            name: name(),
            alloc: alloc.into(),
            alias: "data".into(),
        }
    }

    pub(super) fn unstage_request() -> UnstageRequest {
        UnstageRequest { volume: volume(), name: name() }
    }

    fn expand_request(&self) -> NodeExpandRequest {
        let min = Bytes::new(1 << 30).unwrap();
        let max = Bytes::ZERO;
        NodeExpandRequest {
            volume: volume(),
            name: name(),
            usage: self.usage(),
            capacity: CapacityRange { min, max },
            target: Some((AllocId::new(ALLOC), VolumeAlias::new("data"))),
            secrets: settings().secrets,
        }
    }

    /// Takes a step of one allocation.
    pub(super) async fn take(&self, step: Rpc, index: u64) -> Result<(), HostError> {
        let order = self.order(index);
        match step {
            Rpc::ControllerPublishVolume => {
                let context = self.controller.publish(order, self.attach_request()).await?;
                assert_eq!(context, self.context());
                Ok(())
            }
            Rpc::ControllerUnpublishVolume => {
                let request = Self::detach_request();
                self.controller.unpublish(order, request).await
            }
            Rpc::NodeStageVolume => self.manager.stage(order, self.stage_request()).await,
            Rpc::NodePublishVolume => {
                let request = self.publish_request(ALLOC);
                let path = self.manager.publish(order, request).await?;
                assert!(path.on_host().starts_with(self.directory.path()));
                Ok(())
            }
            Rpc::NodeExpandVolume => {
                let request = self.expand_request();
                self.manager.expand(order, request).await.map(drop)
            }
            Rpc::NodeUnpublishVolume => {
                let request = Self::unpublish_request(ALLOC);
                self.manager.unpublish(order, request).await
            }
            Rpc::NodeUnstageVolume => self.manager.unstage(order, Self::unstage_request()).await,
            other => panic!("{other} is no step"),
        }
    }

    /// Takes all steps before `step`.
    pub(super) async fn take_until(&self, step: Rpc) {
        for earlier in STEPS.into_iter().take_while(|earlier| *earlier != step) {
            self.take(earlier, 1).await.unwrap();
        }
    }

    /// Checks that nothing of the volume is left: at the plugin, in the mount table, in the files.
    pub(super) async fn check_nothing_left(&self, what: &str) {
        let backend = &self.backend;
        let used = (backend.attachments().len(), backend.stagings().len(), backend.targets().len());
        assert_eq!(used, (0, 0, 0), "{what}");
        assert_eq!(self.mounter.mounts(), vec![], "{what}");
        assert_eq!(self.manager.left_behind(Term::default()).await, Ok(vec![]), "{what}");
        let root = self.directory.path().join(PLUGIN);
        if let Ok(entries) = std::fs::read_dir(root) {
            let left: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            assert_eq!(left, Vec::<std::path::PathBuf>::new(), "{what}");
        }
    }
}
