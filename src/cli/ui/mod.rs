//! Output: the printer, tables, diagnostics, plans, progress and machine formats.

mod acl;
#[cfg(feature = "agent")]
mod agent;
mod allocation;
mod allocs;
mod auth;
mod claim;
mod desired_volume;
mod diagnostic;
mod doctor;
mod drift;
mod field;
mod formats;
mod held_output;
mod import;
mod job;
mod job_plan;
mod markup;
mod namespace;
mod node;
mod orphans;
mod output;
mod placement;
mod plan;
mod plan_diff;
mod plan_groups;
mod plan_json;
mod plan_text;
mod plugin;
mod plugin_impact;
mod printer;
mod problems;
mod progress;
mod report_content;
mod set;
mod snapshot;
mod stats;
mod table;
mod time;
mod volume;

pub(crate) use acl::{policy_detail, policy_list, token_detail, token_list};
#[cfg(feature = "agent")]
pub(super) use agent::{
    CheckProgress, CheckReportFile, case_list, event_list, probe_json, probe_text,
    profile_diff_json, profile_diff_text, report_json, report_text,
};
pub(super) use allocation::{allocation_detail, allocation_list, file_list, group_of};
pub(super) use allocs::TimeReference;
pub(super) use auth::{AuthReport, auth_json, auth_text};
pub(super) use claim::{claim_list, volume_overview};
pub(super) use diagnostic::{diagnostic_json, render};
pub(super) use doctor::{doctor_json, doctor_text};
pub(super) use drift::{DriftShown, drift_json, drift_text};
pub(super) use field::field_explanation;
pub(super) use formats::{Finding, Place, ReportFile, RunReport, RunTime};
pub(crate) use held_output::HeldOutput;
pub(super) use import::{import_summary, volume_count};
pub(super) use job::{JobOverview, job_detail, job_list, job_versions};
pub(super) use job_plan::job_plan_text;
pub(super) use namespace::namespace_list;
pub(super) use node::{NodeOverview, node_detail, node_list};
pub(super) use orphans::{orphan_document, orphan_list};
pub(super) use output::{OutputFormat, json_text};
pub(super) use placement::placement_text;
pub(super) use plan_json::plan_json;
pub(super) use plan_text::plan_text;
pub(super) use plugin::{capacity_report, plugin_detail, plugin_list};
pub(super) use plugin_impact::{plugin_impact_json, plugin_impact_text};
#[cfg(test)]
pub(super) use printer::without_commands;
pub(super) use printer::{
    OutputReader, Printer, PrinterStream, command_start, ends_blank, one_line, without_colours,
};
pub(super) use problems::problems_text;
pub(super) use progress::{Progress, WaitLine, unreachable_line};
pub(super) use report_content::{
    report_drift, report_files, report_outcomes, report_pending_plan, report_plan,
};
pub(super) use set::{set_detail, set_document, set_list, set_summary};
pub(super) use snapshot::{snapshot_detail, snapshot_document, snapshot_list};
pub(super) use stats::published_stats;
pub(super) use table::{key_values, table};
pub(super) use time::ago;
pub(super) use volume::{
    creation_detail, creation_list, mutable_parameters, parameters_of_volume, volume_detail,
    volume_health, volume_list,
};
