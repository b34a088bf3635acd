//! The data that every form of report is made from.

use crate::diagnostic::{Diagnostic, SourceMap};
use crate::plan::Plan;

/// The data of one report.
#[derive(Clone, Copy)]
pub(crate) struct ReportInput<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// All diagnostics about the plan, with their positions.
    pub diagnostics: &'a [Diagnostic],
    /// The texts that the positions refer to.
    pub sources: &'a SourceMap,
    /// Display name of the server.
    pub server: &'a str,
}
