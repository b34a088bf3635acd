//! What calls may have left behind, known before they are sent: pure.
//!
//! A debt is noted when a call is sent and settled by its answer. A refusal settles it, unless it
//! says nothing of how far the plugin came; a good answer turns it into what was made; the opposite
//! call removes it (CSI section "Timeouts": a call that was given up is undone by its opposite, and a
//! CreateVolume without an answer by the same CreateVolume and a DeleteVolume). What is left at the
//! end of a check is undone: targets, stagings and attachments first, then what is stored, the
//! newest first, since volumes hang on snapshots and snapshots on volumes.

use std::path::PathBuf;

use crate::csi::proto::{
    self, ControllerPublishVolumeRequest, ControllerUnpublishVolumeRequest, CreateSnapshotRequest,
    CreateVolumeGroupSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest,
    DeleteVolumeGroupSnapshotRequest, DeleteVolumeRequest, NodePublishVolumeRequest,
    NodeStageVolumeRequest, NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest,
};
use crate::csi::{Call, Failure, Reached};
use crate::ports::StatusCode;

/// Something that a call made, or may have made.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Made {
    /// A directory of ours.
    Directory(PathBuf),
    /// A volume whose ID is not known.
    NamelessVolume(Box<CreateVolumeRequest>),
    /// A volume.
    Volume(String),
    /// A snapshot whose ID is not known.
    NamelessSnapshot(Box<CreateSnapshotRequest>),
    /// A snapshot.
    Snapshot(String),
    /// A group snapshot whose ID is not known.
    NamelessGroup(Box<CreateVolumeGroupSnapshotRequest>),
    /// A group snapshot and its members.
    Group { id: String, members: Vec<String> },
    /// A volume at a node.
    Attachment { volume: String, node: String },
    /// A volume at a staging path.
    Staging { volume: String, path: String },
    /// A volume at a target path.
    Target { volume: String, path: String },
}

impl Made {
    /// What is undone first has the lower rank.
    fn rank(&self) -> u8 {
        match self {
            Self::Target { .. } => 0,
            Self::Staging { .. } => 1,
            Self::Attachment { .. } => 2,
            Self::NamelessVolume(_)
            | Self::Volume(_)
            | Self::NamelessSnapshot(_)
            | Self::Snapshot(_)
            | Self::NamelessGroup(_)
            | Self::Group { .. } => 3,
            Self::Directory(_) => 4,
        }
    }
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "directory {}", path.display()),
            Self::NamelessVolume(request) => write!(f, "volume of the name {:?}", request.name),
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::NamelessSnapshot(request) => write!(f, "snapshot of the name {:?}", request.name),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::NamelessGroup(request) => {
                write!(f, "group snapshot of the name {:?}", request.name)
            }
            Self::Group { id, .. } => write!(f, "group snapshot {id}"),
            Self::Attachment { volume, node } => write!(f, "volume {volume} at node {node}"),
            Self::Staging { volume, path } => write!(f, "volume {volume} staged at {path}"),
            Self::Target { volume, path } => write!(f, "volume {volume} published at {path}"),
        }
    }
}

/// What an answer says of what is there.
pub(super) enum Change {
    /// The call left nothing behind.
    Nothing,
    /// Something is there, and the answer does not say which ID it has.
    Nameless,
    /// This is there.
    There(Made),
    /// This is gone.
    Gone(Made),
}

/// What a call leaves behind.
pub(super) trait Leaves: Call {
    /// What may be there once it is sent.
    fn sent(&self) -> Option<Made> {
        None
    }

    /// What a good answer says.
    fn answered(&self, _answer: &Self::Answer) -> Change {
        Change::Nothing
    }
}

/// What is there, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    debts: Vec<(u64, Made)>,
    next: u64,
}

/// A debt of a call under way.
pub(super) struct Note(Option<u64>);

impl Ledger {
    /// Notes what a call that is about to be sent may leave behind.
    pub(super) fn sending(&mut self, request: &impl Leaves) -> Note {
        Note(request.sent().map(|made| self.owe(made)))
    }

    /// Notes something that is there.
    pub(super) fn owe(&mut self, made: Made) -> u64 {
        self.next += 1;
        self.debts.push((self.next, made));
        self.next
    }

    /// Settles a call by its answer.
    pub(super) fn settle<C: Leaves>(
        &mut self,
        note: &Note,
        request: &C,
        answer: &Result<C::Answer, Failure>,
    ) {
        match answer {
            Ok(answer) => match request.answered(answer) {
                Change::Nameless => {}
                Change::Nothing => self.forget(note),
                Change::There(made) => {
                    self.forget(note);
                    if !self.debts.iter().any(|(_, one)| *one == made) {
                        self.owe(made);
                    }
                }
                Change::Gone(made) => self.gone(&made),
            },
            Err(failure) if made_nothing(failure) => self.forget(note),
            Err(_) => {}
        }
    }

