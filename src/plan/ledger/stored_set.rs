//! The stored form of a set: shards as text with revisions, and the writes that change them.

use std::collections::BTreeMap;

use super::shard_name::ShardName;
use nomad_csi_model::NamespacedId;

/// The format that this program writes, and the newest that it reads. Format 2 records the data of
/// each volume, format 3 the plan that left it unchanged, and format 4 the volumes that the set released.
pub(super) const FORMAT: u32 = 4;

/// A stored shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredShard {
    /// The revision for a check-and-set.
    pub revision: u64,
    /// Its JSON.
    pub text: String,
}

/// A stored set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSet {
    /// Its shards; empty if the set is not stored.
    pub shards: BTreeMap<ShardName, StoredShard>,
}

impl StoredSet {
    /// Returns whether the set is not stored.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Applies a change that was written with this revision.
    pub fn record(&mut self, change: ShardChange, revision: u64) {
        match change.text {
            Some(text) => {
                let stored = StoredShard { revision, text };
                self.shards.insert(change.shard, stored);
            }
            None => drop(self.shards.remove(&change.shard)),
        }
    }
}

/// One write to a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardChange {
    /// The shard's name.
    pub shard: ShardName,
    /// The expected revision; `None` if the shard must not exist.
    pub expected: Option<u64>,
    /// The new text; `None` to remove the shard.
    pub text: Option<String>,
}

impl ShardChange {
    /// Returns the write of a shard that replaces the stored one.
    pub(super) fn of(stored: &StoredSet, shard: ShardName, text: Option<String>) -> Self {
        Self { shard, expected: stored.shards.get(&shard).map(|stored| stored.revision), text }
    }
}

/// Why a ledger cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerProblem {
    /// A newer program wrote it.
    #[error("shard `{shard}` has format {format}; this program reads up to format {FORMAT}")]
    TooNew {
        /// The shard's name.
        shard: ShardName,
        /// Its format.
        format: u32,
    },
    /// The shard is damaged.
    #[error("shard `{shard}` is damaged: {why}")]
    Damaged {
        /// The shard's name.
        shard: ShardName,
        /// The damage.
        why: String,
    },
    /// The record of one volume is larger than a shard.
    #[error("the name of volume {} is too long for the ledger", .0.quoted())]
    TooLarge(NamespacedId),
}
