//! The embedded plugin as a process in its own directory, and the steps of a volume's lifecycle.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use nomad_csi_node::mounts::LinuxBlockStorage;
use nomad_csi_ports::{BlockStorage as _, FileSystem};
use tonic::Status;

use crate::plugin_client::{Client, Publish};
use crate::plugin_process::{PluginProcess, plugin_command, socket_in};
use crate::wait::until_async;
use nomad_csi_testing::namespace::{has_all_users, run_in_mount_namespace};

/// A plugin in its own directory. The end of the test kills it and detaches its devices.
pub(crate) struct ProcessFixture {
    directory: tempfile::TempDir,
    flags: Vec<String>,
    pub(crate) process: Option<PluginProcess>,
}

impl Drop for ProcessFixture {
    fn drop(&mut self) {
        self.kill();
        let storage = LinuxBlockStorage::default();
        for device in storage.attached(self.directory.path()).unwrap_or_default() {
            eprintln!("a device is left: {device:?}");
            storage.detach(&device).ok();
        }
    }
}

impl ProcessFixture {
    /// A fixture with these options of `plugin serve`.
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self::below(&std::env::temp_dir(), flags)
    }

    /// A fixture below this directory.
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

    pub(crate) fn create_dir(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// The data directory of a volume.
    pub(crate) fn data(&self, id: &str) -> PathBuf {
        self.path("state/volumes").join(id)
    }

    pub(crate) fn command(&self) -> Command {
        let flags: Vec<_> = self.flags.iter().map(String::as_str).collect();
        plugin_command(self.directory.path(), &flags)
    }

    /// Starts the plugin and waits until it is ready.
    pub(crate) async fn start(&mut self) -> Client {
        self.start_with(self.command()).await
    }

    pub(crate) async fn start_with(&mut self, command: Command) -> Client {
        let directory = self.directory.path();
        let started = PluginProcess::run(command, directory, &socket_in(directory)).await;
        self.process.insert(started).client.clone()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    pub(crate) async fn restart(&mut self) -> Client {
        self.kill();
        self.start().await
    }

    /// Waits for the process to exit.
    pub(crate) async fn wait_for_exit(&mut self) -> ExitStatus {
        let process = self.process.as_mut().expect("the process was started");
        let process = &mut process.process.0;
        let status = until_async("the end of the plugin", async || {
            process.try_wait().unwrap().ok_or_else(|| "it is still running".to_owned())
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

    /// Waits for the kernel to detach devices after their last unmount.
    pub(crate) async fn wait_until_no_devices(&self) {
        until_async("all devices to be detached", async || match self.devices() {
            0 => Ok(()),
            left => Err(format!("{left} devices are left")),
        })
        .await;
    }
}

/// Runs the body of a test on its own runtime, in its own mount namespace.
pub(crate) fn run_in_namespace(test: &str, body: impl Future<Output = ()>) {
    run_in_mount_namespace(test, || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(body);
    });
}

/// Runs the body like [`run_in_namespace`] if this machine has loop devices and ext4. Prints a
/// message if it skips the test.
pub(crate) fn run_in_namespace_with_devices(test: &str, body: impl Future<Output = ()>) {
    let offers = LinuxBlockStorage::default().features();
    let missing = match offers.loop_devices_unavailable {
        _ if !has_all_users() => Some("root".to_owned()),
        Some(reason) => Some(reason),
        None if !offers.file_systems.contains(&FileSystem::Ext4) => Some("mkfs.ext4".to_owned()),
        None => None,
    };
    if let Some(missing) = missing {
        eprintln!("SKIPPED {test}: it requires loop devices: {missing}");
        return;
    }
    run_in_namespace(test, body);
}

/// Stages and publishes a volume.
pub(crate) async fn stage_and_publish(
    client: &mut Client,
    request: Publish<'_>,
) -> Result<(), Status> {
    let capability = request.capability.clone();
    client.stage(request.id, request.staging, capability).await?;
    client.publish(request).await
}

/// Unpublishes and unstages a volume.
pub(crate) async fn unpublish_and_unstage(
    client: &mut Client,
    id: &str,
    staging: &Path,
    target: &Path,
) -> Result<(), Status> {
    client.unpublish(id, target).await?;
    client.unstage(id, staging).await
}
