//! The machine of a node, as far as the fake plugin changes it: directories and mounts.

use std::path::{Path, PathBuf};

use super::mounter::FakeMounter;
use super::refusal::{Refusal, refuse};
use nomad_csi_model::{AttachmentMode, ExternalId};
use nomad_csi_ports::StatusCode;

/// The machine of a node. The plugin mounts what it stages and publishes, and creates its targets.
#[derive(Clone, Debug)]
pub struct FakeMachine {
    /// The mount table.
    pub mounter: FakeMounter,
    /// The name of a directory in the plugin, and its name on the machine.
    pub shared: Option<(PathBuf, PathBuf)>,
}

impl FakeMachine {
    /// A machine on which the plugin sees the same paths.
    pub fn new(mounter: FakeMounter) -> Self {
        Self { mounter, shared: None }
    }

    fn on_machine(&self, path: &Path) -> PathBuf {
        let shared = self.shared.as_ref();
        let mapped = shared.and_then(|(plugin, machine)| {
            let rest = path.strip_prefix(plugin).ok()?;
            Some(machine.join(rest))
        });
        mapped.unwrap_or_else(|| path.to_owned())
    }

    /// Mounts a file system at a staging path, which exists. A device shows no mount.
    pub(super) fn stage(
        &self,
        id: &ExternalId,
        path: &Path,
        mode: AttachmentMode,
    ) -> Result<(), Refusal> {
        let path = self.on_machine(path);
        if !path.is_dir() {
            let message = format!("{} is not a directory", path.display());
            return refuse(StatusCode::Internal, message);
        }
        if mode == AttachmentMode::FileSystem {
            self.mounter.mount_volume(&path, id.as_str());
        }
        Ok(())
    }

    /// Creates a target and mounts the volume or its device there.
    pub(super) fn publish(
        &self,
        id: &ExternalId,
        path: &Path,
        mode: AttachmentMode,
    ) -> Result<(), Refusal> {
        let path = self.on_machine(path);
        let created = match mode {
            _ if path.exists() => Ok(()),
            AttachmentMode::FileSystem => std::fs::create_dir(&path),
            AttachmentMode::BlockDevice => std::fs::write(&path, ""),
        };
        if let Err(error) = created {
            let message = format!("cannot create {}: {error}", path.display());
            return refuse(StatusCode::Internal, message);
        }
        self.mounter.mount_volume(&path, id.as_str());
        Ok(())
    }

    /// Unmounts a path, if it is mounted.
    pub(super) fn unmount(&self, path: &Path) -> Result<(), Refusal> {
        let path = self.on_machine(path);
        match self.mounter.unmount_all(&path) {
            Ok(()) => Ok(()),
            Err(busy) => refuse(StatusCode::Internal, busy.to_string()),
        }
    }

    /// Unmounts a target and removes it.
    pub(super) fn unpublish(&self, path: &Path) -> Result<(), Refusal> {
        self.unmount(path)?;
        let path = self.on_machine(path);
        let removed = if self.mounter.is_sealed(&path) {
            Err(std::io::ErrorKind::PermissionDenied.into())
        } else if path.is_dir() {
            std::fs::remove_dir(&path)
        } else {
            std::fs::remove_file(&path)
        };
        match removed {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove {}: {error}", path.display());
                refuse(StatusCode::Internal, message)
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}