    fn forget(&mut self, note: &Note) {
        self.debts.retain(|(debt, _)| Some(*debt) != note.0);
    }

    /// Something is not there any more.
    pub(super) fn gone(&mut self, made: &Made) {
        self.debts.retain(|(_, one)| match (one, made) {
            (Made::Group { id: one, .. }, Made::Group { id, .. }) => one != id,
            // A controller unpublish without a node is from every node.
            (
                Made::Attachment {
                    volume: one,
                    node: at,
                },
                Made::Attachment { volume, node },
            ) => one != volume || !(node.is_empty() || at == node),
            (one, made) => one != made,
        });
    }

    /// Takes everything, what is to be undone first at the front.
    pub(super) fn take(&mut self) -> Vec<Made> {
        let mut debts = std::mem::take(&mut self.debts);
        debts.reverse();
        debts.sort_by_key(|(_, made)| made.rank());
        debts.into_iter().map(|(_, made)| made).collect()
    }
}

/// Whether a failed call certainly made nothing. Codes that say nothing of how far the plugin came
/// are not certain (`csi-spec` 3.6).
fn made_nothing(failure: &Failure) -> bool {
    // Nothing was sent.
    if matches!(failure.reached, Reached::NotConnected(_)) {
        return true;
    }
    match failure.code() {
        None
        | Some(
            StatusCode::Cancelled
            | StatusCode::Unknown
            | StatusCode::DeadlineExceeded
            | StatusCode::Aborted
            | StatusCode::Internal
            | StatusCode::Unavailable
            | StatusCode::DataLoss,
        ) => false,
        Some(
            StatusCode::Ok
            | StatusCode::InvalidArgument
            | StatusCode::NotFound
            | StatusCode::AlreadyExists
            | StatusCode::PermissionDenied
            | StatusCode::ResourceExhausted
            | StatusCode::FailedPrecondition
            | StatusCode::OutOfRange
            | StatusCode::Unimplemented
            | StatusCode::Unauthenticated,
        ) => true,
    }
}

macro_rules! leave_nothing {
    ($($request:ident)*) => { $(impl Leaves for proto::$request {})* };
}

leave_nothing! {
    GetPluginInfoRequest GetPluginCapabilitiesRequest ProbeRequest
    ValidateVolumeCapabilitiesRequest ListVolumesRequest GetCapacityRequest
    ControllerGetCapabilitiesRequest ListSnapshotsRequest GetSnapshotRequest
    ControllerExpandVolumeRequest ControllerGetVolumeRequest ControllerModifyVolumeRequest
    GroupControllerGetCapabilitiesRequest GetVolumeGroupSnapshotRequest
    GetMetadataAllocatedRequest GetMetadataDeltaRequest
    NodeGetVolumeStatsRequest NodeExpandVolumeRequest NodeGetCapabilitiesRequest NodeGetInfoRequest
}

impl Leaves for CreateVolumeRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::NamelessVolume(Box::new(self.clone())))
    }

    fn answered(&self, answer: &Self::Answer) -> Change {
        match &answer.volume {
            Some(volume) if !volume.volume_id.is_empty() => {
                Change::There(Made::Volume(volume.volume_id.clone()))
            }
            Some(_) | None => Change::Nameless,
        }
    }
}

impl Leaves for DeleteVolumeRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Volume(self.volume_id.clone()))
    }
}

impl Leaves for CreateSnapshotRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::NamelessSnapshot(Box::new(self.clone())))
    }

    fn answered(&self, answer: &Self::Answer) -> Change {
        match &answer.snapshot {
            Some(snapshot) if !snapshot.snapshot_id.is_empty() => {
                Change::There(Made::Snapshot(snapshot.snapshot_id.clone()))
            }
            Some(_) | None => Change::Nameless,
        }
    }
}

impl Leaves for DeleteSnapshotRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Snapshot(self.snapshot_id.clone()))
    }
}

impl Leaves for CreateVolumeGroupSnapshotRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::NamelessGroup(Box::new(self.clone())))
    }

    fn answered(&self, answer: &Self::Answer) -> Change {
        match &answer.group_snapshot {
            Some(group) if !group.group_snapshot_id.is_empty() => Change::There(Made::Group {
                id: group.group_snapshot_id.clone(),
                members: group
                    .snapshots
                    .iter()
                    .map(|snapshot| snapshot.snapshot_id.clone())
                    .collect(),
            }),
            Some(_) | None => Change::Nameless,
        }
    }
}

impl Leaves for DeleteVolumeGroupSnapshotRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Group {
            id: self.group_snapshot_id.clone(),
            members: vec![],
        })
    }
}

