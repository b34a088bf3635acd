//! Arguments of `job`.

use clap::{Args, Subcommand, ValueHint};

use crate::cli::args::{REPORT_FORMAT_HELP, ReportFormat, SYNTAX_HELP, SpecSyntax};

/// The subcommands of `job`.
#[derive(Subcommand, Debug)]
pub(crate) enum JobCommand {
    /// Check job files without a server
    ///
    /// Reports every problem of every file in one run, with its position and a remedy. A file is
    /// HCL, YAML or JSON in the words of Nomad's job specification, or JSON in the words of Nomad's
    /// API. Nothing is evaluated: variables and functions are errors. One warning names the parts
    /// that do not concern volumes. It does not change the exit code.
    #[command(
        after_long_help = "Examples:\n  nomad-csi job validate db.nomad.hcl\n  nomad-csi job validate jobs/*.nomad.hcl -o json"
    )]
    Validate(JobValidateArgs),
}

/// Arguments of `job validate`.
#[derive(Args, Debug)]
pub(crate) struct JobValidateArgs {
    /// Job file, glob or `-` for standard input; repeatable
    #[arg(value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help = REPORT_FORMAT_HELP)]
    pub output: ReportFormat,
}
