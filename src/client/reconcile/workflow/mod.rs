//! The work of each command on a server: read, plan, ask for approval, change, report.
//!
//! A workflow takes parsed requests and a [`WorkflowContext`], and returns typed results. It reports to
//! a person or to a log through a [`Reporter`] only, and asks through an [`ApprovalPrompt`] only. The
//! command line parses arguments before a workflow and prints results after it.

mod abbreviation;
mod agent_only;
mod applied_record;
mod apply;
mod approval;
mod claim_explanation;
mod claims;
mod context;
mod creations;
mod denied_request;
mod detach;
mod doctor;
mod dropped_claims;
mod error;
mod expand;
mod find_allocation;
mod find_job;
mod find_node;
mod find_volume;
mod forget;
mod history;
mod import_set;
mod job_progress;
mod job_run;
mod ledger_access;
mod modify;
mod node_drain;
mod node_fencing;
mod orphan_changes;
mod orphan_inventory;
mod other_owners;
mod outcome_report;
mod plan_checks;
mod plan_execution;
mod plan_request;
mod planned_set;
mod plugin_health;
mod plugin_use;
mod plugin_wait;
mod preflight;
mod prepare;
mod registrations;
mod removal;
mod removal_ownership;
mod reporter;
mod round;
mod saved_plan;
mod secret_lookup;
mod server_unreachable;
mod set_lock;
mod snapshots;
mod specifications;
mod taken_data;
mod volume_overview;
mod wait;

pub use applied_record::AppliedRecord;
pub use apply::{
    ApplyMode, ApplyRequest, ApplyResult, apply_specifications, refuse_unused_approvals,
};
pub use claims::{LONGEST_CLAIM_WAIT, claim_volume, list_claims, release_volume};
pub use context::WorkflowContext;
pub use creations::{abandon_creation, pending_creations};
pub use denied_request::explain_denial;
pub use detach::detach_volume;
pub use doctor::{DoctorReport, DoctorRequest, VolumeDiagnosis, diagnose_volumes, fix_findings};
pub use error::{FailureKind, WorkflowError};
pub use expand::{ExpandRequest, expand_volume};
pub use find_allocation::{find_allocation, find_allocation_to_change, newest_allocation};
pub use find_job::{find_job, find_job_to_change};
pub use find_node::{find_node, find_node_to_change};
pub use find_volume::find_volume;
pub use forget::forget_volumes;
pub use history::read_history;
pub use import_set::import_into_set;
pub use job_progress::{next_launch_text, placement_reasons};
pub use job_run::{
    JobOutcome, JobWait, dispatch_job, launch_job, report_warnings, restart_job, revert_job,
    run_job, stop_allocation, stop_job,
};
pub use ledger_access::{LedgerAccess, SetSelection};
pub use modify::modify_volume;
pub use node_drain::{drain_node, set_eligibility};
pub use node_fencing::{FenceApproval, fence_node, unfence_node};
pub use orphan_changes::{OrphanRequest, adopt_orphans, delete_orphans, parse_capability};
pub use orphan_inventory::OrphanInventory;
pub use other_owners::check_owners;
pub use plan_checks::warn_of_dropped_claims;
pub use plan_request::{ChangeOptions, PlanRequest, PreparedPlan, ProviderCheck, Reading};
pub use planned_set::open_planned_set;
pub use plugin_use::impact_of_plugin;
pub use plugin_wait::wait_for_plugin;
pub use prepare::prepare_plan;
pub use registrations::{Registrations, find_registrations};
pub use removal::{RemovalRequest, remove_volumes};
pub use reporter::{ApprovalPrompt, Reporter};
pub use round::{RoundReporter, RoundRequest, Uncorrected, run_round};
pub use server_unreachable::{fold_server_away, is_folded};
pub use snapshots::{SnapshotDeletionRequest, create_snapshot, delete_snapshots};
pub use specifications::Specifications;
pub use volume_overview::{VolumeOverview, volume_overview};
pub use wait::wait_for_condition;
