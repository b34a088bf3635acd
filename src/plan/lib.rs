//! Owns the comparison of desired with observed volumes: differences, refusals, risks, drift, the content of the ledger, and
//! what is wrong with a volume ([`doctor`]).
//!
//! A plan is a pure function of the specifications, the observed state of the server and the rules by
//! which that server merges updates. Nothing in this crate calls a server.

mod action;
mod approval;
mod away_nodes;
mod build;
mod claim_drops;
mod claiming_alloc;
mod creation_limits;
mod cut_offs;
mod denials;
mod deny;
mod depend;
mod diff;
pub mod doctor;
mod drift;
#[cfg(test)]
mod field_forms;
mod hidden_values;
mod impact;
mod import;
mod inputs;
mod job_lint;
mod ledger;
mod lost_access;
mod merge;
mod offline_expansions;
mod outdated_snapshots;
mod owned_data;
mod owned_data_messages;
mod ownership_changes;
mod permissions;
mod plugin_snapshots;
mod policy;
mod preconditions;
mod provided_data;
mod provider_list;
mod provider_query;
mod release_rule;
mod removal_checks;
mod removals;
mod renamed;
mod risk;
mod rules;
#[cfg(test)]
mod samples;
mod saved_plan;
mod selector;
mod shared_data;
mod snapshot_rules;
mod unread;
mod update;
mod update_answers;
mod volume_drift;
mod volume_version;
mod wait_condition;

pub use action::{
    Action, ActionCounts, ClaimWait, Plan, PlannedVolume, ProtectionChange, Recreate,
    RegisterAgain, Replace, ReplaceSteps, UnconfirmedReason, Update,
};
pub use approval::{Approvals, Unapproved};
pub use away_nodes::{
    AwayNode, NodeChange, NodeEvent, NodeHistory, Presence, unread_nodes_problem,
};
pub use build::build_plan;
pub use claim_drops::{CUTS_OFF, ClaimDrops};
pub use claiming_alloc::{ClaimingAlloc, UNKNOWN_CLAIM_HELP};
pub use cut_offs::CutOffs;
pub use deny::DenyRule;
pub use diff::{Change, FieldValue, diff};
pub use drift::{DriftInputs, detect_drift};
pub use import::{ImportContext, ImportIssue, Imported, import_volume};
pub use inputs::{
    ObservedState, OwnedSet, OwnedVolume, PlanInputs, PlanOptions, PluginState, RecordedValue,
    SkippedVolume,
};
pub use job_lint::{LintVolume, LintVolumes, LintedJob, lint_jobs, used_volumes};
pub use ledger::{
    Actor, AppliedValues, DataIdentity, FieldHash, FieldHashes, Intent, IntentStep, LastVerified,
    LedgerKey, LedgerProblem, LedgerSet, Ownership, RecordedData, SetLayout, SetName,
    SetNameProblem, ShardChange, ShardName, StoredSet, StoredShard, StoredValue, shard_order,
};
pub use merge::{Expansion, Merged, Refusal, SecretsChange, merge};
pub use nomad_csi_model::HiddenField;
pub use outdated_snapshots::outdated_snapshots;
pub use ownership_changes::{
    OwnershipChange, has_unrecorded_data, interrupted_step_warnings, ownership_changes,
    record_observations, takes_secrets,
};
pub use permissions::{
    AclOperation, AclVolumeCapability, Grants, LedgerLocation, Permission, RequiredPermissions,
    missing_permissions,
};
pub use plugin_snapshots::{
    PluginSnapshot, PluginSnapshots, SnapshotDocument, SnapshotOrigin, SnapshotProblem,
    SnapshotTopology, read_snapshot,
};
pub use policy::{POLICY_KEYS, Policies, Policy};
pub use provider_list::{ProviderList, UnlistedReason};
pub use provider_query::{AskedPlugins, comparable_lists, required_lists, snapshot_lists};
pub use release_rule::DetachRule;
pub use removal_checks::{Removal, forced_claims_warning, removal_problems, shares_data};
pub use removals::protected_by_set;
pub use risk::{DataLoss, Impact, LastSnapshot, Recovery, Risk};
pub use rules::{
    CreateRule, MergeRules, MountOptionsRule, NameRule, OmittedMap, TopologyRule,
    UnknownCapacityRule, UnreportedFields, UpdateRule, server_version_warning,
};
pub use saved_plan::{PlanOrigin, SavedPlan, SavedPlanProblem, SavedVariable};
pub use shared_data::{created_with_existing_data, created_with_known_data};
pub use snapshot_rules::{SnapshotUse, snapshot_problems};
pub use unread::{
    CachedMergeRules, CachedVolumes, cached_volumes, inputs_of_unchanged, unread_volumes,
};
pub use update::remaining_differences;
pub use update_answers::{UpdateAnswers, update_answers};
pub use volume_drift::{Baseline, DriftState, FieldDrift, FileState, VolumeDrift};
pub use volume_version::VolumeVersion;
pub use wait_condition::{ConditionStatus, WaitCondition};
