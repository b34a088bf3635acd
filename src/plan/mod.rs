//! Wanted against observed: what would be done, and what would be refused.
//!
//! Pure: a plan is a function of specifications, of what a server showed, and of the rules by which
//! that server merges.

mod action;
mod build;
mod depend;
mod diff;
mod hidden;
mod holder;
mod inputs;
mod ledger;
mod merge;
mod permissions;
mod pin;
mod precondition;
mod removal;
mod remove;
mod risk;
#[cfg(test)]
mod samples;
mod stakes;
mod update;

pub use action::{Action, Counts, Plan, Planned, Replace, ReplaceSteps, Update, Wait};
pub use build::build;
pub use diff::{Change, Shown, diff};
pub use hidden::{HiddenField, Remembered};
pub use holder::Holder;
pub use inputs::{Inputs, Observed, Owned, OwnedVolume, PluginState, Requests};
pub use ledger::{
    Actor, FieldHash, FieldHashes, Intent, IntentStep, LedgerKey, LedgerProblem, LedgerSet,
    Ownership, SeenEqual, SetName, SetNameProblem, ShardChange, ShardName, StoredSet, StoredShard,
    StoredValue,
};
pub use merge::{
    Expansion, MergeRules, Merged, MountOptionsRule, OmittedMap, Refusal, SecretsChange,
    TopologyRule, UnknownCapacityRule, merge,
};
pub use permissions::{
    Grants, LedgerPlace, Needs, Permission, Step, VolumeCapability, missing_permissions,
};
pub use pin::Pin;
pub use removal::{Removal, removal_problems};
pub use risk::{LastSnapshot, Loss, Risk, Stakes, Undo};
pub use update::remaining;
