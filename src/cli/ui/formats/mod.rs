//! Reports of a plan in the formats of CI systems. One run can write several.

mod github;
mod junit;
mod markdown;
mod report;
mod report_input;
mod sarif;

pub(crate) use report::{ReportFile, report};
pub(crate) use report_input::ReportInput;
