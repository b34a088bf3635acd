//! Small messages and the types of the ports, both ways. What does not name its object is refused, never guessed.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::messages::{self as wire, mount_event::Action, note_lost_request::Lost};
use nomad_csi_model::{Namespace, NamespacedId, RemoteVolume, Term, VolumeId};
use nomad_csi_ports::{ClusterPosition, LostMount, MountAction, MountEvent};

/// A message is not what its sender may send. It says which part, and none of its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the message has no usable {0}")]
pub(super) struct InvalidMessage(pub(super) &'static str);

impl From<InvalidMessage> for tonic::Status {
    fn from(invalid: InvalidMessage) -> Self {
        Self::invalid_argument(invalid.to_string())
    }
}

/// Writes the JSON of the journal.
pub(super) fn to_json<T: Serialize>(
    value: &T,
    what: &'static str,
) -> Result<Vec<u8>, InvalidMessage> {
    serde_json::to_vec(value).map_err(|_| InvalidMessage(what))
}

/// Reads the JSON of the journal. The error of the reader may repeat a secret, so it is not passed on.
pub(super) fn from_json<T: DeserializeOwned>(
    bytes: &[u8],
    what: &'static str,
) -> Result<T, InvalidMessage> {
    serde_json::from_slice(bytes).map_err(|_| InvalidMessage(what))
}

pub(super) fn position_message(position: &ClusterPosition) -> wire::Position {
    let Term { epoch, revision } = position.term;
    wire::Position {
        cluster_id: position.cluster_id.clone(),
        term: Some(wire::Term { epoch, revision }),
        index: position.index,
        leader: position.leader.clone(),
    }
}

pub(super) fn position_of(
    message: Option<wire::Position>,
) -> Result<ClusterPosition, InvalidMessage> {
    let message = message.ok_or(InvalidMessage("position"))?;
    let wire::Term { epoch, revision } = message.term.ok_or(InvalidMessage("term"))?;
    if message.cluster_id.is_empty() {
        return Err(InvalidMessage("cluster ID"));
    }
    let term = Term { epoch, revision };
    let wire::Position { cluster_id, index, leader, .. } = message;
    Ok(ClusterPosition { cluster_id, term, index, leader })
}

pub(super) fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

pub(super) fn path_of(bytes: Vec<u8>) -> PathBuf {
    OsString::from_vec(bytes).into()
}

pub(super) fn lost_message(lost: &LostMount) -> Lost {
    match lost {
        LostMount::Target { alloc, alias } => Lost::Target(wire::LostTarget {
            alloc: alloc.as_str().to_owned(),
            alias: alias.as_str().to_owned(),
        }),
        LostMount::Staging(volume) => Lost::Staging(wire::LostStaging {
            plugin_id: volume.plugin_id.as_str().to_owned(),
            external_id: volume.external_id.as_str().to_owned(),
        }),
    }
}

pub(super) fn lost_of(message: Option<Lost>) -> Result<LostMount, InvalidMessage> {
    Ok(match message.ok_or(InvalidMessage("lost mount"))? {
        Lost::Target(wire::LostTarget { alloc, alias }) => {
            LostMount::Target { alloc: alloc.as_str().into(), alias: alias.as_str().into() }
        }
        Lost::Staging(wire::LostStaging { plugin_id, external_id }) => {
            LostMount::Staging(RemoteVolume {
                plugin_id: plugin_id.as_str().into(),
                external_id: external_id.as_str().into(),
            })
        }
    })
}

pub(super) fn event_message(event: MountEvent) -> wire::MountEvent {
    let action = match event.action {
        MountAction::Mount => Action::Mount,
        MountAction::Unmount => Action::Unmount,
        MountAction::Keep => Action::Keep,
    };
    wire::MountEvent {
        namespace: event.volume.namespace.as_str().to_owned(),
        volume: event.volume.id.as_str().to_owned(),
        alloc: event.alloc.map(|alloc| alloc.as_str().to_owned()),
        action: action.into(),
        error: event.error,
    }
}

pub(super) fn event_of(message: wire::MountEvent) -> Result<MountEvent, InvalidMessage> {
    let action = match message.action() {
        Action::Mount => MountAction::Mount,
        Action::Unmount => MountAction::Unmount,
        Action::Keep => MountAction::Keep,
        Action::Unspecified => return Err(InvalidMessage("action")),
    };
    Ok(MountEvent {
        volume: NamespacedId::new(Namespace::new(message.namespace), VolumeId::new(message.volume)),
        alloc: message.alloc.map(|alloc| alloc.as_str().into()),
        action,
        error: message.error,
    })
}
