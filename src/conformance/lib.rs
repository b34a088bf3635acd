//! Owns the checks of whether a plugin conforms to the CSI specification.
//!
//! [`ProbedPlugin`] holds what a plugin reports about itself. [`run_checks()`] runs the checks
//! ([`cases`]) and returns a [`Report`]. A check applies only if the plugin advertises what it needs,
//! and nothing is created without `--destructive`.
//!
//! Pure functions judge the responses (`answers`, `validity`). `check` tracks what a call may create
//! (`resources`) before it sends the call, so `cleanup` works after a failure, a lost response or
//! Ctrl-C. The checks send raw CSI messages ([`nomad_csi_csi::RawClient`]), because the ports cannot
//! express invalid requests.

mod answers;
mod case;
mod catalog;
mod check;
mod checks;
mod cleanup;
mod confirmed_modes;
mod finding;
mod local_files;
mod message_text;
mod options;
mod probed_plugin;
mod profile_diff;
mod report;
mod resources;
mod run;
mod select;
mod validity;
mod workload_files;

pub use case::{Area, Case, Effect, Need};
pub use catalog::cases;
pub use confirmed_modes::{ModeAnswer, ModesUnknown, confirmed_modes};
pub use finding::{Exchange, Finding, Leftover, Level};
pub use local_files::LocalFiles;
pub use options::CheckOptions;
pub use probed_plugin::{
    ProbeError, ProbedPlugin, controller_capability_name, group_capability_name,
    node_capability_name, plugin_service_name,
};
pub use profile_diff::{
    Answer, Loss, LossKind, NodeDocument, ProbeDocument, ProfileDiff, compare_profiles,
};
pub use report::{CheckOutcome, Report, Tally, Verdict};
pub use run::{CheckObserver, run_checks};
pub use select::{Choice, Selection};
pub use validity::broken_rules;
pub use workload_files::{PathKind, WorkloadFiles};
