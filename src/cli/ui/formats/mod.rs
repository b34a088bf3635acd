//! Reports of a run in the formats of CI systems. One run can write several.

mod github;
mod gitlab;
mod junit;
mod markdown;
mod report_file;
mod run_report;
mod sarif;

pub(crate) use report_file::ReportFile;
pub(crate) use run_report::{Case, CaseResult, Finding, Place, RunReport, RunTime};
