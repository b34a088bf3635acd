//! The embedded plugin in the test's process, on a real socket, with a simulated host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nomad_csi_hostpath::{Config, Host, PluginProfile, ProfileOptions, ServeError, serve};
use nomad_csi_ports::{NoMeasurements, RandomIds};
use nomad_csi_proto as proto;
use nomad_csi_proto::volume_capability::access_mode::Mode;
use nomad_csi_testing::{FakeBlockStorage, FakeClock, FakeMounter};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::plugin_client::{Client, block, channel, mount, sized};

/// A simulated host. It outlives a restart of the plugin.
#[derive(Clone)]
pub(crate) struct TestHost {
    pub(crate) mounter: FakeMounter,
    pub(crate) storage: FakeBlockStorage,
    pub(crate) clock: FakeClock,
}

impl TestHost {
    /// A host without loop devices: volumes are directories.
    pub(crate) fn without_devices(mounter: FakeMounter) -> Self {
        Self {
            storage: FakeBlockStorage::without_loop_devices(mounter.clone()),
            mounter,
            clock: FakeClock::default(),
        }
    }

    /// A host with loop devices and ext4.
    pub(crate) fn with_devices() -> Self {
        let mounter = FakeMounter::new();
        Self { storage: FakeBlockStorage::new(mounter.clone()), ..Self::without_devices(mounter) }
    }

    pub(crate) fn plugin_host(&self) -> Host {
        Host {
            mounter: Arc::new(self.mounter.clone()),
            storage: Arc::new(self.storage.clone()),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(RandomIds),
            measurements: Arc::new(NoMeasurements),
        }
    }
}

/// Parses the options of a profile.
pub(crate) fn profile(options: &ProfileOptions) -> PluginProfile {
    PluginProfile::parse(options).expect("the options are valid")
}

/// A running plugin.
pub(crate) struct RunningPlugin {
    pub(crate) socket: PathBuf,
    pub(crate) mounter: FakeMounter,
    pub(crate) host: TestHost,
    options: ProfileOptions,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl RunningPlugin {
    /// Starts a plugin below `directory`.
    pub(crate) async fn start(directory: &Path, mounter: FakeMounter) -> Self {
        Self::start_on_host(
            directory,
            TestHost::without_devices(mounter),
            ProfileOptions::default(),
        )
        .await
    }

    /// Starts a plugin below `directory` on this host, with these options.
    pub(crate) async fn start_on_host(
        directory: &Path,
        host: TestHost,
        options: ProfileOptions,
    ) -> Self {
        let config = config(directory).with_profile(profile(&options));
        let socket = config.socket().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(serve(config, host.plugin_host(), stopped));
        // A plugin that accepts connections is ready. An RPC is not used, because its fault may be
        // under test.
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            assert!(!task.is_finished(), "the plugin ended: {:?}", task.await);
            tokio::task::yield_now().await;
        }
        Self { socket, mounter: host.mounter.clone(), host, options, stop, task }
    }

    /// Stops the plugin and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("the plugin is running");
        self.task.await.unwrap().expect("the plugin stops without an error");
    }

    pub(crate) fn client(&self) -> Client {
        Client::over(channel(&self.socket))
    }
}

/// The configuration of a plugin with its socket in `s/` and its state in `state/`.
pub(crate) fn config(directory: &Path) -> Config {
    let endpoint = format!("unix://{}", directory.join("s/csi.sock").display());
    let node = Some("node-1".to_owned());
    Config::new(&endpoint, directory.join("state"), node, false)
        .expect("the configuration is valid")
}

/// A running plugin with its directory.
pub(crate) struct PluginFixture {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) plugin: RunningPlugin,
    pub(crate) client: Client,
}

impl PluginFixture {
    pub(crate) async fn new() -> Self {
        Self::with_mounter(FakeMounter::new()).await
    }

    pub(crate) async fn with_mounter(mounter: FakeMounter) -> Self {
        Self::on_host(TestHost::without_devices(mounter), ProfileOptions::default()).await
    }

    /// A fixture whose host has loop devices and ext4.
    pub(crate) async fn with_devices() -> Self {
        Self::on_host(TestHost::with_devices(), ProfileOptions::default()).await
    }

    pub(crate) async fn on_host(host: TestHost, options: ProfileOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let plugin = RunningPlugin::start_on_host(directory.path(), host, options).await;
        let client = plugin.client();
        Self { directory, plugin, client }
    }

    /// Restarts the plugin on the same state.
    pub(crate) async fn restart(self) -> Self {
        let options = self.plugin.options.clone();
        self.restart_with(options).await
    }

    /// Restarts the plugin on the same state with other options.
    pub(crate) async fn restart_with(self, options: ProfileOptions) -> Self {
        let host = self.plugin.host.clone();
        drop(self.client);
        self.plugin.stop().await;
        let plugin = RunningPlugin::start_on_host(self.directory.path(), host, options).await;
        let client = plugin.client();
        Self { directory: self.directory, plugin, client }
    }

    /// Creates a directory, as an orchestrator does for a staging path.
    pub(crate) fn create_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Stages and unstages a volume, so that its data exists.
    pub(crate) async fn use_once(&mut self, id: &str, capability: proto::VolumeCapability) {
        let staging = self.create_dir("used-once");
        let client = &mut self.client;
        client.stage(id, &staging, capability).await.unwrap();
        client.unstage(id, &staging).await.unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.path("state/volumes").join(id)
    }

    pub(crate) fn targets(&self) -> Vec<PathBuf> {
        let mounts = self.plugin.mounter.mounts();
        mounts.into_iter().map(|mount| mount.target).collect()
    }
}

pub(crate) fn writer() -> proto::VolumeCapability {
    mount(Mode::SingleNodeWriter, &[])
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}

/// A request for a block device of at least that size.
pub(crate) fn device(name: &str, required_bytes: i64) -> proto::CreateVolumeRequest {
    proto::CreateVolumeRequest {
        volume_capabilities: vec![block(Mode::SingleNodeWriter)],
        ..sized(name, required_bytes)
    }
}
