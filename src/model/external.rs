//! A volume in a provider's list, registered or not.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::health::{VolumeStatus, VolumeStatusKind};
use super::id::{ExternalId, ExternalNodeId};

/// A volume in a provider's list (CSI's ListVolumes).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalVolume {
    /// The provider's ID of the volume.
    pub external_id: ExternalId,
    /// The size; zero if unknown.
    pub capacity: Bytes,
    /// The provider's volume context, opaque.
    pub context: BTreeMap<String, String>,
    /// The provider's ID of the volume that this one was cloned from.
    pub clone_id: Option<String>,
    /// The provider's ID of the snapshot that this one was restored from.
    pub snapshot_id: Option<String>,
    /// The provider's IDs of the nodes to which the volume is published, if it reports them.
    pub published_nodes: Vec<ExternalNodeId>,
    /// The condition, by a plugin of CSI 1.3 to 1.12; `None` if the provider does not report it.
    pub condition: Option<Condition>,
    /// The adverse conditions, by a plugin of CSI 1.13; `None` if the provider does not report them.
    pub health: Option<Vec<VolumeStatus>>,
}

impl ExternalVolume {
    /// Returns the condition, made from the health of a plugin of CSI 1.13; `None` if it reports
    /// neither. Only known kinds of statuses make a volume abnormal.
    pub fn reported_condition(&self) -> Option<Condition> {
        let of_health = |statuses: &Vec<VolumeStatus>| {
            let texts: Vec<String> = statuses.iter().map(ToString::to_string).collect();
            Condition {
                abnormal: statuses.iter().any(VolumeStatus::is_known),
                message: texts.join("; "),
            }
        };
        let condition = self.condition.clone();
        condition.or_else(|| self.health.as_ref().map(of_health))
    }

    /// Returns the adverse conditions that the provider reports in either way; `None` if it reports
    /// neither.
    pub fn statuses(&self) -> Option<Vec<VolumeStatus>> {
        let abnormal = |condition: &Condition| condition.status().into_iter().collect();
        let condition = self.condition.as_ref().map(abnormal);
        self.health.clone().or(condition)
    }
}

/// The condition of a volume as its provider reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// True if the volume has a problem.
    pub abnormal: bool,
    /// A description for users.
    pub message: String,
}

impl Condition {
    /// Returns the adverse condition; `None` if the volume has no problem.
    pub fn status(&self) -> Option<VolumeStatus> {
        self.abnormal.then(|| VolumeStatus {
            kind: VolumeStatusKind::Abnormal,
            reason: String::new(),
            message: self.message.clone(),
        })
    }
}
