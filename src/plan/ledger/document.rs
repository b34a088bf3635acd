//! The JSON of a shard, with its version.
//!
//! A document says first of which format it is. One of a later program is refused and not
//! misread; so is one with a field that this program does not know, since writing it back would lose
//! that field.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::entry::{Entry, Ownership};
use super::hash::LedgerKey;
use super::intent::Intent;
use super::shard::{LedgerProblem, ShardName};
use crate::model::{Namespace, NamespacedId, VolumeId};

/// The format that this program writes, and the latest that it reads.
pub(super) const FORMAT: u32 = 1;

/// What concerns a set as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub(super) format: u32,
    /// Counts the times that the set was written.
    pub(super) sequence: u64,
    /// Told apart from every other writing: who finds it there after a lost reply knows that it is
    /// his.
    pub(super) save: String,
    pub(super) key: LedgerKey,
    /// Saved plans that were applied, and when.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) plans: BTreeMap<String, i64>,
}

/// A part of a set's volumes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shard {
    pub(super) format: u32,
    /// The head's, when this was written.
    pub(super) sequence: u64,
    pub(super) volumes: Vec<Row>,
}

/// A volume of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    namespace: Namespace,
    id: VolumeId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owned: Option<Ownership>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    intent: Option<Intent>,
}

impl Row {
    pub(super) fn new(key: &NamespacedId, entry: &Entry) -> Self {
        Self {
            namespace: key.namespace.clone(),
            id: key.id.clone(),
            owned: entry.owned.clone(),
            intent: entry.intent.clone(),
        }
    }

    pub(super) fn key(&self) -> NamespacedId {
        NamespacedId::new(self.namespace.clone(), self.id.clone())
    }

    pub(super) fn entry(&self) -> Entry {
        Entry {
            owned: self.owned.clone(),
            intent: self.intent.clone(),
        }
    }
}

/// Reads a document of this format or an earlier one.
pub(super) fn read<T: DeserializeOwned>(shard: &ShardName, text: &str) -> Result<T, LedgerProblem> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let damaged = |error: serde_json::Error| LedgerProblem::Damaged {
        shard: shard.clone(),
        why: error.to_string(),
    };
    let Version { format } = serde_json::from_str(text).map_err(damaged)?;
    if format > FORMAT {
        let shard = shard.clone();
        return Err(LedgerProblem::TooNew { shard, format });
    }
    serde_json::from_str(text).map_err(damaged)
}

/// Writes a document.
pub(super) fn write(document: &impl Serialize) -> String {
    // Texts, numbers and lists of them: there is nothing that JSON could not hold.
    serde_json::to_string(document).unwrap_or_default()
}
