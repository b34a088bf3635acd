//! `explain`: the meaning of a diagnostic code, of a field of a specification, or of a function of its language.
//! `explain placement` is in `job::placement`.

use clap::{Args, Subcommand};

use crate::cli::command_context::CommandContext;
use crate::cli::commands::job::PlacementArgs;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::{field_explanation, table};
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_spec::schema::{Field, located_fields};
use nomad_csi_spec::{FUNCTIONS, Function};

/// Arguments of `explain`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ExplainArgs {
    /// What else is explained.
    #[command(subcommand)]
    pub command: Option<ExplainCommand>,
    /// Error code, such as `spec/unknown-field`, or field, such as `access_mode` or
    /// `mount_options.fs_type` [default: list all codes]
    #[arg(value_name = "CODE|FIELD")]
    pub word: Option<String>,
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
    /// Show what a function of specifications returns, or list all
    #[command(
        after_long_help = "Examples:\n  nomad-csi explain function\n  nomad-csi explain function element"
    )]
    Function(FunctionArgs),
}

/// Arguments of `explain function`.
#[derive(Args, Debug)]
pub(crate) struct FunctionArgs {
    /// Name of the function [default: list all]
    #[arg(value_name = "FUNCTION")]
    pub name: Option<String>,
}

/// Prints one code or field, or all codes.
///
/// # Errors
/// If no code and no field has this name.
pub(crate) fn explain_word(
    context: &CommandContext,
    arguments: &ExplainArgs,
) -> Result<Exit, CliError> {
    let text = match &arguments.word {
        None => list(),
        Some(word) => match (Code::parse(word), fields(word)) {
            (Some(code), _) => one(code),
            (None, fields) if fields.is_empty() => return Err(unknown(word).into()),
            (None, fields) => {
                let texts = fields.into_iter();
                let texts = texts.map(|(block, field)| field_explanation(block, field));
                texts.collect::<Vec<_>>().join("\n")
            }
        },
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

/// Prints one function of the language, or all.
///
/// # Errors
/// If no function has this name.
pub(crate) fn explain_function(
    context: &CommandContext,
    arguments: &FunctionArgs,
) -> Result<Exit, CliError> {
    let text = match &arguments.name {
        None => table(
            ["Function", "Result", "Meaning"],
            FUNCTIONS
                .iter()
                .map(|one| [signature(one), one.result.to_owned(), one.summary.to_owned()]),
        ),
        Some(name) => match FUNCTIONS.iter().find(|function| function.name == name) {
            Some(function) => function_text(function),
            None => return Err(unknown_function(name).into()),
        },
    };
    context.printer.print_result(&text);
    Ok(Exit::Done)
}

fn signature(function: &Function) -> String {
    format!("{}({})", function.name, function.parameters)
}

fn function_text(function: &Function) -> String {
    format!(
        "{}\n\n{}\n\nResult:  {}\nExample: {} = {}\n",
        signature(function),
        function.summary,
        function.result,
        function.example,
        function.example_result
    )
}

fn unknown_function(name: &str) -> Diagnostic {
    let message = format!("`{name}` is not a function of specifications");
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    match closest_match(name, FUNCTIONS.iter().map(|function| function.name)) {
        Some(similar) => problem.help(format!("did you mean `{similar}`?")),
        None => problem.help("run `nomad-csi explain function` to list all functions"),
    }
}

fn list() -> String {
    let rows = Code::ALL.iter().map(|code| [code.to_string(), code.cause().to_owned()]);
    table(["Code", "Cause"], rows)
}

fn one(code: Code) -> String {
    format!("{code}\n\nCause:  {}\nRemedy: {}\n", code.cause(), code.remedy())
}

/// Returns the fields of this name, which may begin with the name of their block.
fn fields(word: &str) -> Vec<(Option<&'static str>, &'static Field)> {
    let (named_block, key) = match word.rsplit_once('.') {
        Some((block, key)) => (Some(block), key),
        None => (None, word),
    };
    located_fields()
        .filter(|(block, field)| {
            field.key == key && (named_block.is_none() || *block == named_block)
        })
        .collect()
}

fn unknown(word: &str) -> Diagnostic {
    let message = format!("`{word}` is neither a code nor a field of a specification");
    let problem = Diagnostic::error(Code::CliInvalidValue, message);
    let codes = Code::ALL.iter().map(|code| code.as_str());
    let keys = located_fields().map(|(_, field)| field.key);
    match closest_match(word, codes.chain(keys)) {
        Some(similar) => problem.help(format!("did you mean `{similar}`?")),
        None => problem.help("run `nomad-csi explain` to list all codes"),
    }
}
