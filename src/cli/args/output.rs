//! Output formats.

use clap::{Args, ValueEnum};

use crate::cli::ui::OutputFormat;

/// Help of `--output` for reports.
pub(crate) const REPORT_FORMAT_HELP: &str = "Output format";

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Text for people.
    Text,
    /// One JSON document.
    Json,
}

/// The format of the printed objects.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs {
    /// Output format: table, wide, json, yaml, name or jsonpath=EXPRESSION (RFC 9535)
    ///
    /// `json` prints the server's own JSON: an object for a single result, else a list. `jsonpath`
    /// prints each match on its own line, strings without quotes.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = OutputFormat::parse)]
    pub output: OutputFormat,
}
