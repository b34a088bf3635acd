//! What a set owns, written down: the ledger, as far as it needs no outside.
//!
//! A plan is computed from what is wanted and what is observed, never from what the last run
//! remembers. The ledger only guards: a volume is removed only if the set owns it and it is not
//! protected; what a server hides (secrets, mount flags) is known to be ours or changed by its keyed
//! hash; a step that was begun and not ended is an open intent; a saved plan is applied once. **Losing
//! the ledger is safe**: what nobody owns is never removed, and what has no hash is not known.
//!
//! [`LedgerSet`] is the thing; [`StoredSet`] is how it lies in a ledger, as shards below the size
//! that every server takes, each written by check-and-set. Who keeps them (Nomad's variables, a
//! file) is an adapter of `ports::Ledger`. No value of a specification is in a ledger, only hashes.

mod document;
mod entry;
mod hash;
mod intent;
mod set;
mod shard;

pub use crate::model::{SetName, SetNameProblem};
pub use entry::{Ownership, SeenEqual, StoredValue};
pub use hash::{FieldHash, FieldHashes, LedgerKey};
pub use intent::{Actor, Intent, IntentStep};
pub use set::LedgerSet;
pub use shard::{LedgerProblem, ShardChange, ShardName, StoredSet, StoredShard};

#[cfg(test)]
mod tests;
