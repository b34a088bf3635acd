//! `lsp`: serves an editor while specifications are written.
//!
//! The editor starts the program and speaks with it over standard input and output. Nothing else is read than
//! specifications and files of variables, and no connection is opened.

use std::io::{self, Read, Write};

use clap::Args;

use crate::cli::command_context::{CommandContext, Stdin};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::Printer;
use nomad_csi_lsp::{LspExit, ServerOptions, serve};
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Arguments of `lsp`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct LspArgs {
    /// Use standard input and output, which is the default; some editors add it
    #[arg(long)]
    pub stdio: bool,
}

/// Serves an editor until it ends.
///
/// # Errors
/// If standard input is a terminal, where no editor is, or the output cannot be written.
pub(crate) fn serve_editor(context: &CommandContext) -> Result<Exit, CliError> {
    if context.stdin.is_terminal {
        let message = "cannot serve an editor: standard input is a terminal";
        let problem = Diagnostic::error(Code::CliInvalidValue, message);
        return Err(problem.help("configure your editor to start `nomad-csi lsp`").into());
    }
    let options = ServerOptions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        directory: context.directory.clone(),
        environment: context.environment.specification_variables(),
    };
    let input = EditorInput(context.stdin.clone());
    match serve(input, EditorOutput(&context.printer), options) {
        Ok(LspExit::Orderly) => Ok(Exit::Done),
        Ok(LspExit::Abrupt) => Ok(Exit::Error),
        Err(error) => {
            let message = format!("cannot write to the editor: {error}");
            Err(Diagnostic::error(Code::CliInvalidValue, message).into())
        }
    }
}

/// What the editor sends.
struct EditorInput(Stdin);

impl Read for EditorInput {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.with_reader(|reader| reader.read(bytes))
    }
}

/// What the editor reads.
struct EditorOutput<'p>(&'p Printer);

impl Write for EditorOutput<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.print_data(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
