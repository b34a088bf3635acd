//! The ledger: the record of what a set owns.
//!
//! The ledger only guards; a plan never depends on an earlier run. A volume is removed only if the set
//! owns it. Keyed hashes show whether hidden values have changed. Intents record interrupted steps.
//! A saved plan is applied once. The data of a volume is known even if its registration is gone.
//! **Losing the ledger removes nothing**: unowned volumes are never removed, and values without a hash
//! count as unknown.
//!
//! [`LedgerSet`] is the ledger of a set. [`StoredSet`] is its stored form: shards, written by
//! check-and-set, for an adapter of `ports::Ledger`. A ledger has only hashes of values.

mod applied_values;
mod data_identity;
mod document;
mod entries;
mod entry;
mod hash;
mod history;
mod intent;
mod layout;
mod set;
mod shard_name;
mod sharding;
mod stored_set;

pub use applied_values::AppliedValues;
pub(crate) use applied_values::MOUNT_FLAGS;
pub(crate) use data_identity::changed_data;
pub use data_identity::{DataIdentity, RecordedData};
pub use entry::{LastVerified, Ownership, StoredValue};
pub(crate) use hash::CanonicalValue;
pub use hash::{FieldHash, FieldHashes, LedgerKey};
pub use intent::{Actor, Intent, IntentStep};
pub use layout::SetLayout;
pub use nomad_csi_model::{SetName, SetNameProblem};
pub use set::LedgerSet;
pub use shard_name::{ShardName, shard_order};
pub use stored_set::{LedgerProblem, ShardChange, StoredSet, StoredShard};

#[cfg(test)]
mod tests;
