//! Cutting a node off from a volume that was detached while it is staged there (`--detach-cuts`).
//!
//! A read-only mount of the volume covers each of its writable mounts, so every later open for writing fails there. Unlike a
//! remount, a cover needs no file to be closed, and reaches the mounts of tasks that follow those of the host. It does not
//! reach a file that is open for writing, and not a private copy of a mount in the namespace of a task. Unpublishing and
//! unstaging remove the covers, and staging again mounts the volume as requested.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::volume::{MountState, Volume};
use crate::catalog::Backing;
use crate::error::{FailedPrecondition, HostError, StageVolumeError};
use crate::plugin::Plugin;

use nomad_csi_ports::{MountFlags, StatusCode};

/// Cuts every volume that is not attached to this node any more, and returns why a volume could not be cut. A volume that
/// another call works on is left to the next look.
pub(crate) fn cut_detached(plugin: &Arc<Plugin>) -> Result<BTreeMap<String, String>, HostError> {
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
    let states = volume.paths.keys().map(|path| Ok((path, volume.mount_state(path)?)));
    let states: Vec<_> = states.collect::<Result<_, HostError>>()?;
    let writable: Vec<_> = states.into_iter().filter(|(_, state)| is_writable(*state)).collect();
    if writable.is_empty() {
        return Ok(());
    }
    let logged = plugin.shared.as_ref().map(|shared| shared.calls.begin("detach-cut", id, None));
    for (path, _) in writable {
        let cover = MountFlags { read_only: true, ..MountFlags::default() };
        let bound = plugin.host.mounter.bind(Path::new(path), Path::new(path), cover);
        bound.map_err(HostError::from)?;
        tracing::warn!(volume.external_id = %id, %path,
            "the volume was detached while it is in use: it is read-only here now");
    }
    if let Some(logged) = logged {
        logged.set_outcome(StatusCode::Ok);
    }
    Ok(())
}

fn is_writable(state: MountState) -> bool {
    match state {
        MountState::Volume(flags) => !flags.read_only,
        MountState::NotMounted | MountState::LostDevice | MountState::Foreign => false,
    }
}

/// Refuses a volume that could not be cut.
pub(super) fn check_can_be_cut(volume: &Volume) -> Result<(), FailedPrecondition> {
    let cuts = volume.plugin.shared.as_ref().is_some_and(|shared| shared.detach_cuts);
    if !cuts || volume.backing() == Backing::Directory {
        return Ok(());
    }
    Err(FailedPrecondition(format!(
        "volume `{}` is not a directory, and --detach-cuts cuts a node off from directories only: create the volume with the parameter backing=directory, or start the node without --detach-cuts",
        volume.id()
    )))
}
