//! Wanted against observed: what would be done, and what would be refused.
//!
//! Pure: a plan is a function of specifications, of what a server showed, and of the rules by which
//! that server merges.

mod action;
mod build;
mod diff;
mod ledger;
mod merge;
mod pin;
mod removal;

pub use action::{Action, Counts, Plan, Planned, Update};
pub use build::{Observed, PluginState, build, remaining};
pub use diff::{Change, Shown, diff};
pub use ledger::{
    Actor, FieldHash, FieldHashes, Intent, IntentStep, LedgerKey, LedgerProblem, LedgerSet,
    Ownership, SeenEqual, SetName, SetNameProblem, ShardChange, ShardName, StoredSet, StoredShard,
    StoredValue,
};
pub use merge::{
    Expansion, MergeRules, Merged, MountOptionsRule, OmittedMap, Refusal, SecretsChange,
    TopologyRule, UnknownCapacityRule, merge,
};
pub use pin::Pin;
pub use removal::{Removal, removal_problems};
