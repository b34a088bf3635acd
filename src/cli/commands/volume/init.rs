//! `volume init`: writes a complete example, or a specification for a plugin of the server.

use std::path::{Path, PathBuf};

use super::args::InitArgs;
use crate::cli::command_context::CommandContext;
use crate::cli::commands::plugin::find::read_named_plugin;
use crate::cli::commands::status::ask;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::files::write_new;
use nomad_csi_model::shell_quoted;
use nomad_csi_spec::{Syntax, plugin_template, template};

/// Writes an example. Never overwrites a file.
///
/// # Errors
/// If the file exists or cannot be written.
pub(crate) fn write_example(
    context: &CommandContext,
    arguments: &InitArgs,
) -> Result<Exit, CliError> {
    write_specification(context, arguments, template)
}

/// Writes a specification from what the server reports of a plugin. Never overwrites a file.
///
/// # Errors
/// If the server refuses, no plugin or several match, or the file exists or cannot be written.
pub(crate) async fn write_for_plugin(
    context: &CommandContext,
    arguments: &InitArgs,
    plugin: &str,
) -> Result<Exit, CliError> {
    ask(context, async |api| {
        let reading = read_named_plugin(context, api, plugin).await?;
        write_specification(context, arguments, |syntax, file| {
            plugin_template(&reading.value, syntax, file)
        })
    })
    .await
}

/// Writes the text for a syntax and a name of a file.
fn write_specification(
    context: &CommandContext,
    arguments: &InitArgs,
    text: impl FnOnce(Syntax, &str) -> String,
) -> Result<Exit, CliError> {
    let named = arguments.file.as_deref();
    let by_name = named.and_then(Syntax::from_path);
    let syntax = arguments.syntax.map(Syntax::from).or(by_name).unwrap_or(Syntax::Hcl);
    if named == Some(Path::new("-")) {
        context.printer.print_result(&text(syntax, "FILE"));
        return Ok(Exit::Done);
    }
    let file = named.map_or_else(|| PathBuf::from(format!("volume.{syntax}")), Path::to_owned);
    let text = text(syntax, &file.display().to_string());
    write_new(&context.directory, &file, text.as_bytes())?;
    context.printer.print_status(&format!(
        "wrote {}; edit it, then run `nomad-csi validate -f {}`",
        file.display(),
        shell_quoted(file.display())
    ));
    Ok(Exit::Done)
}
