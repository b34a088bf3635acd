//! Cutting a node off from a volume that was detached while it is staged there (`--detach-cuts`).
//!
//! A read-only mount of the volume covers each of its writable mounts, so every later open for writing fails there. Unlike a
//! remount, a cover needs no file to be closed, and reaches the mounts of tasks that follow those of the host. It does not
//! reach a file that is open for writing, and not a private copy of a mount in the namespace of a task. Unpublishing and
//! unstaging remove the covers, and staging again mounts the volume as requested. The mounts of one node are in a peer group
//! of their own, because a cover reaches all peers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::volume::{MountState, Volume};
use crate::catalog::Backing;
use crate::error::{FailedPrecondition, HostError, StageVolumeError};
use crate::plugin::Plugin;

use nomad_csi_model::private::create_subdirectory;
use nomad_csi_ports::{MountFlags, StatusCode};

/// Cuts every volume that is not attached to this node any more, and returns why a volume could not be cut. A volume that
/// another call works on is left to the next look.
pub(crate) fn cut_detached(plugin: &Arc<Plugin>) -> Result<BTreeMap<String, String>, HostError> {
    remove_cover(plugin)?;
    let mut failed = BTreeMap::new();
    for id in plugin.catalog.volumes_with_paths()? {
        match cut_if_detached(plugin, &id) {
            Ok(()) | Err(StageVolumeError::OperationPending(_)) => {}
            // The data of a deleted volume is gone.
            Err(StageVolumeError::VolumeNotFound(_)) => {}
            Err(
                error @ (StageVolumeError::Host(_)
                | StageVolumeError::InvalidArgument(_)
                | StageVolumeError::ConflictingUse(_)
                | StageVolumeError::IncompatibleCapability(_)
                | StageVolumeError::FailedPrecondition(_)),
            ) => drop(failed.insert(id, error.to_string())),
        }
    }
    Ok(failed)
}

fn cut_if_detached(plugin: &Arc<Plugin>, id: &str) -> Result<(), StageVolumeError> {
    let volume = Volume::open::<StageVolumeError>(plugin, id.to_owned())?;
    if volume.attachment.is_some() || volume.backing() != Backing::Directory {
        return Ok(());
    }
    let cover = cover_path(plugin);
    let begin = || plugin.shared.as_ref().map(|shared| shared.calls.begin("detach-cut", id, None));
    let mut logged = None;
    for path in volume.paths.keys() {
        // A cover reaches the peers of a mount too.
        let MountState::Volume(flags) = volume.mount_state(path)? else {
            continue;
        };
        if flags.read_only {
            continue;
        }
        if logged.is_none() {
            logged = begin();
            make_cover(plugin, &volume.data)?;
        }
        let bound = plugin.host.mounter.bind(&cover, Path::new(path), flags);
        bound.map_err(HostError::from)?;
        tracing::warn!(volume.external_id = %id, %path,
            "the volume was detached while it is in use: it is read-only here now");
    }
    if let Some(logged) = logged {
        remove_cover(plugin)?;
        logged.set_outcome(StatusCode::Ok);
    }
    Ok(())
}

/// Where the read-only mount is made that covers others. A mount that is made read-only after it is in place would reach
/// its peers writable.
fn cover_path(plugin: &Plugin) -> PathBuf {
    plugin.state_dir.join("cut")
}

fn make_cover(plugin: &Plugin, data: &Path) -> Result<(), HostError> {
    let path = cover_path(plugin);
    create_subdirectory(&path).map_err(HostError::io("create the directory `cut`"))?;
    let read_only = MountFlags { read_only: true, ..MountFlags::default() };
    Ok(plugin.host.mounter.bind(data, &path, read_only)?)
}

/// Unmounts the mount of [`make_cover`], also one that a crash has left.
fn remove_cover(plugin: &Plugin) -> Result<(), HostError> {
    let (mounter, path) = (&plugin.host.mounter, cover_path(plugin));
    while mounter.is_mount_point(&path)? {
        mounter.unmount(&path)?;
    }
    Ok(())
}

/// Refuses a volume that could not be cut.
pub(super) fn check_can_be_cut(volume: &Volume) -> Result<(), FailedPrecondition> {
    if !volume.plugin.detach_cuts() || volume.backing() == Backing::Directory {
        return Ok(());
    }
    Err(FailedPrecondition(format!(
        "volume `{}` is not a directory, and --detach-cuts cuts a node off from directories only: create the volume with the parameter backing=directory, or start the node without --detach-cuts",
        volume.id()
    )))
}
