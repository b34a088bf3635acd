//! A saved plan, on its way to being applied: read, held against where and when it is, made the order
//! that it was.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;

use super::args::{Files, LedgerPlace, SetArgument, SpecSyntax};
use super::choices::Chosen;
use super::context::Context;
use super::error::CliError;
use super::ledger::LedgerChoice;
use super::ui::{ago, one_line};
use crate::diagnostic::{Code, Diagnostic};
use crate::files::read_text;
use crate::model::{Namespace, ServerVersion};
use crate::plan::{SavedPlan, SavedPlanProblem};
use crate::ports::VolumeReader;
use crate::reconcile::SetLedger;

/// A saved plan as the command line that it was made with.
pub(super) struct Saved {
    /// The plan.
    pub plan: SavedPlan,
    /// The files that it was made from.
    pub files: Files,
    /// Whose the volumes are.
    pub set: SetArgument,
    /// Where that is remembered.
    pub place: LedgerPlace,
    /// The namespace of volumes that name none.
    pub namespace: Option<Namespace>,
}

/// Reads a saved plan.
///
/// # Errors
/// If there is none in the file, or it holds what this program does not know.
pub(super) fn read_saved(context: &Context, file: &Path) -> Result<Saved, CliError> {
    let text = read_text(&context.directory, file)?;
    let unusable = |problem: SavedPlanProblem| unusable(file, &problem.to_string());
    let plan = SavedPlan::read(&text).map_err(unusable)?;
    let origin = plan.origin();
    let syntax = origin.syntax.as_deref();
    let syntax = syntax
        .map(|word| SpecSyntax::from_str(word, false))
        .transpose();
    let saved = Saved {
        files: Files {
            files: files_from(context, &origin.directory, &origin.files),
            syntax: syntax.map_err(|why| self::unusable(file, &why))?,
        },
        set: SetArgument {
            set: origin.set.clone(),
        },
        place: LedgerPlace {
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

/// Names of files start from where the plan was made; there they stay as they were typed.
fn files_from(context: &Context, directory: &str, files: &[String]) -> Vec<String> {
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
    let message = format!("{file} cannot be applied: {}", one_line(why));
    Diagnostic::error(Code::PlanUnusable, message)
        .help(Code::PlanUnusable.remedy())
        .into()
}

/// Whether a saved plan was made for this server, and was not applied yet as far as anybody knows.
///
/// # Errors
/// Why it is not carried out.
pub(super) fn still_valid(
    context: &Context,
    saved: &SavedPlan,
    api: &dyn VolumeReader,
    set: Option<&SetLedger>,
) -> Result<(), CliError> {
    let (then, now) = (&saved.origin().server, api.name());
    if then != now {
        let message = format!("the saved plan was made for {then}, and this is {now}");
        return Err(CliError::blocked([Diagnostic::error(
            Code::PlanStale,
            message,
        )
        .note("what it relied on is known of that server only")
        .help("name that server, or make a new plan for this one")]));
    }
    let applied = set.and_then(|set| Some((set.set().name(), set.set().applied_plan(saved.id())?)));
    let Some((set, at)) = applied else {
        return Ok(());
    };
    let ago = ago(at, context.clock.now());
    let message = format!("the saved plan was applied already, {ago}");
    Err(CliError::blocked([Diagnostic::error(
        Code::PlanApplied,
        message,
    )
    .note(format!("the ledger of set {set} remembers it"))
    .help(Code::PlanApplied.remedy())]))
}

/// What was asked for when the plan was made, and what was agreed to then and now.
///
/// # Errors
/// If it holds a word that this program does not know.
pub(super) fn as_saved(typed: Chosen, saved: &SavedPlan) -> Result<Chosen, CliError> {
    let unknown = |problem: SavedPlanProblem| {
        let message = format!("the saved plan cannot be applied: {problem}");
        CliError::from(Diagnostic::error(Code::PlanUnusable, message))
    };
    let mut requests = saved.requests().map_err(unknown)?;
    requests.deny.extend(typed.requests.deny);
    let mut approvals = saved.approvals().map_err(unknown)?;
    approvals.max_risk = approvals.max_risk.max(typed.approvals.max_risk);
    approvals.approved.extend(typed.approvals.approved);
    let said = saved.origin().server_version.as_deref();
    let version = said.map(str::parse::<ServerVersion>).transpose();
    let version = version.map_err(|_| {
        unknown(SavedPlanProblem::Damaged(
            "its server has no version".to_owned(),
        ))
    })?;
    Ok(Chosen {
        version,
        requests,
        approvals,
    })
}
