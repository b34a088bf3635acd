//! `explain`: the meaning of a diagnostic code.

use clap::Args;

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::table;
use crate::diagnostic::{Code, Diagnostic, closest_match};

/// Arguments of `explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Error code, such as `spec/unknown-field` [default: list all codes]
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
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
