//! The embedded plugin inside the test's process, on a real socket, over a mount table in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nomad_csi::csi::proto;
use nomad_csi::csi::proto::volume_capability::access_mode::Mode;
use nomad_csi::hostpath::{Config, Host, Play, PlayOptions, ServeError, serve};
use nomad_csi::ports::RandomIds;
use nomad_csi::ports::fake::{FakeBlockStorage, FakeClock, FakeMounter};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

use super::plugin_client::{Client, channel, mount};

/// A machine in memory: it outlives a restart of the plugin.
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) mounter: FakeMounter,
    pub(crate) storage: FakeBlockStorage,
    pub(crate) clock: FakeClock,
}

impl Machine {
    /// One without loop devices: volumes are directories.
    pub(crate) fn plain(mounter: FakeMounter) -> Self {
        Self {
            storage: FakeBlockStorage::without_loop_devices(mounter.clone()),
            mounter,
            clock: FakeClock::default(),
        }
    }

    /// One with loop devices and ext4.
    pub(crate) fn with_devices() -> Self {
        let mounter = FakeMounter::new();
        Self {
            storage: FakeBlockStorage::new(mounter.clone()),
            ..Self::plain(mounter)
        }
    }

    pub(crate) fn host(&self) -> Host {
        Host {
            mounter: Arc::new(self.mounter.clone()),
            storage: Arc::new(self.storage.clone()),
            clock: Arc::new(self.clock.clone()),
            ids: Arc::new(RandomIds),
        }
    }
}

/// A plugin on that machine, from the words of its command line.
pub(crate) fn play(options: &PlayOptions) -> Play {
    Play::parse(options).expect("the options are good")
}

/// A running plugin.
pub(crate) struct Running {
    pub(crate) socket: PathBuf,
    pub(crate) mounter: FakeMounter,
    pub(crate) machine: Machine,
    options: PlayOptions,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), ServeError>>,
}

impl Running {
    /// The plugin below `directory`.
    pub(crate) async fn start(directory: &Path, mounter: FakeMounter) -> Self {
        Self::start_on(directory, Machine::plain(mounter), PlayOptions::default()).await
    }

    /// The plugin below `directory`, on that machine, playing that.
    pub(crate) async fn start_on(directory: &Path, machine: Machine, options: PlayOptions) -> Self {
        let config = config(directory).playing(play(&options));
        let socket = config.socket().to_owned();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let task = tokio::spawn(serve(config, machine.host(), stopped));
        // It listens when it is ready; no RPC is spent on that, since one may be made to fail.
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            assert!(!task.is_finished(), "the plugin ended: {:?}", task.await);
            tokio::task::yield_now().await;
        }
        Self {
            socket,
            mounter: machine.mounter.clone(),
            machine,
            options,
            stop,
            task,
        }
    }

    /// Tells it to stop, and waits until it has.
    pub(crate) async fn stop(self) {
        self.stop.send(()).expect("it runs");
        self.task.await.unwrap().expect("it stops well");
    }

    pub(crate) fn client(&self) -> Client {
        Client::over(channel(&self.socket))
    }
}

/// A plugin with its socket in `s/` and its state in `state/`.
pub(crate) fn config(directory: &Path) -> Config {
    let endpoint = format!("unix://{}", directory.join("s/csi.sock").display());
    let node = Some("node-1".to_owned());
    Config::new(&endpoint, directory.join("state"), node, false).expect("it is valid")
}

/// A running plugin with its directory.
pub(crate) struct World {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) running: Running,
    pub(crate) client: Client,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::over(FakeMounter::new()).await
    }

    pub(crate) async fn over(mounter: FakeMounter) -> Self {
        Self::on(Machine::plain(mounter), PlayOptions::default()).await
    }

    /// One with loop devices and ext4.
    pub(crate) async fn with_devices() -> Self {
        Self::on(Machine::with_devices(), PlayOptions::default()).await
    }

    pub(crate) async fn on(machine: Machine, options: PlayOptions) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let running = Running::start_on(directory.path(), machine, options).await;
        let client = running.client();
        Self {
            directory,
            running,
            client,
        }
    }

    /// Stops the plugin and starts it again on the same state.
    pub(crate) async fn restart(self) -> Self {
        let options = self.running.options.clone();
        self.restart_as(options).await
    }

    /// Stops the plugin and starts it again on the same state, playing that.
    pub(crate) async fn restart_as(self, options: PlayOptions) -> Self {
        let machine = self.running.machine.clone();
        drop(self.client);
        self.running.stop().await;
        let running = Running::start_on(self.directory.path(), machine, options).await;
        let client = running.client();
        Self {
            directory: self.directory,
            running,
            client,
        }
    }

    /// A directory that the orchestrator made.
    pub(crate) fn made(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.path("state/volumes").join(id)
    }

    pub(crate) fn targets(&self) -> Vec<PathBuf> {
        let mounts = self.running.mounter.mounts();
        mounts.into_iter().map(|mount| mount.target).collect()
    }
}

pub(crate) fn writer() -> proto::VolumeCapability {
    mount(Mode::SingleNodeWriter, &[])
}

pub(crate) fn code<T: std::fmt::Debug>(answer: Result<T, Status>) -> Code {
    answer.unwrap_err().code()
}
