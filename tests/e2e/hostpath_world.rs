//! The embedded plugin as a process in a directory of its own, and the way of a volume to a workload
//! and back.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nomad_csi::csi::proto;
use nomad_csi::mounts::LinuxBlockStorage;
use nomad_csi::ports::{BlockStorage as _, FileSystem};
use tonic::Status;

use crate::namespace::{has_all_users, inside};
use crate::plugin_client::{Client, Publish, channel};
use crate::wait::until_async;

/// A directory with a plugin in it. The plugin is killed, and its devices are taken away, when the
/// test ends.
pub(crate) struct World {
    directory: tempfile::TempDir,
    flags: Vec<String>,
    pub(crate) process: Option<Child>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
        let storage = LinuxBlockStorage::default();
        for device in storage.attached(self.directory.path()).unwrap_or_default() {
            eprintln!("a device was left over: {device:?}");
            storage.detach(&device).ok();
        }
    }
}

impl World {
    /// One that plays what the flags say.
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self::below(&std::env::temp_dir(), flags)
    }

    /// The same below a directory.
    pub(crate) fn below(directory: &Path, flags: &[&str]) -> Self {
        Self {
            directory: tempfile::tempdir_in(directory).unwrap(),
            flags: flags.iter().map(ToString::to_string).collect(),
            process: None,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn made(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// Where the data of a volume is that is a directory.
    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.path("state/volumes").join(id)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nomad-csi"));
        command
            .args(["plugin", "serve", "--node-id", "node-1", "--endpoint"])
            .arg(format!("unix://{}", self.path("s/csi.sock").display()))
            .arg("--state-dir")
            .arg(self.path("state"))
            .args(&self.flags)
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the plugin and waits until it is ready.
    pub(crate) async fn start(&mut self) -> Client {
        let mut command = self.command();
        command.stderr(Stdio::null());
        self.start_with(command).await
    }

    pub(crate) async fn start_with(&mut self, mut command: Command) -> Client {
        self.process = Some(command.spawn().unwrap());
        let client = Client::over(channel(&self.path("s/csi.sock")));
        until_async("the plugin", async || {
            let mut identity = client.identity.clone();
            let probe = identity.probe(proto::ProbeRequest {}).await;
            probe.map(drop).map_err(|status| status.to_string())
        })
        .await;
        client
    }

    /// Kills it as nothing can be caught.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().ok();
            process.wait().unwrap();
        }
    }

    pub(crate) async fn restart(&mut self) -> Client {
        self.kill();
        self.start().await
    }

    /// Waits for its end.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("it was started");
        let status = until_async("the plugin's end", async || {
            process
                .try_wait()
                .unwrap()
                .ok_or_else(|| "it runs".to_owned())
        })
        .await;
        self.process = None;
        status
    }

    pub(crate) fn devices(&self) -> usize {
        let storage = LinuxBlockStorage::default();
        storage.attached(self.directory.path()).unwrap().len()
    }

    pub(crate) fn is_empty(&self, name: &str) -> bool {
        std::fs::read_dir(self.path(name)).unwrap().next().is_none()
    }

    /// Devices go a moment after their last mount.
    pub(crate) async fn no_devices(&self) {
        until_async("devices to go", async || match self.devices() {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        })
        .await;
    }
}

/// Runs a test's body on a runtime of its own, in a mount namespace of its own.
pub(crate) fn run(test: &str, body: impl Future<Output = ()>) {
    inside(test, || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(body);
    });
}

/// The same, if this machine has loop devices and ext4; said loudly if it has not.
pub(crate) fn run_with_devices(test: &str, body: impl Future<Output = ()>) {
    let offers = LinuxBlockStorage::default().offers();
    let missing = match offers.no_loop_devices {
        _ if !has_all_users() => Some("root".to_owned()),
        Some(reason) => Some(reason),
        None if !offers.file_systems.contains(&FileSystem::Ext4) => Some("mkfs.ext4".to_owned()),
        None => None,
    };
    if let Some(missing) = missing {
        eprintln!("SKIPPED {test}: it needs loop devices: {missing}");
        return;
    }
    run(test, body);
}

/// Stages a volume and publishes it.
pub(crate) async fn up(client: &mut Client, request: Publish<'_>) -> Result<(), Status> {
    let capability = request.capability.clone();
    client
        .stage(request.id, request.staging, capability)
        .await?;
    client.publish(request).await
}

/// Unpublishes a volume and unstages it.
pub(crate) async fn down(
    client: &mut Client,
    id: &str,
    staging: &Path,
    target: &Path,
) -> Result<(), Status> {
    client.unpublish(id, target).await?;
    client.unstage(id, staging).await
}
