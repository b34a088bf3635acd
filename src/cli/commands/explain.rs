//! `explain`: the meaning of a diagnostic code. `explain placement` is in `job::placement`.

use clap::{Args, Subcommand};

use crate::cli::command_context::CommandContext;
use crate::cli::commands::job::PlacementArgs;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::table;
use crate::diagnostic::{Code, Diagnostic, closest_match};

/// Arguments of `explain`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ExplainArgs {
    /// What else is explained.
    #[command(subcommand)]
    pub command: Option<ExplainCommand>,
    /// Error code, such as `spec/unknown-field` [default: list all codes]
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// The subcommands of `explain`.
#[derive(Subcommand, Debug)]
pub(crate) enum ExplainCommand {
    /// Show where the allocations of a job run, and why not elsewhere
    ///
    /// For each allocation that the job wants: where it runs, where the scheduler would place it
    /// now, or every reason of every node against it. Only the agent shows the reasons of each node.
    ///
    /// Exits with 0 if every allocation has a place, 2 if one has none, and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi explain placement db\n  nomad-csi explain placement db.nomad.hcl -o json"
    )]
    Placement(PlacementArgs),
}

/// Prints one code, or all codes.
///
/// # Errors
/// If the code does not exist.
pub(crate) fn explain_code(
    context: &CommandContext,
    arguments: &ExplainArgs,
) -> Result<Exit, CliError> {
    let text = match &arguments.code {
        None => list(),
        Some(word) => one(Code::parse(word).ok_or_else(|| unknown(word))?),
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

fn list() -> String {
    let rows = Code::ALL
        .iter()
        .map(|code| [code.to_string(), code.cause().to_owned()]);
    table(["Code", "Cause"], rows)
}

fn one(code: Code) -> String {
    format!(
        "{code}\n\nCause:  {}\nRemedy: {}\n",
        code.cause(),
        code.remedy()
    )
}

fn unknown(word: &str) -> Diagnostic {
    let message = format!("code `{word}` does not exist");
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    match closest_match(word, Code::ALL.iter().map(|code| code.as_str())) {
        Some(similar) => problem.help(format!("did you mean `{similar}`?")),
        None => problem.help("run `nomad-csi explain` to list all codes"),
    }
}
