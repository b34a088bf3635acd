//! Commits and the decision about them.
//!
//! A commit is one or more events with what their author [`Expected`] to find. It succeeds completely
//! or not at all: what was expected is checked first, then each event against the state that the
//! events before it left.

use std::collections::HashSet;

use tokio::sync::oneshot;

use super::state_limits::{LimitReached, StateLimits, StateSizes};
use crate::error::NamespaceUser;
use crate::journal::JournalError;
use nomad_csi_claims::claim::Step;
use nomad_csi_claims::state::{
    ControllerCall, ControllerEffect, Event, EventConflict, Overlay, Phase, State, Subject, apply,
    check, may_be_called, volumes_sharing,
};
use nomad_csi_model::{
    AllocId, ExternalId, JobKey, NamespacedId, Node, NodeId, RemoteVolume, VariableKey,
};

/// The state that a commit relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state that the event fits.
    Any,
    /// No record of that volume, in any phase.
    VolumeAbsent(NamespacedId),
    /// The record of that volume was last changed at this index.
    VolumeAt(NamespacedId, u64),
    /// The record of that volume or its claims were last changed at this index: nothing claimed or released it since.
    VolumeUsedAt(NamespacedId, u64),
    /// The record of that volume was last changed at this index, and no other volume is registered with this data.
    VolumeAloneAt {
        /// The volume.
        key: NamespacedId,
        /// The index of its last change; `None` without a record.
        at: Option<u64>,
        /// Its data.
        data: RemoteVolume,
    },
    /// The claims of that volume were last changed at this index; `None` if it has none.
    ClaimsAt(RemoteVolume, Option<u64>),
    /// The controller call may go to this instance (rule 4 of the claims machine).
    Controller(ControllerCall, AllocId),
    /// The step is due for that volume.
    StepDue(RemoteVolume, Step),
    /// A claim of that volume is the last one of its allocation, of all volumes, or is not.
    LastClaim {
        /// The volume.
        volume: RemoteVolume,
        /// The allocation.
        alloc: AllocId,
        /// True if it is the last one.
        is_last: bool,
    },
    /// The job was last changed at this index; `None` if it does not exist.
    JobAt(JobKey, Option<u64>),
    /// The node is as the author read it.
    NodeIs(Box<Node>),
    /// The namespace exists into which the commit puts something.
    NamespaceOf(NamespaceUser),
    /// That variable was last changed at this index; `None` if it does not exist.
    VariableAt(VariableKey, Option<u64>),
}

impl Expected {
    fn subjects(&self, overlay: &Overlay<'_>) -> Vec<Subject> {
        match self {
            Self::Any => vec![],
            Self::VolumeAbsent(key) | Self::VolumeAt(key, _) | Self::VolumeUsedAt(key, _) => {
                vec![Subject::Volume(key.clone())]
            }
            Self::VolumeAloneAt { key, data, .. } => {
                let mut all = overlay.subjects_of_data(data);
                all.push(Subject::Volume(key.clone()));
                all
            }
            Self::JobAt(key, _) => vec![Subject::Job(key.clone())],
            Self::NodeIs(node) => vec![Subject::Node(node.id.clone())],
            Self::NamespaceOf(user) => vec![Subject::Namespace(user.namespace().clone())],
            Self::VariableAt(key, _) => vec![Subject::Variable(key.clone())],
            Self::ClaimsAt(volume, _) => vec![Subject::Claims(volume.clone())],
            Self::Controller(call, _) => overlay.subjects_of_controller(call),
            Self::StepDue(volume, _) => overlay.subjects_of_steps(volume),
            Self::LastClaim { alloc, .. } => overlay.subjects_of_claims(alloc),
        }
    }

    pub(super) fn check(&self, state: &State) -> Result<(), CommitError> {
        match self {
            Self::Any => Ok(()),
            Self::VolumeAbsent(key) => check_volume(state, key, None),
            Self::VolumeAt(key, index) => check_volume(state, key, Some(*index)),
            Self::VolumeUsedAt(key, index) => {
                let record = state.record(key);
                if record.map(|record| record.visible_index()) == Some(*index) {
                    return Ok(());
                }
                Err(CommitError::Conflict {
                    volume: key.clone(),
                    found: record.map(|record| (record.phase, record.modify_index)),
                })
            }
            Self::VolumeAloneAt { key, at, data } => {
                check_volume(state, key, *at)?;
                let mut others = volumes_sharing(state, &data.plugin_id, &data.external_id);
                others.retain(|other| other != key);
                let shared = CommitError::Shared {
                    volume: key.clone(),
                    external_id: data.external_id.clone(),
                    others: others.clone(),
                };
                others.is_empty().then_some(()).ok_or(shared)
            }
            Self::ClaimsAt(volume, index) => {
                let found = state.claims(volume).map(|record| record.modify_index);
                let volume = volume.clone();
                let conflict = CommitError::ClaimsConflict { volume };
                (found == *index).then_some(()).ok_or(conflict)
            }
            Self::Controller(call, instance) => match may_be_called(state, call, instance) {
                true => Ok(()),
                false => Err(bound_elsewhere(state, call)),
            },
            Self::StepDue(volume, step) => {
                let is_due = state.claim_steps(volume).contains(step);
                let volume = volume.clone();
                let conflict = CommitError::ClaimsConflict { volume };
                is_due.then_some(()).ok_or(conflict)
            }
            Self::LastClaim { volume, alloc, is_last } => {
                let is_so = state.has_one_claim(alloc) == *is_last;
                let volume = volume.clone();
                let conflict = CommitError::ClaimsConflict { volume };
                is_so.then_some(()).ok_or(conflict)
            }
            Self::JobAt(key, index) => {
                let found = state.job(key).map(|record| record.modify_index);
                let conflict = CommitError::JobConflict { job: key.clone() };
                (found == *index).then_some(()).ok_or(conflict)
            }
            Self::NodeIs(node) => {
                let is_same = state.node(&node.id) == Some(&**node);
                let node = node.id.clone();
                let conflict = CommitError::NodeConflict { node };
                is_same.then_some(()).ok_or(conflict)
            }
            Self::NamespaceOf(user) => match state.namespace(user.namespace()) {
                Some(_) => Ok(()),
                None => Err(CommitError::NoNamespace { user: Box::new(user.clone()) }),
            },
            Self::VariableAt(key, index) => {
                let found = state.variable(key).map(|record| record.modify_index);
                let variable = key.clone();
                let conflict = CommitError::VariableConflict { variable };
                (found == *index).then_some(()).ok_or(conflict)
            }
        }
    }
}

