//! A saved plan, read as the command line that made it.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use super::args::{FileArgs, LedgerArgs, LedgerChoice, SetArgs, SpecSyntax};
use super::command_context::CommandContext;
use super::error::CliError;
use super::ui::one_line;
use crate::diagnostic::{Code, Diagnostic};
use crate::files::{read_beginning, read_trusted_text};
use crate::model::Namespace;
use crate::plan::{SavedPlan, SavedPlanProblem};

/// A saved plan as the command line that made it.
pub(super) struct SavedPlanFile {
    /// The plan.
    pub plan: SavedPlan,
    /// The specification files.
    pub files: FileArgs,
    /// The set that owns the volumes.
    pub set: SetArgs,
    /// The ledger of the set.
    pub ledger: LedgerArgs,
    /// The namespace of volumes that declare none.
    pub namespace: Option<Namespace>,
}

/// Returns whether a file begins as a saved plan does. A file that cannot be read does not.
pub(super) fn is_saved_plan(context: &CommandContext, file: &Path) -> bool {
    read_beginning(&context.directory.join(file)).is_some_and(|text| SavedPlan::begins(&text))
}

/// Reads a saved plan.
///
/// # Errors
/// If the file holds no saved plan, or one that this version does not know.
pub(super) fn read_saved_plan(
    context: &CommandContext,
    file: &Path,
) -> Result<SavedPlanFile, CliError> {
    let text = read_trusted_text(&context.directory, file)?;
    let unusable = |problem: SavedPlanProblem| unusable(file, &problem.to_string());
    let plan = SavedPlan::read(&text).map_err(unusable)?;
    let origin = plan.origin();
    let syntax = origin.syntax.as_deref();
    let syntax = syntax
        .map(|word| SpecSyntax::from_str(word, false))
        .transpose();
    let saved = SavedPlanFile {
        files: FileArgs::of(
            files_from(context, &origin.directory, &origin.files),
            syntax.map_err(|why| self::unusable(file, &why))?,
        ),
        set: SetArgs {
            set: origin.set.clone(),
        },
        ledger: LedgerArgs {
            ledger: LedgerChoice::parse(&origin.ledger)
                .map(|choice| from_directory(choice, &origin.directory))
                .map_err(|why| self::unusable(file, &why))?,
            ledger_namespace: origin.ledger_namespace.clone(),
        },
        namespace: origin.namespace.as_deref().map(Namespace::new),
        plan,
    };
    Ok(saved)
}

/// Resolves file names against the directory where the plan was made.
fn files_from(context: &CommandContext, directory: &str, files: &[String]) -> Vec<String> {
    if context.directory == Path::new(directory) {
        return files.to_vec();
    }
    let there = |file: &String| Path::new(directory).join(file).display().to_string();
    files.iter().map(there).collect()
}

fn from_directory(choice: LedgerChoice, directory: &str) -> LedgerChoice {
    match choice {
        LedgerChoice::File(path) => LedgerChoice::File(PathBuf::from(directory).join(path)),
        LedgerChoice::Nomad | LedgerChoice::Without => choice,
    }
}

fn unusable(file: &Path, why: &str) -> CliError {
    let file = one_line(&file.display().to_string());
    let message = format!("cannot apply `{file}`: {}", one_line(why));
    Diagnostic::error(Code::PlanUnusable, message)
        .help(Code::PlanUnusable.advice())
        .into()
}
