//! Arguments that name specifications.

use std::path::Path;

use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use nomad_csi_client::files::{StreamTexts, is_passing};
use nomad_csi_model::Secret;

/// Help of a path of a specification.
const FILE_HELP: &str =
    "File, glob, directory (searched recursively) or `-` for standard input; repeatable";

/// Help of `--file`.
const FILE_OPTION_HELP: &str = "The same as PATH; repeatable";

/// Help of `--syntax`.
pub(crate) const SYNTAX_HELP: &str = "Syntax of standard input and of files without a known \
     extension [default: json if the text starts with `{`, else hcl]";

/// Help of `--var`.
const VARIABLE_HELP: &str = "Value of a variable; repeatable, the last one of a name applies";

/// Help of `--var-file`.
const VARIABLE_FILE_HELP: &str =
    "File with values of variables, in HCL, YAML or JSON; repeatable, later files win";

/// A variable with its value on the command line.
#[derive(Clone)]
pub(crate) struct GivenVariable {
    /// The name.
    pub name: String,
    /// The value, which may be sensitive.
    pub value: Secret,
}

/// Omits the value.
impl std::fmt::Debug for GivenVariable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

impl std::str::FromStr for GivenVariable {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), value: Secret::new(value.to_owned()) })
            }
            Some(_) | None => Err("expected `NAME=VALUE`"),
        }
    }
}

/// The specifications of a command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct FileArgs {
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath, help = FILE_HELP)]
    pub paths: Vec<String>,
    #[arg(short, long = "file", value_name = "PATH", value_hint = ValueHint::AnyPath, help = FILE_OPTION_HELP)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    #[arg(long = "var", value_name = "NAME=VALUE", help = VARIABLE_HELP)]
    pub variables: Vec<GivenVariable>,
    #[arg(long = "var-file", value_name = "FILE", value_hint = ValueHint::FilePath, help = VARIABLE_FILE_HELP)]
    pub variable_files: Vec<String>,
    /// True if a saved plan names the paths, and not the person who runs the command.
    #[arg(skip)]
    pub are_of_saved_plan: bool,
    /// The values of variables that a saved plan holds, as a JSON object.
    #[arg(skip)]
    pub saved_variables: Option<String>,
    /// The streams that have been read already.
    #[arg(skip)]
    pub read_before: StreamTexts,
}

impl FileArgs {
    /// Names these paths.
    pub(crate) fn of(paths: Vec<String>, syntax: Option<SpecSyntax>) -> Self {
        let read_before = StreamTexts::default();
        Self { paths, syntax, read_before, ..Self::default() }
    }

    /// Names the paths of a saved plan.
    pub(crate) fn of_saved_plan(paths: Vec<String>, syntax: Option<SpecSyntax>) -> Self {
        Self { are_of_saved_plan: true, ..Self::of(paths, syntax) }
    }

    /// Returns the first path that names standard input or another stream, which cannot be read again.
    pub(crate) fn first_passing(&self, directory: &Path) -> Option<String> {
        let passing = |path: &String| path == "-" || is_passing(&directory.join(path));
        self.all().into_iter().find(passing)
    }

    /// Returns the paths: those without an option first.
    pub(crate) fn all(&self) -> Vec<String> {
        self.paths.iter().chain(&self.files).cloned().collect()
    }
}

/// Returns the group that requires at least one path of [`FileArgs`].
pub(crate) fn required_paths() -> ArgGroup {
    let group = ArgGroup::new("specifications").args(["paths", "files"]);
    group.required(true).multiple(true)
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
