//! A saved plan, read as the command line that made it.
//!
//! Others may have changed the file. So it does not choose the ledger, and nothing is shown of files that it names outside
//! the working directory.

use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use serde_json::{Map, Value};

use super::args::{FileArgs, LedgerArgs, LedgerChoice, SetArgs, SpecSyntax};
use super::command_context::CommandContext;
use super::error::CliError;
use super::ui::one_line;
use nomad_csi_client::files::{
    MAX_BYTES, StreamTexts, is_stream, read_at_most, read_beginning, read_trusted_text,
};
use nomad_csi_model::Namespace;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{SavedPlan, SavedPlanProblem, SavedVariable};

/// A saved plan as the command line that made it.
pub(super) struct SavedPlanFile {
    /// The plan.
    pub plan: SavedPlan,
    /// The specification files.
    pub files: FileArgs,
    /// The set that owns the volumes.
    pub set: SetArgs,
    /// The ledger with which the plan was made.
    pub ledger: LedgerArgs,
    /// The namespace of volumes that declare none.
    pub namespace: Option<Namespace>,
}

/// Reads every stream of these paths, because what it holds is known only then. What cannot be read is reported by who reads
/// it as a specification.
///
/// # Errors
/// If a stream cannot be read in time.
pub(super) fn read_streams(
    context: &CommandContext,
    paths: &[String],
) -> Result<StreamTexts, CliError> {
    let mut texts = StreamTexts::default();
    if paths.iter().filter(|path| *path == "-").count() > 1 {
        let message = "cannot read standard input twice: `-` is named more than once";
        return Err(Diagnostic::error(Code::CliInvalidValue, message).help("name it once").into());
    }
    for path in paths {
        let read = if path == "-" {
            let read = context.stdin.with_reader(|stdin| read_at_most(stdin, MAX_BYTES));
            read.map(|bytes| texts.keep_standard_input(path, bytes))
        } else if is_stream(&context.directory.join(path)) {
            texts.keep(path, &context.directory.join(path), MAX_BYTES)
        } else {
            Ok(())
        };
        read.map_err(|error| unreadable(path, &error))?;
    }
    Ok(texts)
}

fn unreadable(path: &str, error: &std::io::Error) -> CliError {
    let code = match error.kind() {
        std::io::ErrorKind::TimedOut => Code::FilesTimedOut,
        _ => Code::FilesUnreadable,
    };
    let message = format!("cannot read `{}`: {error}", one_line(path));
    Diagnostic::error(code, message).help(code.advice()).into()
}

/// Returns whether a file or a stream begins as a saved plan does. A file that cannot be read does not.
pub(super) fn is_saved_plan(
    context: &CommandContext,
    streams: &StreamTexts,
    argument: &str,
) -> bool {
    match streams.bytes(argument) {
        Some(bytes) => SavedPlan::begins(&String::from_utf8_lossy(&bytes[..bytes.len().min(64)])),
        None => read_beginning(&context.directory.join(argument))
            .is_some_and(|text| SavedPlan::begins(&text)),
    }
}

/// Returns the text of a saved plan that no other user can have changed.
fn trusted_text(
    context: &CommandContext,
    streams: &StreamTexts,
    argument: &str,
) -> Result<String, CliError> {
    let Some(bytes) = streams.bytes(argument) else {
        return Ok(read_trusted_text(&context.directory, Path::new(argument))?);
    };
    if let Some(suspicion) = streams.suspicion(argument) {
        let message = format!("cannot read `{}`: {suspicion}", one_line(argument));
        let code = Code::FileNotPrivate;
        return Err(Diagnostic::error(code, message).help(code.advice()).into());
    }
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("`{}` is larger than {MAX_BYTES} bytes", one_line(argument));
        let code = Code::FilesTooLarge;
        return Err(Diagnostic::error(code, message).help(code.advice()).into());
    }
    String::from_utf8(bytes.to_vec()).map_err(|_| {
        let message = format!("cannot read `{}`: it is not UTF-8", one_line(argument));
        let code = Code::FilesNotUtf8;
        Diagnostic::error(code, message).help(code.advice()).into()
    })
}

/// Reads a saved plan.
///
/// # Errors
/// If the file holds no saved plan, or one that this version does not know.
pub(super) fn read_saved_plan(
    context: &CommandContext,
    streams: &StreamTexts,
    argument: &str,
) -> Result<SavedPlanFile, CliError> {
    let text = trusted_text(context, streams, argument)?;
    let file = Path::new(argument);
    let unusable = |problem: SavedPlanProblem| unusable(file, &problem.to_string());
    let plan = SavedPlan::read(&text).map_err(unusable)?;
    let origin = plan.origin();
    let syntax = origin.syntax.as_deref();
    let syntax = syntax.map(|word| SpecSyntax::from_str(word, false)).transpose();
    let base = base_directory(context, &origin.directory, &origin.files);
    let files = FileArgs::of_saved_plan(
        files_from(base.as_deref(), &origin.files),
        syntax.map_err(|why| self::unusable(file, &why))?,
    );
    let saved = SavedPlanFile {
        files: FileArgs { saved_variables: saved_variables(&origin.variables), ..files },
        set: SetArgs { set: origin.set.clone() },
        ledger: LedgerArgs {
            ledger: LedgerChoice::parse(&origin.ledger)
                .map_err(|why| self::unusable(file, &why))?,
            ledger_namespace: origin.ledger_namespace.clone(),
        },
        namespace: origin.namespace.as_deref().map(Namespace::new),
        plan,
    };
    Ok(saved)
}

/// Returns the values of variables that a plan holds, as a JSON object; `None` without any.
fn saved_variables(variables: &[SavedVariable]) -> Option<String> {
    let values: Map<String, Value> = variables
        .iter()
        .filter_map(|variable| Some((variable.name.clone(), variable.value.clone()?)))
        .collect();
    (!values.is_empty()).then(|| Value::Object(values).to_string())
}

/// Returns the directory that relative names start from; `None` for the working directory. That is the one
/// if it has all files: another checkout, as in the next job of a pipeline. If its files are others than
/// those of the plan, their hashes differ, and their volumes are skipped. Without the files, it is the
/// directory where the plan was made.
fn base_directory(context: &CommandContext, made_in: &str, files: &[String]) -> Option<PathBuf> {
    let is_here = |file: &String| context.directory.join(fixed_part(file)).exists();
    (!files.iter().all(is_here)).then(|| PathBuf::from(made_in))
}

/// Returns the part of a pattern that has no wildcards.
fn fixed_part(file: &str) -> PathBuf {
    let parts = Path::new(file).components();
    let is_plain = |part: &std::path::Component<'_>| {
        let text = part.as_os_str().to_string_lossy();
        !text.contains(['*', '?', '[', '{'])
    };
    parts.take_while(is_plain).collect()
}

fn files_from(base: Option<&Path>, files: &[String]) -> Vec<String> {
    let Some(base) = base else {
        return files.to_vec();
    };
    let there = |file: &String| base.join(file).display().to_string();
    files.iter().map(there).collect()
}

fn unusable(file: &Path, why: &str) -> CliError {
    let file = one_line(&file.display().to_string());
    let message = format!("cannot apply `{file}`: {}", one_line(why));
    Diagnostic::error(Code::PlanUnusable, message).help(Code::PlanUnusable.advice()).into()
}