impl Leaves for ControllerPublishVolumeRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::Attachment {
            volume: self.volume_id.clone(),
            node: self.node_id.clone(),
        })
    }

    fn answered(&self, _: &Self::Answer) -> Change {
        Change::There(Made::Attachment {
            volume: self.volume_id.clone(),
            node: self.node_id.clone(),
        })
    }
}

impl Leaves for ControllerUnpublishVolumeRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Attachment {
            volume: self.volume_id.clone(),
            node: self.node_id.clone(),
        })
    }
}

impl Leaves for NodeStageVolumeRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }

    fn answered(&self, _: &Self::Answer) -> Change {
        Change::There(Made::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }
}

impl Leaves for NodeUnstageVolumeRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Staging {
            volume: self.volume_id.clone(),
            path: self.staging_target_path.clone(),
        })
    }
}

impl Leaves for NodePublishVolumeRequest {
    fn sent(&self) -> Option<Made> {
        Some(Made::Target {
            volume: self.volume_id.clone(),
            path: self.target_path.clone(),
        })
    }

    fn answered(&self, _: &Self::Answer) -> Change {
        Change::There(Made::Target {
            volume: self.volume_id.clone(),
            path: self.target_path.clone(),
        })
    }
}

impl Leaves for NodeUnpublishVolumeRequest {
    fn answered(&self, _: &Self::Answer) -> Change {
        Change::Gone(Made::Target {
            volume: self.volume_id.clone(),
            path: self.target_path.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::proto::{CreateVolumeResponse, Volume};

    fn create(name: &str) -> CreateVolumeRequest {
        CreateVolumeRequest {
            name: name.to_owned(),
            ..Default::default()
        }
    }

    fn created(id: &str) -> Result<CreateVolumeResponse, Failure> {
        Ok(CreateVolumeResponse {
            volume: Some(Volume {
                volume_id: id.to_owned(),
                ..Default::default()
            }),
        })
    }

    fn failed(reached: Reached) -> Result<CreateVolumeResponse, Failure> {
        Err(Failure {
            reached,
            message: String::new(),
            has_details: false,
        })
    }

    fn after(answer: &Result<CreateVolumeResponse, Failure>) -> Vec<Made> {
        let mut ledger = Ledger::default();
        let request = create("a");
        let note = ledger.sending(&request);
        ledger.settle(&note, &request, answer);
        ledger.take()
    }

    #[test]
    fn a_refusal_leaves_nothing_and_an_unknown_outcome_leaves_the_name() {
        let name = vec![Made::NamelessVolume(Box::new(create("a")))];
        for (answer, expected) in [
            (created("v"), vec![Made::Volume("v".into())]),
            (failed(Reached::Answered(StatusCode::AlreadyExists)), vec![]),
            (
                failed(Reached::Answered(StatusCode::Internal)),
                name.clone(),
            ),
            (failed(Reached::TimedOut), name.clone()),
            (failed(Reached::Broken), name.clone()),
            (failed(Reached::NotConnected(None)), vec![]),
        ] {
            assert_eq!(after(&answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn a_call_that_was_never_answered_is_a_debt() {
        let mut ledger = Ledger::default();
        let _never_settled = ledger.sending(&create("a"));
        assert_eq!(ledger.take(), [Made::NamelessVolume(Box::new(create("a")))]);
    }

    #[test]
    fn the_same_volume_twice_is_one_debt_and_deleted_is_none() {
        let mut ledger = Ledger::default();
        for _ in 0..2 {
            let note = ledger.sending(&create("a"));
            ledger.settle(&note, &create("a"), &created("v"));
        }
        assert_eq!(ledger.debts.len(), 1);
        let delete = DeleteVolumeRequest {
            volume_id: "v".into(),
            ..Default::default()
        };
        let note = ledger.sending(&delete);
        ledger.settle(&note, &delete, &Ok(proto::DeleteVolumeResponse {}));
        assert_eq!(ledger.take(), []);
    }

    #[test]
    fn what_hangs_on_something_is_undone_before_it() {
        let mut ledger = Ledger::default();
        let staging = Made::Staging {
            volume: "v".into(),
            path: "/s".into(),
        };
        let target = Made::Target {
            volume: "v".into(),
            path: "/t".into(),
        };
        let order = [
            Made::Directory("/d".into()),
            Made::Volume("v".into()),
            staging.clone(),
            Made::Snapshot("s".into()),
            target.clone(),
            Made::Volume("restored".into()),
        ];
        for made in order {
            ledger.owe(made);
        }
        assert_eq!(
            ledger.take(),
            [
                target,
                staging,
                Made::Volume("restored".into()),
                Made::Snapshot("s".into()),
                Made::Volume("v".into()),
                Made::Directory("/d".into()),
            ]
        );
    }
}
