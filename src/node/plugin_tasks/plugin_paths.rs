//! Where the socket and the volumes of a plugin are: on the host, and in its task.
//!
//! Both directories are mounted into a task that has a root of its own. Mounts below the directory of volumes travel
//! both ways (B60). A task without one sees the paths of the host.
//! Linux allows 107 bytes for the path of a socket, so the directory of the socket has a short name.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::task_run::TaskMount;
use nomad_csi_model::{AllocId, CsiPluginConfig, PluginId, PropagationMode, hex, segment};

/// Nomad's name of a plugin's socket.
const SOCKET: &str = "csi.sock";
/// The bytes of the hash that names the directory of a socket.
const NAME_BYTES: usize = 6;

/// The directories of this node that hold those of plugins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginDirectories {
    /// The parent directory of the directories of sockets. Its path is short.
    pub(crate) sockets: PathBuf,
    /// The parent directory of the volumes of all plugins.
    pub(crate) volumes: PathBuf,
}

/// Where the socket and the volumes of one plugin are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginPaths {
    socket_directory: PathBuf,
    volumes: PathBuf,
    /// The directories of the socket and of the volumes in the task, if it has a root of its own.
    in_task: Option<(PathBuf, PathBuf)>,
}

impl PluginDirectories {
    /// Returns the directory of a plugin's volumes, as `MountRoot` names it.
    pub(super) fn volumes_of(&self, plugin: &PluginId) -> PathBuf {
        self.volumes.join(segment(plugin.as_str()))
    }

    /// Returns the directory of the socket of the plugin that an allocation runs.
    pub(super) fn socket_directory_of(&self, alloc: &AllocId) -> PathBuf {
        let digest = Sha256::digest(alloc.as_str().as_bytes());
        let name: String = hex(&digest[..NAME_BYTES]).collect();
        self.sockets.join(name)
    }

    /// Returns the paths of the plugin that an allocation runs.
    pub(crate) fn paths(
        &self,
        alloc: &AllocId,
        config: &CsiPluginConfig,
        has_own_root: bool,
    ) -> PluginPaths {
        let in_task =
            || (PathBuf::from(&config.mount_dir), PathBuf::from(&config.stage_publish_base_dir));
        PluginPaths {
            socket_directory: self.socket_directory_of(alloc),
            volumes: self.volumes_of(&config.id),
            in_task: has_own_root.then(in_task),
        }
    }
}

/// Removes the directory of a plugin's socket. Blocks.
///
/// # Errors
/// If something else is in it.
pub(super) fn remove_socket_directory(directory: &Path) -> io::Result<()> {
    let socket = std::fs::remove_file(socket_in(directory));
    match std::fs::remove_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(socket.err().unwrap_or(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn socket_in(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

impl PluginPaths {
    /// Returns the directory of the socket on the host.
    pub(super) fn socket_directory(&self) -> &Path {
        &self.socket_directory
    }

    /// Returns the socket on the host.
    pub(super) fn socket(&self) -> PathBuf {
        socket_in(&self.socket_directory)
    }

    /// Returns the directory of the volumes on the host.
    pub(super) fn volumes(&self) -> &Path {
        &self.volumes
    }

    /// Returns where the plugin sees that directory, if not at the path of the host.
    pub(super) fn volumes_in_task(&self) -> Option<&Path> {
        self.in_task.as_ref().map(|(_, volumes)| volumes.as_path())
    }

    /// Returns the value of `CSI_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        let socket = match &self.in_task {
            Some((directory, _)) => directory.join(SOCKET),
            None => self.socket(),
        };
        format!("unix://{}", socket.display())
    }

    /// Returns the mounts of the task.
    pub(crate) fn mounts(&self) -> Vec<TaskMount> {
        let Some((socket_directory, volumes)) = &self.in_task else {
            return vec![];
        };
        let mount = |source: &Path, destination: &Path, propagation| TaskMount {
            source: source.to_owned(),
            destination: destination.to_owned(),
            read_only: false,
            propagation,
            identity: None,
        };
        vec![
            mount(&self.socket_directory, socket_directory, PropagationMode::Private),
            mount(&self.volumes, volumes, PropagationMode::Bidirectional),
        ]
    }
}
