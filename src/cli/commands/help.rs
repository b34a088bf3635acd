//! `help`: the help of a command, as its `--help` prints it.

use clap::Args;

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::settings::HELP_WIDTH;
use nomad_csi_model::diagnostic::{Code, Diagnostic, closest_match};
use nomad_csi_model::one_line;

/// Arguments of `help`.
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// Command whose help to print, such as `volume create` [default: nomad-csi]
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Prints the help of a command.
///
/// # Errors
/// If the command does not exist.
pub(crate) fn print_help(
    context: &CommandContext,
    arguments: &HelpArgs,
    command_line: clap::Command,
) -> Result<Exit, CliError> {
    let mut command_line = command_line.term_width(context.printer.columns().min(HELP_WIDTH));
    command_line.build();
    let mut command = &mut command_line;
    for word in &arguments.command {
        let names: Vec<String> =
            command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
        command = command.find_subcommand_mut(word).ok_or_else(|| {
            let typed = one_line(&arguments.command.join(" "));
            let unknown = format!("cannot print the help of `{typed}`: there is no such command");
            let unknown = Diagnostic::error(Code::CliInvalidValue, unknown);
            match closest_match(word, names.iter().map(String::as_str)) {
                Some(near) => unknown.help(format!("did you mean `{near}`?")),
                None => unknown.help("run `nomad-csi help` to list the commands"),
            }
        })?;
    }
    let help = command.render_long_help().ansi().to_string();
    context.printer.print_result(&help);
    Ok(Exit::Done)
}
