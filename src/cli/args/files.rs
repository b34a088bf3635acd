//! Arguments that name specifications.

use clap::{Args, ValueEnum, ValueHint};

/// Help of `--file`.
pub(crate) const FILE_HELP: &str =
    "File, glob, directory (searched recursively) or `-` for standard input; repeatable";

/// Help of `--syntax`.
pub(crate) const SYNTAX_HELP: &str = "Syntax of standard input and of files without a known \
     extension [default: json if the text starts with `{`, else hcl]";

/// The specifications of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct FileArgs {
    #[arg(short, long = "file", value_name = "PATH", required = true, value_hint = ValueHint::AnyPath, help = FILE_HELP)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
}

/// The syntax of a specification. All three have the same keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpecSyntax {
    /// HCL, as in Nomad's volume files.
    Hcl,
    /// YAML.
    Yaml,
    /// JSON.
    Json,
}
