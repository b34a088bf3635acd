//! The node's half of an agent: a supervisor with its process, the call locks, the volume manager and the
//! controller host.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId,
    MountOptions, NamespacedId, NodeId, PluginId, PluginInstance, PublishContext, RemoteVolume,
    Secrets, TargetPath, Term, Usage,
};
use nomad_csi_node::driver::RawExec;
use nomad_csi_node::mounts::LinuxMounter;
use nomad_csi_node::{
    LocalControllerHost, MountDirectories, PluginTask, Registry, Supervisor, SupervisorDeps,
    TaskCommand, TaskStatus, VolumeCallLocks, VolumeManager, wait_until_healthy,
};
use nomad_csi_ports::{
    CallOrder, ControllerHost as _, ControllerPublishRequest, ControllerUnpublishRequest,
    CreateVolume, HostError, MountEvent, MountObserver, NodeHost as _, PluginDirectory as _,
    PluginObserver, PublishRequest, RandomIds, ReportRefused, StageRequest, SystemClock,
    UnpublishRequest, UnstageRequest,
};
use nomad_csi_testing::NothingSent;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::wait::until_async;

pub(crate) const PLUGIN: &str = "hostpath";
pub(crate) const TASK: &str = "plugin-task";
const LONG: Duration = Duration::from_secs(60);

/// Keeps nothing: the tests look at the mounts.
pub(crate) struct NoObserver;

#[async_trait]
impl PluginObserver for NoObserver {
    async fn changed(
        &self,
        _: &PluginId,
        _: &NodeId,
        _: PluginInstance,
    ) -> Result<(), ReportRefused> {
        Ok(())
    }

    async fn gone(&self, _: &PluginId, _: &AllocId) -> Result<(), ReportRefused> {
        Ok(())
    }
}

#[derive(Default)]
pub(crate) struct Events(pub(crate) Mutex<Vec<MountEvent>>);

