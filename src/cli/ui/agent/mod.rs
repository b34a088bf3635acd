//! Output of the commands of the agent and of plugins.

mod check_progress;
mod check_reports;
mod history;
mod probe;
mod profile_diff;
mod verdicts;

pub(crate) use check_progress::CheckProgress;
pub(crate) use check_reports::CheckReportFile;
pub(crate) use history::event_list;
pub(crate) use probe::{probe_json, probe_text};
pub(crate) use profile_diff::{profile_diff_json, profile_diff_text};
pub(crate) use verdicts::{case_list, report_json, report_text};
