//! The result of a drift check: the state of each volume and its fields.

use super::diff::FieldValue;
use super::ledger::{Intent, LastVerified};
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::Span;

/// The drift of one volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeDrift {
    /// The volume's name.
    pub key: NamespacedId,
    /// The source location of its specification, if there is one.
    pub span: Option<Span>,
    /// The baseline of the comparison.
    pub baseline: Baseline,
    /// The result of the comparison.
    pub state: DriftState,
    /// When its specification last changed; `None` if the volume does not exist.
    pub spec_index: Option<u64>,
    /// When it was last verified to be as it was applied.
    pub last_verified: Option<LastVerified>,
    /// Fields whose value in the file differs from the last applied value.
    pub pending: Vec<&'static str>,
    /// Fields that cannot be compared, because the server does not show them.
    pub not_comparable: Vec<&'static str>,
    /// Fields that have drifted and are ignored.
    pub ignored: Vec<&'static str>,
    /// The step that an earlier run did not complete.
    pub interrupted_step: Option<Intent>,
}

impl VolumeDrift {
    /// Returns whether the volume has changed, or the volume or its data is gone.
    pub fn has_drifted(&self) -> bool {
        match self.state {
            DriftState::Changed(_) | DriftState::Gone | DriftState::DataGone(_) => true,
            DriftState::Unchanged | DriftState::NotApplied | DriftState::Unknown => false,
        }
    }
}

/// The baseline of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The last applied values, from the ledger.
    Applied,
    /// The file, because the applied values are unknown.
    File,
}

/// The result of comparing a volume with its baseline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftState {
    /// No visible field has changed.
    Unchanged,
    /// These fields have changed.
    Changed(Vec<FieldDrift>),
    /// The volume no longer exists.
    Gone,
    /// The volume is registered, and its provider no longer lists its data. These fields have changed.
    DataGone(Vec<FieldDrift>),
    /// The volume does not exist, and the set never applied it.
    NotApplied,
    /// The set owns the volume, but neither the ledger nor a file has a baseline for it.
    Unknown,
}

impl DriftState {
    /// The names of all states.
    pub const NAMES: [&'static str; 6] =
        ["gone", "data-gone", "changed", "unknown", "not-applied", "unchanged"];

    /// Its name in JSON documents and metrics: `changed`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Changed(_) => "changed",
            Self::Gone => "gone",
            Self::DataGone(_) => "data-gone",
            Self::NotApplied => "not-applied",
            Self::Unknown => "unknown",
        }
    }
}

/// One field that has drifted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDrift {
    /// Its key in a specification, with dots where it is nested.
    pub field: &'static str,
    /// The value before; `None` if only its hash is known.
    pub before: Option<FieldValue>,
    /// The current value.
    pub now: FieldValue,
    /// The value in the file, compared with both.
    pub file: FileState,
}

/// The value of a drifted field in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Equal to the value before: the next apply restores it if the server allows that.
    MatchesBefore,
    /// Equal to the current value: the file already has the change.
    MatchesNow,
    /// Different from both.
    Differs,
    /// The file omits the field.
    Omitted,
}