impl MountObserver for Events {
    fn observed(&self, event: MountEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// One run of an agent's node.
pub(crate) struct Host {
    directory: PathBuf,
    session: String,
    pub(crate) registry: Arc<Registry>,
    pub(crate) manager: Arc<VolumeManager>,
    pub(crate) controllers: LocalControllerHost,
    pub(crate) events: Arc<Events>,
    status: watch::Receiver<TaskStatus>,
    stop: CancellationToken,
    /// Dropping it kills the plugin, as the end of the agent does.
    supervision: JoinSet<()>,
    pub(crate) mode: AttachmentMode,
}

fn command(directory: &Path, flags: &[&str]) -> TaskCommand {
    let mut arguments = vec!["plugin".into(), "serve".into(), "--endpoint".into()];
    arguments.push(format!("unix://{}", directory.join("s/csi.sock").display()).into());
    arguments.push("--state-dir".into());
    arguments.push(directory.join("state").into());
    arguments.extend(["--exit-on-stdin-eof", "--node-id", "i-42", "--attach"].map(Into::into));
    arguments.extend(flags.iter().map(Into::into));
    let path = std::env::var_os("PATH").unwrap_or_default();
    TaskCommand {
        name: PLUGIN.to_owned(),
        program: env!("CARGO_BIN_EXE_nomad-csi").into(),
        arguments,
        environment: vec![("PATH".into(), path)],
        process_file: directory.join("plugin.process"),
        kill_timeout: Duration::from_secs(5),
    }
}

impl Host {
    pub(crate) async fn start(directory: &Path, session: &str, flags: &[&str]) -> Self {
        let registry = Arc::new(Registry::new(VolumeCallLocks::new(session.into())));
        let task = PluginTask {
            plugin: PLUGIN.into(),
            node: "here".into(),
            task: TASK.into(),
            socket: directory.join("s/csi.sock"),
            health_timeout: Some(LONG),
            recorded: None,
        };
        let deps = SupervisorDeps {
            driver: Arc::new(RawExec { command: command(directory, flags) }),
            connector: Arc::new(GrpcConnector::new()),
            sent: Arc::new(NothingSent),
            registry: registry.clone(),
            observer: Arc::new(NoObserver),
            clock: Arc::new(SystemClock),
            ids: Arc::new(RandomIds),
        };
        let supervisor = Supervisor::new(task, deps);
        let status = supervisor.status();
        let stop = CancellationToken::new();
        let mut supervision = JoinSet::new();
        supervision.spawn(supervisor.run(stop.clone()));
        wait_until_healthy(status.clone(), LONG).await.unwrap();
        let events = Arc::new(Events::default());
        let directories = MountDirectories { base: directory.join("mounts") };
        let mounter = Arc::new(LinuxMounter);
        let manager = VolumeManager::new(registry.clone(), mounter, events.clone(), directories);
        Self {
            directory: directory.to_owned(),
            session: session.to_owned(),
            controllers: LocalControllerHost::new(registry.clone()),
            manager: Arc::new(manager),
            registry,
            events,
            status,
            stop,
            supervision,
            mode: AttachmentMode::FileSystem,
        }
    }

    pub(crate) async fn stop(mut self) {
        self.registry.call_locks().drain().await;
        self.stop.cancel();
        while self.supervision.join_next().await.is_some() {}
    }

    /// The process of the plugin, from the file that the next agent would read.
    pub(crate) fn plugin_pid(&self) -> i32 {
        let text = std::fs::read_to_string(self.directory.join("plugin.process")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pid = record["pid"].as_i64().expect("the file names a process");
        i32::try_from(pid).unwrap()
    }

    pub(crate) fn kill_plugin(&self) {
        let pid = rustix::process::Pid::from_raw(self.plugin_pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Waits until another process than `pid` runs the plugin and is healthy.
    pub(crate) async fn wait_for_next_plugin(&self, pid: i32) {
        until_async("the next process of the plugin", async || {
            let current = self.plugin_pid();
            let is_healthy = *self.status.borrow() == TaskStatus::Healthy;
            let runs = self.registry.running(&PLUGIN.into(), &TASK.into()).is_ok();
            if current != pid && is_healthy && runs {
                Ok(())
            } else {
                Err(format!("{current} after {pid}, {:?}", *self.status.borrow()))
            }
        })
        .await;
    }

    pub(crate) fn order(&self, index: u64) -> CallOrder {
        CallOrder {
            term: Term::default(),
            number: index,
            session: self.session.as_str().into(),
            instance: TASK.into(),
        }
    }

    fn usage(&self) -> Usage {
        Usage {
            capability: Capability {
                access_mode: AccessMode::MultiNodeMultiWriter,
                attachment_mode: self.mode,
            },
            mount_options: MountOptions::default(),
        }
    }

    /// Creates a volume through the controller that the registry hands out.
    pub(crate) async fn create(&self, name: &str, bytes: u64) -> Volume {
        let found = self.registry.instance(&PLUGIN.into(), &TASK.into()).await;
        let request = CreateVolume {
            name: name.to_owned(),
            capacity: CapacityRange { min: Bytes::new(bytes).unwrap(), max: Bytes::ZERO },
            capabilities: vec![self.usage().capability],
            mount_options: MountOptions::default(),
            parameters: BTreeMap::new(),
            secrets: Secrets::default(),
            source: None,
            topology: None,
        };
        let created = found.unwrap().controller.create_volume(request).await;
        let created = created.unwrap();
        Volume {
            id: created.external_id,
            name: NamespacedId::new("default".into(), name.into()),
            context: created.context,
            publish_context: PublishContext::new(),
        }
    }

    pub(crate) async fn attach(&self, index: u64, volume: &mut Volume) {
        let request = ControllerPublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            node: "i-42".into(),
            usage: self.usage(),
            read_only: false,
            volume_context: volume.context.clone(),
            secrets: Secrets::default(),
        };
        let attached = self.controllers.publish(self.order(index), request).await;
        volume.publish_context = attached.unwrap();
    }

    pub(crate) async fn detach(&self, index: u64, volume: &Volume) {
        let request = ControllerUnpublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            node: "i-42".into(),
            secrets: Secrets::default(),
        };
        let detached = self.controllers.unpublish(self.order(index), request).await;
        detached.unwrap();
    }

    /// Returns whether the running plugin attaches and stages volumes.
    fn runs(&self) -> (bool, bool) {
        let instance = self.registry.running(&PLUGIN.into(), &TASK.into());
        let instance = instance.ok();
        let controller = instance.as_ref().and_then(|instance| instance.controller);
        let node = instance.as_ref().and_then(|instance| instance.node);
        (
            controller.is_some_and(|controller| controller.publish_unpublish_volume),
            node.is_some_and(|node| node.stage_unstage_volume),
        )
    }

    pub(crate) async fn stage(&self, index: u64, volume: &Volume) -> Result<(), HostError> {
        let request = StageRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            usage: self.usage(),
            attaches: self.runs().0,
            publish_context: volume.publish_context.clone(),
            volume_context: volume.context.clone(),
            secrets: Secrets::default(),
        };
        self.manager.stage(self.order(index), request).await
    }

    pub(crate) async fn publish(
        &self,
        index: u64,
        volume: &Volume,
        alloc: &str,
    ) -> Result<TargetPath, HostError> {
        let request = PublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            alloc: alloc.into(),
            alias: "data".into(),
            usage: self.usage(),
            attaches: self.runs().0,
            stages: self.runs().1,
            read_only: false,
            publish_context: volume.publish_context.clone(),
            volume_context: volume.context.clone(),
            secrets: Secrets::default(),
        };
        self.manager.publish(self.order(index), request).await
    }

    pub(crate) async fn unpublish(
        &self,
        index: u64,
        volume: &Volume,
        alloc: &str,
    ) -> Result<(), HostError> {
        let request = UnpublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            alloc: alloc.into(),
            alias: "data".into(),
        };
        self.manager.unpublish(self.order(index), request).await
    }

    pub(crate) async fn unstage(&self, index: u64, volume: &Volume) -> Result<(), HostError> {
        let request = UnstageRequest { volume: volume.remote(), name: volume.name.clone() };
        self.manager.unstage(self.order(index), request).await
    }

    /// Takes a node step by the name of its RPC.
    pub(crate) async fn take(
        &self,
        rpc: &str,
        index: u64,
        volume: &Volume,
    ) -> Result<(), HostError> {
        match rpc {
            "NodeStageVolume" => self.stage(index, volume).await,
            "NodePublishVolume" => self.publish(index, volume, "a1").await.map(drop),
            "NodeUnpublishVolume" => self.unpublish(index, volume, "a1").await,
            "NodeUnstageVolume" => self.unstage(index, volume).await,
            other => panic!("{other} is no step"),
        }
    }

    pub(crate) async fn check_nothing_left(&self) {
        assert_eq!(self.manager.left_behind(Term::default()).await, Ok(vec![]));
        let directory = self.directory.join("mounts").join(PLUGIN);
        let mut left = std::fs::read_dir(directory).unwrap();
        assert!(left.next().is_none());
    }
}

pub(crate) struct Volume {
    pub(crate) id: ExternalId,
    pub(crate) name: NamespacedId,
    pub(crate) context: BTreeMap<String, String>,
    pub(crate) publish_context: PublishContext,
}

impl Volume {
    pub(crate) fn remote(&self) -> RemoteVolume {
        RemoteVolume { plugin_id: PLUGIN.into(), external_id: self.id.clone() }
    }
}
