//! Wanted against observed: what would be done, and what would be refused.
//!
//! Pure: a plan is a function of specifications, of what a server showed, and of the rules by which
//! that server merges.

mod action;
mod approval;
mod awaited;
mod build;
mod deny;
mod depend;
mod diff;
mod drift;
mod fields;
mod findings;
mod hidden;
mod holder;
mod import;
mod inputs;
mod ledger;
mod merge;
mod permissions;
mod pin;
mod precondition;
mod removal;
mod remove;
mod risk;
mod rules;
#[cfg(test)]
mod samples;
mod saved;
mod stakes;
mod update;

pub use crate::model::HiddenField;
pub use action::{Action, Counts, Plan, Planned, Replace, ReplaceSteps, Update, Wait};
pub use approval::{Approvals, Unapproved};
pub use awaited::{Awaited, Standing};
pub use build::build;
pub use deny::DenyRule;
pub use diff::{Change, Shown, diff};
pub use drift::{Basis, DriftInputs, DriftState, FieldDrift, FileSays, VolumeDrift, drift};
pub use findings::{Finding, findings, note_findings, unfinished};
pub use hidden::Remembered;
pub use holder::Holder;
pub use import::{Imported, Mark, Surroundings, import};
pub use inputs::{Inputs, Observed, Owned, OwnedVolume, PluginState, Requests};
pub use ledger::{
    Actor, FieldHash, FieldHashes, Intent, IntentStep, LedgerKey, LedgerProblem, LedgerSet,
    Ownership, SeenEqual, SetName, SetNameProblem, ShardChange, ShardName, StoredSet, StoredShard,
    StoredValue,
};
pub use merge::{Expansion, Merged, Refusal, SecretsChange, merge};
pub use permissions::{
    Grants, LedgerPlace, Needs, Permission, Step, VolumeCapability, missing_permissions,
};
pub use pin::Pin;
pub use removal::{Removal, forced_claims, removal_problems};
pub use remove::protected_by;
pub use risk::{LastSnapshot, Loss, Risk, Stakes, Undo};
pub use rules::{
    CreateRule, MergeRules, MountOptionsRule, OmittedMap, TopologyRule, UnknownCapacityRule,
    Unseen, UpdateRule, rules_remark,
};
pub use saved::{Origin, SavedPlan, SavedPlanProblem};
pub use update::remaining;
