//! `volume init`: writes a complete example.

use std::path::{Path, PathBuf};

use crate::cli::command_context::CommandContext;
use crate::cli::commands::volume::InitArgs;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::files::write_new;
use crate::spec::{Syntax, template};

/// Writes an example. Never overwrites a file.
///
/// # Errors
/// If the file exists or cannot be written.
pub(crate) fn write_example(
    context: &CommandContext,
    arguments: &InitArgs,
) -> Result<Exit, CliError> {
    let named = arguments.file.as_deref();
    let by_name = named.and_then(Syntax::from_path);
    let syntax = arguments
        .syntax
        .map(Syntax::from)
        .or(by_name)
        .unwrap_or(Syntax::Hcl);
    if named == Some(Path::new("-")) {
        context.printer.print_result(&template(syntax, "FILE"));
        return Ok(Exit::Done);
    }
    let file = named.map_or_else(|| PathBuf::from(format!("volume.{syntax}")), Path::to_owned);
    let text = template(syntax, &file.display().to_string());
    write_new(&context.directory, &file, text.as_bytes())?;
    context.printer.print_status(&format!(
        "wrote {}; edit it, then run `nomad-csi validate -f {}`",
        file.display(),
        file.display()
    ));
    Ok(Exit::Done)
}
