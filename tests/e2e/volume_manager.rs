//! The node's half of claims over the embedded plugin as a process, with real mounts.
//!
//! A [`Host`] is what an agent runs: a supervisor with its process, the lanes, the volume manager and
//! the controller host. Each test ends with the mount table that it found.

use std::collections::BTreeMap;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nomad_csi::csi::GrpcConnector;
use nomad_csi::driver::RawExec;
use nomad_csi::model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId,
    MountOptions, NamespacedId, NodeId, PluginId, PluginInstance, PublishContext, RemoteVolume,
    Secrets, TargetPath, Usage,
};
use nomad_csi::mounts::LinuxMounter;
use nomad_csi::node::{
    CallLanes, LocalControllerHost, MountDirectories, PluginTask, Registry, Supervisor,
    SupervisorDeps, TaskStatus, VolumeManager, wait_until_healthy,
};
use nomad_csi::ports::{
    CallOrder, ControllerHost as _, ControllerPublishRequest, ControllerUnpublishRequest,
    CreateVolume, HostError, MountEvent, MountObserver, NodeHost as _, PluginDirectory as _,
    PluginObserver, PublishRequest, RandomIds, ReportRefused, StageRequest, SweepOutcome,
    SystemClock, TaskCommand, UnpublishRequest, UnstageRequest,
};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::hostpath_fixture::{run_in_namespace, run_in_namespace_with_devices};
use crate::wait::until_async;

const PLUGIN: &str = "hostpath";
const TASK: &str = "plugin-task";
const LONG: Duration = Duration::from_secs(60);

/// Keeps nothing: the tests look at the mounts.
struct NoObserver;

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
struct Events(Mutex<Vec<MountEvent>>);

impl MountObserver for Events {
    fn observed(&self, event: MountEvent) {
        self.0.lock().unwrap().push(event);
    }
}

