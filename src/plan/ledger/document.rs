//! The JSON documents of a ledger, with their format version.
//!
//! A document of a newer format is refused. A document with an unknown field is also refused, because
//! writing it back would lose that field.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::entry::{Entry, Ownership};
use super::hash::{FieldHash, LedgerKey};
use super::history::SetHistory;
use super::intent::Intent;
use super::shard_name::ShardName;
use super::stored_set::{FORMAT, LedgerProblem};
use nomad_csi_model::{Namespace, NamespacedId, VolumeId};

/// The document of the head shard: the data of the set as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadDocument {
    pub(super) format: u32,
    /// The number of times that the set was written.
    pub(super) sequence: u64,
    /// The unique ID of this write. A writer that lost the response finds its own ID.
    pub(super) save: String,
    pub(super) key: LedgerKey,
    /// The applied saved plans, with their times.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) plans: BTreeMap<String, i64>,
    /// The hashes of the volumes that the set released, the latest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) released: Vec<FieldHash>,
}

impl HeadDocument {
    pub(super) fn history(&self) -> SetHistory {
        SetHistory { plans: self.plans.clone(), released: self.released.clone() }
    }
}

/// The document of another shard: a part of the set's volumes, as records or as their texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ShardDocument<R = LedgerVolume<'static>> {
    pub(super) format: u32,
    /// The sequence of the head when this shard was written.
    pub(super) sequence: u64,
    pub(super) volumes: Vec<R>,
}

impl<R: Serialize> ShardDocument<R> {
    /// Returns the text of a shard with these volumes.
    pub(super) fn text(sequence: u64, volumes: Vec<R>) -> String {
        let format = FORMAT;
        write(&Self { format, sequence, volumes })
    }
}

/// The record of one volume in a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LedgerVolume<'e> {
    namespace: Cow<'e, Namespace>,
    id: Cow<'e, VolumeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owned: Option<Cow<'e, Ownership>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<Cow<'e, Intent>>,
}

/// The JSON of a record.
pub(super) type RecordText = Box<RawValue>;

impl<'e> LedgerVolume<'e> {
    pub(super) fn new(key: &'e NamespacedId, entry: &'e Entry) -> Self {
        Self {
            namespace: Cow::Borrowed(&key.namespace),
            id: Cow::Borrowed(&key.id),
            owned: entry.owned.as_ref().map(Cow::Borrowed),
            intent: entry.intent.as_ref().map(Cow::Borrowed),
        }
    }

    pub(super) fn text(&self) -> RecordText {
        // JSON can represent every value of these types.
        to_raw_value(self).unwrap_or_default()
    }

    pub(super) fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone().into_owned(), self.id.clone().into_owned())
    }

    pub(super) fn into_entry(self) -> Entry {
        Entry { owned: self.owned.map(Cow::into_owned), intent: self.intent.map(Cow::into_owned) }
    }
}

/// A document that states its format.
pub(super) trait Versioned: DeserializeOwned {
    fn format(&self) -> u32;
}

impl Versioned for HeadDocument {
    fn format(&self) -> u32 {
        self.format
    }
}

impl Versioned for ShardDocument {
    fn format(&self) -> u32 {
        self.format
    }
}

/// Reads a document of this or an earlier format. The format of a document that is not understood is read
/// alone.
pub(super) fn read<T: Versioned>(shard: ShardName, text: &str) -> Result<T, LedgerProblem> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let parsed = serde_json::from_str::<T>(text);
    let format = match &parsed {
        Ok(document) => Some(document.format()),
        Err(_) => serde_json::from_str(text).ok().map(|Version { format }| format),
    };
    match format.filter(|format| *format > FORMAT) {
        Some(format) => Err(LedgerProblem::TooNew { shard, format }),
        None => parsed.map_err(|error| LedgerProblem::Damaged { shard, why: error.to_string() }),
    }
}

/// Writes a document.
pub(super) fn write(document: &impl Serialize) -> String {
    // JSON can represent every value of these types.
    serde_json::to_string(document).unwrap_or_default()
}
