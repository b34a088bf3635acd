//! The health of volumes and of storage, as plugins report it (CSI 1.13).
//!
//! No status means that no adverse condition is known, not that there is none. A status of a later
//! version of CSI is shown, and no decision depends on it.

use serde::{Deserialize, Serialize};

use super::capability::AttachmentMode;
use super::id::NodeId;

/// An adverse condition of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeStatus {
    /// The kind of condition.
    pub kind: VolumeStatusKind,
    /// A short word for machines, such as `DataMissing`. The plugin chooses it.
    pub reason: String,
    /// A description for people; may be empty.
    pub message: String,
}

impl VolumeStatus {
    /// Returns whether decisions may depend on it. A kind that is not known is only shown.
    pub const fn is_known(&self) -> bool {
        !matches!(self.kind, VolumeStatusKind::Unknown(_))
    }
}

impl std::fmt::Display for VolumeStatus {
    /// Writes `DATA_LOSS (DataMissing): message`, without the parts that are empty.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.reason.is_empty() {
            write!(f, " ({})", self.reason)?;
        }
        match self.message.as_str() {
            "" => Ok(()),
            message => write!(f, ": {message}"),
        }
    }
}

/// The kind of a volume's condition (`VolumeHealthErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VolumeStatusKind {
    /// Usable, but not at its best.
    Degraded,
    /// Not usable: from every node if the controller reports it, else from one node.
    Inaccessible,
    /// Data is lost for good, or this is strongly suspected.
    DataLoss,
    /// Abnormal, by a plugin of CSI 1.3 to 1.12 (`VolumeCondition`), which has no kinds.
    Abnormal,
    /// A kind that this program does not know, by its number.
    Unknown(i32),
}

/// Returns the word of a metric for the worst of the conditions; `ok` without any. A kind that is not known
/// is `other`, so there are few words.
pub fn health_word(statuses: &[VolumeStatus]) -> &'static str {
    let severity = |kind: VolumeStatusKind| match kind {
        VolumeStatusKind::Unknown(_) => (1, "other"),
        VolumeStatusKind::Degraded => (2, "degraded"),
        VolumeStatusKind::Abnormal => (3, "abnormal"),
        VolumeStatusKind::Inaccessible => (4, "inaccessible"),
        VolumeStatusKind::DataLoss => (5, "data_loss"),
    };
    let worst = statuses.iter().map(|status| severity(status.kind)).max();
    worst.map_or("ok", |(_, word)| word)
}

/// The health of a volume, as its controller and the nodes that use it report it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VolumeHealth {
    /// The adverse conditions, with the node that reports each; the controller's have none.
    pub statuses: Vec<(Option<NodeId>, VolumeStatus)>,
    /// Why the controller or a node did not answer.
    pub unknown: Vec<String>,
}

/// An adverse condition of the storage behind a plugin, as one node sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StorageStatus {
    /// The kind of condition.
    pub kind: StorageStatusKind,
    /// A short word for machines, such as `NoSpace`. The plugin chooses it.
    pub reason: String,
    /// A description for people; may be empty.
    pub message: String,
    /// The volumes that are affected: those with this attachment mode, or all.
    pub attachment_mode: Option<AttachmentMode>,
}

/// The kind of a storage condition (`StorageHealthErrorType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StorageStatusKind {
    /// Reachable, but not at its best.
    Degraded,
    /// Not reachable from the node.
    Unreachable,
    /// A kind that this program does not know, by its number.
    Unknown(i32),
}

impl std::fmt::Display for VolumeStatusKind {
    /// Writes the name in CSI. One that is not known is `TYPE_` and its number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Degraded => f.write_str("DEGRADED"),
            Self::Inaccessible => f.write_str("INACCESSIBLE"),
            Self::DataLoss => f.write_str("DATA_LOSS"),
            Self::Abnormal => f.write_str("ABNORMAL"),
            Self::Unknown(number) => write!(f, "TYPE_{number}"),
        }
    }
}

impl VolumeStatusKind {
    /// Parses what `Display` writes. Any other text is a kind that is not known.
    pub fn parse(name: &str) -> Self {
        match name {
            "DEGRADED" => Self::Degraded,
            "INACCESSIBLE" => Self::Inaccessible,
            "DATA_LOSS" => Self::DataLoss,
            "ABNORMAL" => Self::Abnormal,
            other => Self::Unknown(unknown_number(other)),
        }
    }
}

impl std::fmt::Display for StorageStatusKind {
    /// Writes the name in CSI. One that is not known is `TYPE_` and its number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Degraded => f.write_str("STORAGE_DEGRADED"),
            Self::Unreachable => f.write_str("STORAGE_UNREACHABLE"),
            Self::Unknown(number) => write!(f, "TYPE_{number}"),
        }
    }
}

impl StorageStatusKind {
    /// Parses what `Display` writes. Any other text is a kind that is not known.
    pub fn parse(name: &str) -> Self {
        match name {
            "STORAGE_DEGRADED" => Self::Degraded,
            "STORAGE_UNREACHABLE" => Self::Unreachable,
            other => Self::Unknown(unknown_number(other)),
        }
    }
}

fn unknown_number(name: &str) -> i32 {
    let digits = name.strip_prefix("TYPE_").unwrap_or_default();
    digits.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_condition_is_the_word_of_a_volume() {
        let status = |kind| VolumeStatus { kind, reason: String::new(), message: String::new() };
        let from_best = [
            (VolumeStatusKind::Unknown(9), "other"),
            (VolumeStatusKind::Degraded, "degraded"),
            (VolumeStatusKind::Abnormal, "abnormal"),
            (VolumeStatusKind::Inaccessible, "inaccessible"),
            (VolumeStatusKind::DataLoss, "data_loss"),
        ];
        assert_eq!(health_word(&[]), "ok");
        let mut statuses = vec![];
        for (kind, word) in from_best {
            statuses.insert(0, status(kind));
            assert_eq!(health_word(&statuses), word);
        }
    }

    #[test]
    fn every_kind_survives_its_text() {
        for kind in [
            VolumeStatusKind::Degraded,
            VolumeStatusKind::Inaccessible,
            VolumeStatusKind::DataLoss,
            VolumeStatusKind::Abnormal,
            VolumeStatusKind::Unknown(7),
        ] {
            assert_eq!(VolumeStatusKind::parse(&kind.to_string()), kind);
        }
        for kind in [
            StorageStatusKind::Degraded,
            StorageStatusKind::Unreachable,
            StorageStatusKind::Unknown(7),
        ] {
            assert_eq!(StorageStatusKind::parse(&kind.to_string()), kind);
        }
    }
}