/// The conflict with a call that went to another instance.
fn bound_elsewhere(state: &State, call: &ControllerCall) -> CommitError {
    let of_record = |key: &NamespacedId| {
        let found = state.record(key).map(|record| (record.phase, record.modify_index));
        CommitError::Conflict { volume: key.clone(), found }
    };
    match call {
        ControllerCall::Create { key, .. } => of_record(key),
        ControllerCall::OfVolume { volume, effect } => match effect {
            ControllerEffect::Intended(key, _) => of_record(key),
            ControllerEffect::Attached(_) | ControllerEffect::Unrecorded => {
                CommitError::ClaimsConflict { volume: volume.clone() }
            }
        },
    }
}

fn check_volume(state: &State, key: &NamespacedId, at: Option<u64>) -> Result<(), CommitError> {
    let found = state.record(key);
    let found = found.map(|record| (record.phase, record.modify_index));
    if found.map(|(_, index)| index) == at {
        return Ok(());
    }
    let volume = key.clone();
    Err(CommitError::Conflict { volume, found })
}

/// Why an event was not committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Another change came first. Read and decide again.
    #[error("volume {volume} has changed in the meantime")]
    Conflict {
        /// The volume.
        volume: NamespacedId,
        /// Its phase and the index of its last change; `None` without a record.
        found: Option<(Phase, u64)>,
    },
    /// Another change came first. Read and decide again.
    #[error("variable {variable} has changed in the meantime")]
    VariableConflict {
        /// The variable.
        variable: VariableKey,
    },
    /// Another change came first. Read and decide again.
    #[error("job {} has changed in the meantime", job.quoted())]
    JobConflict {
        /// The job.
        job: JobKey,
    },
    /// Another change came first. Read and decide again.
    #[error("node `{node}` has changed in the meantime")]
    NodeConflict {
        /// The node.
        node: NodeId,
    },
    /// The namespace of the commit does not exist.
    #[error("namespace `{}` does not exist", user.namespace())]
    NoNamespace {
        /// The object that the commit puts into it.
        user: Box<NamespaceUser>,
    },
    /// Other volumes are registered with the data of the volume.
    #[error("the data of volume {volume} is registered as another volume")]
    Shared {
        /// The volume.
        volume: NamespacedId,
        /// The external ID of the data.
        external_id: ExternalId,
        /// The other volumes.
        others: Vec<NamespacedId>,
    },
    /// The claims of the volume, or what is due for it, changed first. Read and decide again.
    #[error("the claims of volume `{}` have changed in the meantime", volume.external_id)]
    ClaimsConflict {
        /// The volume.
        volume: RemoteVolume,
    },
    /// The event does not fit the current volume or variable.
    #[error(transparent)]
    InvalidEvent(#[from] EventConflict),
    /// The journal could not store the event.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The state has as much as it may have.
    #[error(transparent)]
    LimitReached(#[from] LimitReached),
    /// The agent is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

impl CommitError {
    /// Returns the error with its cause, for a log.
    pub fn detail(&self) -> String {
        match self {
            Self::Journal(error) => format!("{error}: {}", error.source),
            Self::Conflict { .. }
            | Self::VariableConflict { .. }
            | Self::ClaimsConflict { .. }
            | Self::JobConflict { .. }
            | Self::NodeConflict { .. }
            | Self::NoNamespace { .. }
            | Self::Shared { .. }
            | Self::InvalidEvent(_)
            | Self::LimitReached(_)
            | Self::Stopping => self.to_string(),
        }
    }
}

/// Events that are committed together, and who waits for the result.
pub(super) struct Commit {
    pub expected: Vec<Expected>,
    pub events: Vec<Event>,
    pub reply: CommitReply,
}

/// Receives the index of the commit's last event.
pub(super) type CommitReply = oneshot::Sender<Result<u64, CommitError>>;

/// Decides about a commit after those that the overlay has, and adds it. Returns the index of its last
/// event.
pub(super) fn decide(
    overlay: &mut Overlay<'_>,
    sizes: &mut StateSizes,
    limits: &StateLimits,
    commit: &Commit,
) -> Result<u64, CommitError> {
    let expected = commit.expected.iter();
    let expected = expected.flat_map(|expected| expected.subjects(overlay));
    let of_event = |event: &Event| overlay.subjects_of(&event.kind);
    let subjects: HashSet<_> = expected.chain(commit.events.iter().flat_map(of_event)).collect();
    overlay.attempt(subjects, |state| {
        for expected in &commit.expected {
            expected.check(state)?;
        }
        for event in &commit.events {
            check(state, event)?;
            apply(state, event);
        }
        // Only now: a request that is refused for what it says learns why.
        sizes.admit(limits, &commit.events)?;
        Ok(state.index())
    })
}
