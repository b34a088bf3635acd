//! The argument that requests reports.

use clap::Args;

use crate::cli::ui::ReportFile;

/// The reports to write.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ReportArgs {
    /// Write a report to a file or to standard output (`-`); repeatable
    ///
    /// FORMAT is sarif, junit, github (workflow annotations), gitlab (code quality) or markdown. A
    /// report on standard output replaces the output of the command. Reports are also written if the
    /// command fails.
    #[arg(long = "format", value_name = "FORMAT=FILE", value_delimiter = ',')]
    pub formats: Vec<ReportFile>,
}

impl ReportArgs {
    /// Returns whether a report replaces the output of the command.
    pub(crate) fn replace_output(&self) -> bool {
        self.formats.iter().any(|format| format.file().is_none())
    }
}
