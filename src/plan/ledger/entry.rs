//! What a ledger holds of one volume.
//!
//! Owning a volume and having begun something with it are two facts: a register that never arrived
//! leaves an intent and no ownership, so that it never makes a stranger's volume removable.

use serde::{Deserialize, Serialize};

use super::hash::FieldHashes;
use super::intent::Intent;

/// A set owns a volume: it made it, or took it over, and may remove it unless it is protected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ownership {
    /// Whether removing it is refused until somebody says otherwise.
    #[serde(default, skip_serializing_if = "is_false")]
    pub protect: bool,
    /// How often it was replaced: which of the provider's volumes of that name it is.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub generation: u32,
    /// Hashes of the fields that were last applied, by their keys in a specification
    /// (`spec::schema`), dotted where they are nested. A field that was not said is not there.
    #[serde(default, skip_serializing_if = "FieldHashes::is_empty")]
    pub applied: FieldHashes,
    /// When it was last seen as it was applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_equal: Option<SeenEqual>,
}

/// A moment at which a volume was as it was last applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeenEqual {
    /// The volume's modify index then.
    pub modify_index: u64,
    /// When, nanoseconds since the epoch.
    pub at: i64,
}

/// What a set knows of a field whose value no server shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// Nothing: it was never applied from here, or its hash is lost.
    Unknown,
    /// It was applied as empty.
    Empty,
    /// It was applied with a value.
    Given,
}

/// All that is kept of one volume; one of the two is there.
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

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