/// One run of an agent's node.
struct Host {
    directory: PathBuf,
    session: String,
    registry: Arc<Registry>,
    manager: Arc<VolumeManager>,
    controllers: LocalControllerHost,
    events: Arc<Events>,
    status: watch::Receiver<TaskStatus>,
    stop: CancellationToken,
    /// Dropping it kills the plugin, as the end of the agent does.
    supervision: JoinSet<()>,
    mode: AttachmentMode,
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
    async fn start(directory: &Path, session: &str, flags: &[&str]) -> Self {
        let registry = Arc::new(Registry::new(CallLanes::new(session.into())));
        let task = PluginTask {
            plugin: PLUGIN.into(),
            node: "here".into(),
            task: TASK.into(),
            command: command(directory, flags),
            socket: directory.join("s/csi.sock"),
            health_timeout: LONG,
            recorded: None,
        };
        let deps = SupervisorDeps {
            driver: Arc::new(RawExec),
            connector: Arc::new(GrpcConnector::new()),
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
        let directories = MountDirectories {
            base: directory.join("mounts"),
            in_plugin: BTreeMap::new(),
        };
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

    async fn stop(mut self) {
        self.registry.lanes().drain().await;
        self.stop.cancel();
        while self.supervision.join_next().await.is_some() {}
    }

    /// The process of the plugin, from the file that the next agent would read.
    fn plugin_pid(&self) -> i32 {
        let text = std::fs::read_to_string(self.directory.join("plugin.process")).unwrap();
        let record: serde_json::Value = serde_json::from_str(&text).unwrap();
        let pid = record["pid"].as_i64().expect("the file names a process");
        i32::try_from(pid).unwrap()
    }

    fn kill_plugin(&self) {
        let pid = rustix::process::Pid::from_raw(self.plugin_pid()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    /// Waits until another process than `pid` runs the plugin and is healthy.
    async fn wait_for_next_plugin(&self, pid: i32) {
        until_async("the next process of the plugin", async || {
            let current = self.plugin_pid();
            let is_healthy = *self.status.borrow() == TaskStatus::Healthy;
            let runs = self.registry.running(&PLUGIN.into(), &TASK.into()).is_ok();
            if current != pid && is_healthy && runs {
                Ok(())
            } else {
                Err(format!(
                    "{current} after {pid}, {:?}",
                    *self.status.borrow()
                ))
            }
        })
        .await;
    }

    fn order(&self, index: u64) -> CallOrder {
        CallOrder {
            session: self.session.as_str().into(),
            index,
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
    async fn create(&self, name: &str, bytes: u64) -> Volume {
        let found = self.registry.instance(&PLUGIN.into(), &TASK.into()).await;
        let request = CreateVolume {
            name: name.to_owned(),
            capacity: CapacityRange {
                min: Bytes::new(bytes).unwrap(),
                max: Bytes::ZERO,
            },
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

    async fn attach(&self, index: u64, volume: &mut Volume) {
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

    async fn detach(&self, index: u64, volume: &Volume) {
        let request = ControllerUnpublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            node: "i-42".into(),
            secrets: Secrets::default(),
        };
        let detached = self.controllers.unpublish(self.order(index), request).await;
        detached.unwrap();
    }

    async fn stage(&self, index: u64, volume: &Volume) -> Result<(), HostError> {
        let request = StageRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            usage: self.usage(),
            publish_context: volume.publish_context.clone(),
            volume_context: volume.context.clone(),
            secrets: Secrets::default(),
        };
        self.manager.stage(self.order(index), request).await
    }

    async fn publish(
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
            read_only: false,
            publish_context: volume.publish_context.clone(),
            volume_context: volume.context.clone(),
            secrets: Secrets::default(),
        };
        self.manager.publish(self.order(index), request).await
    }

    async fn unpublish(&self, index: u64, volume: &Volume, alloc: &str) -> Result<(), HostError> {
        let request = UnpublishRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
            alloc: alloc.into(),
            alias: "data".into(),
        };
        self.manager.unpublish(self.order(index), request).await
    }

    async fn unstage(&self, index: u64, volume: &Volume) -> Result<(), HostError> {
        let request = UnstageRequest {
            volume: volume.remote(),
            name: volume.name.clone(),
        };
        self.manager.unstage(self.order(index), request).await
    }

    /// Takes a node step by the name of its RPC.
    async fn take(&self, rpc: &str, index: u64, volume: &Volume) -> Result<(), HostError> {
        match rpc {
            "NodeStageVolume" => self.stage(index, volume).await,
            "NodePublishVolume" => self.publish(index, volume, "a1").await.map(drop),
            "NodeUnpublishVolume" => self.unpublish(index, volume, "a1").await,
            "NodeUnstageVolume" => self.unstage(index, volume).await,
            other => panic!("{other} is no step"),
        }
    }

    async fn check_nothing_left(&self) {
        assert_eq!(self.manager.left_behind().await, Ok(vec![]));
        for kind in ["staging", "targets"] {
            let directory = self.directory.join("mounts").join(PLUGIN).join(kind);
            let left = std::fs::read_dir(&directory);
            let is_empty = left.is_ok_and(|mut left| left.next().is_none());
            let is_unused = !directory.exists();
            assert!(is_empty || is_unused, "{kind}");
        }
    }
}

struct Volume {
    id: ExternalId,
    name: NamespacedId,
    context: BTreeMap<String, String>,
    publish_context: PublishContext,
}

impl Volume {
    fn remote(&self) -> RemoteVolume {
        RemoteVolume {
            plugin_id: PLUGIN.into(),
            external_id: self.id.clone(),
        }
    }
}

const STEPS: [&str; 4] = [
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
];

/// Two allocations share a volume, and find the data again after everything was given back.
#[test]
fn a_volume_is_mounted_written_and_given_back() {
    let test = "volume_manager::a_volume_is_mounted_written_and_given_back";
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--backing", "directory"];
        let host = Host::start(directory.path(), "session-1", &flags).await;
        let mut volume = host.create("db", 1 << 20).await;
        for round in 0..2 {
            let at = 10 * round;
            host.attach(at + 1, &mut volume).await;
            host.stage(at + 2, &volume).await.unwrap();
            let first = host.publish(at + 3, &volume, "a1").await.unwrap();
            let second = host.publish(at + 4, &volume, "a2").await.unwrap();
            let file = |path: &TargetPath| path.on_host().join("file");
            if round == 0 {
                std::fs::write(file(&first), "precious").unwrap();
            }
            let found = std::fs::read_to_string(file(&second)).unwrap();
            assert_eq!(found, "precious");
            host.unpublish(at + 5, &volume, "a1").await.unwrap();
            let in_use = host.unstage(at + 6, &volume).await.unwrap_err();
            assert!(matches!(in_use, HostError::InUse { .. }), "{in_use}");
            assert_eq!(std::fs::read_to_string(file(&second)).unwrap(), "precious");
            host.unpublish(at + 7, &volume, "a2").await.unwrap();
            host.unstage(at + 8, &volume).await.unwrap();
            host.detach(at + 9, &volume).await;
            host.check_nothing_left().await;
        }
        // Two mounts, two unmounts and the refused unstage, in each round.
        assert_eq!(host.events.0.lock().unwrap().len(), 10);
        host.stop().await;
    });
}

/// The plugin dies before and after the work of each step, and under a `kill -9` while a step hangs.
/// The same step succeeds with the next process.
#[test]
fn a_step_survives_the_death_of_the_plugin() {
    let test = "volume_manager::a_step_survives_the_death_of_the_plugin";
    run_in_namespace(test, async {
        for step in STEPS {
            for fault in ["crash:1", "crash-after:1", "hang:1"] {
                die_in_the_middle(step, fault).await;
            }
        }
    });
}

async fn die_in_the_middle(step: &str, fault: &str) {
    let what = format!("{step}, {fault}");
    let directory = tempfile::tempdir().unwrap();
    let fault_flag = format!("{step}:{fault}");
    let flags = ["--backing", "directory", "--fault", &fault_flag];
    let host = Host::start(directory.path(), "session-1", &flags).await;
    let mut volume = host.create("db", 1 << 20).await;
    host.attach(1, &mut volume).await;
    for earlier in STEPS.into_iter().take_while(|earlier| *earlier != step) {
        host.take(earlier, 2, &volume).await.unwrap();
    }
    let pid = host.plugin_pid();
    let met = if fault == "hang:1" {
        let hanging = host.take(step, 3, &volume);
        let kill = async {
            until_async("the step to run", async || {
                let instance = host.registry.running(&PLUGIN.into(), &TASK.into());
                match instance.map(|instance| instance.run.pending_calls()) {
                    Ok(1) => Ok(()),
                    other => Err(format!("{other:?} calls run")),
                }
            })
            .await;
            let busy = host.take("NodeUnstageVolume", 3, &volume).await;
            assert!(
                matches!(busy, Err(HostError::Busy { .. })),
                "{what}: {busy:?}"
            );
            host.kill_plugin();
        };
        tokio::join!(hanging, kill).0
    } else {
        host.take(step, 3, &volume).await
    };
    let error = met.expect_err(&what);
    assert!(error.may_have_taken_effect(), "{what}: {error}");
    host.wait_for_next_plugin(pid).await;
    if fault == "hang:1" {
        // The count of hanging calls starts again with each process.
        host.stop().await;
        let host = Host::start(directory.path(), "session-2", &flags[..2]).await;
        finish(&host, step, &volume, &what).await;
        host.stop().await;
        return;
    }
    finish(&host, step, &volume, &what).await;
    host.stop().await;
}

/// Repeats the step and gives everything back.
async fn finish(host: &Host, step: &str, volume: &Volume, what: &str) {
    let repeated = host.take(step, 3, volume).await;
    repeated.unwrap_or_else(|error| panic!("{what}: {error}"));
    for undo in &STEPS[2..] {
        let undone = host.take(undo, 4, volume).await;
        undone.unwrap_or_else(|error| panic!("{what}, {undo}: {error}"));
    }
    host.detach(5, volume).await;
    host.check_nothing_left().await;
}

/// An agent is killed with volumes in use. The next one finds them and gives them back.
#[test]
fn the_next_agent_sweeps_what_was_left() {
    let test = "volume_manager::the_next_agent_sweeps_what_was_left";
    run_in_namespace(test, async {
        let directory = tempfile::tempdir().unwrap();
        let flags = ["--backing", "directory"];
        let host = Host::start(directory.path(), "session-1", &flags).await;
        let mut volumes = vec![];
        for name in ["a", "b"] {
            let mut volume = host.create(name, 1 << 20).await;
            host.attach(1, &mut volume).await;
            host.stage(2, &volume).await.unwrap();
            for alloc in ["a1", "a2"] {
                let alloc = format!("{alloc}-{name}");
                host.publish(3, &volume, &alloc).await.unwrap();
            }
            volumes.push(volume);
        }
        drop(host);

        let host = Host::start(directory.path(), "session-2", &flags).await;
        let left = host.manager.left_behind().await.unwrap();
        let mut expected: Vec<_> = volumes.iter().map(Volume::remote).collect();
        expected.sort();
        assert_eq!(left, expected);
        for volume in left {
            let sweep = |index| host.manager.sweep(host.order(index), volume.clone());
            assert_eq!(sweep(1).await, Ok(SweepOutcome::UndidSomething));
            assert_eq!(sweep(1).await, Ok(SweepOutcome::NothingLeft));
        }
        for volume in &volumes {
            host.detach(2, volume).await;
        }
        host.check_nothing_left().await;
        host.stop().await;
    });
}

/// A block device is published as a device, written, and swept.
#[test]
fn a_block_device_is_published_and_swept() {
    let test = "volume_manager::a_block_device_is_published_and_swept";
    run_in_namespace_with_devices(test, async {
        let directory = tempfile::tempdir().unwrap();
        let mut host = Host::start(directory.path(), "session-1", &[]).await;
        host.mode = AttachmentMode::BlockDevice;
        let mut volume = host.create("disk", 1 << 20).await;
        host.attach(1, &mut volume).await;
        host.stage(2, &volume).await.unwrap();
        let path = host.publish(3, &volume, "a1").await.unwrap();
        let options = std::fs::File::options().read(true).write(true).to_owned();
        let mut device = options.open(path.on_host()).unwrap();
        device.write_all(b"precious").unwrap();
        device.sync_all().unwrap();
        drop(device);
        host.unpublish(4, &volume, "a1").await.unwrap();
        let path = host.publish(5, &volume, "a2").await.unwrap();
        let mut device = options.open(path.on_host()).unwrap();
        let mut found = [0; 8];
        device.seek(SeekFrom::Start(0)).unwrap();
        device.read_exact(&mut found).unwrap();
        assert_eq!(&found, b"precious");
        drop((device, host));

        let host = Host::start(directory.path(), "session-2", &[]).await;
        let left = host.manager.left_behind().await;
        assert_eq!(left, Ok(vec![volume.remote()]));
        let sweep = |index| host.manager.sweep(host.order(index), volume.remote());
        assert_eq!(sweep(1).await, Ok(SweepOutcome::UndidSomething));
        assert_eq!(sweep(1).await, Ok(SweepOutcome::NothingLeft));
        host.detach(2, &volume).await;
        host.check_nothing_left().await;
        host.stop().await;
    });
}
