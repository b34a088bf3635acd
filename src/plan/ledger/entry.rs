//! The ledger's entry for one volume.
//!
//! Ownership and an open intent are separate. A registration that never arrived leaves an intent
//! without ownership, so it never makes a volume of another owner removable.

use serde::{Deserialize, Serialize};

use super::data_identity::RecordedData;
use super::hash::{FieldHash, FieldHashes};
use super::intent::Intent;

/// A set's ownership of a volume that it created or adopted. The set may remove the volume unless it
/// is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ownership {
    /// True if the volume is protected from removal.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protect: bool,
    /// How often the volume was replaced, which distinguishes the provider's volumes of this name.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// Hashes of the last applied fields, by their keys in a specification, with dots where they are
    /// nested. Omitted fields have no hash.
    #[serde(default, skip_serializing_if = "FieldHashes::is_empty")]
    pub applied: FieldHashes,
    /// The data of the volume.
    #[serde(default, skip_serializing_if = "RecordedData::is_unrecorded")]
    pub data: RecordedData,
    /// When the volume was last verified to be as it was applied.
    #[serde(rename = "seen_equal", default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<LastVerified>,
}

/// When a volume was last verified to be as it was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastVerified {
    /// When its specification had last changed at that time.
    #[serde(rename = "modify_index")]
    pub spec_index: u64,
    /// The time, in nanoseconds since the epoch.
    pub at: i64,
    /// The hash of everything else that the plan of the volume depended on, if the plan left the volume
    /// unchanged without a warning; see [`crate::CachedVolumes`].
    #[serde(rename = "plan", default, skip_serializing_if = "Option::is_none")]
    pub plan_inputs: Option<FieldHash>,
}

impl LastVerified {
    /// How long the time of a verification stays as it is, in nanoseconds: a day.
    const RENEWED_AFTER: i64 = 24 * 60 * 60 * 1_000_000_000;

    /// Returns what to record: this verification, or an earlier one that is less than a day older and says
    /// the same. So a set is not written again at each run.
    pub(crate) fn after(self, earlier: Option<Self>) -> Self {
        let says_the_same = |earlier: &Self| {
            earlier.spec_index == self.spec_index && earlier.plan_inputs == self.plan_inputs
        };
        let is_recent = |earlier: &Self| {
            let age = self.at.checked_sub(earlier.at);
            age.is_some_and(|age| (0..Self::RENEWED_AFTER).contains(&age))
        };
        earlier.filter(says_the_same).filter(is_recent).unwrap_or(self)
    }
}

/// The record of the ledger about a hidden value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// Nothing: it was never applied, or its hash is lost.
    Unknown,
    /// It was applied as empty.
    Empty,
    /// It was applied with a value.
    Given,
}

/// The entry of one volume, with an ownership, an intent or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) owned: Option<Ownership>,
    pub(super) intent: Option<Intent>,
}

impl Entry {
    pub(super) fn is_empty(&self) -> bool {
        self.owned.is_none() && self.intent.is_none()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
