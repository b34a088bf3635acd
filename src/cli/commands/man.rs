//! `man`: the manual, one page per command.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::command_context::CommandContext;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use nomad_csi_client::files::write_new;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// Arguments of `man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Command whose page to print, such as `volume create` [default: nomad-csi]
    #[arg(value_name = "COMMAND", conflicts_with = "directory")]
    pub command: Vec<String>,
    /// Write all pages to this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
}

/// Prints one page, or writes all pages.
///
/// # Errors
/// If the command does not exist, or a page cannot be written.
pub(crate) fn print_manual(
    context: &CommandContext,
    arguments: &ManArgs,
    command_line: clap::Command,
) -> Result<Exit, CliError> {
    let pages = pages(command_line);
    if let Some(directory) = &arguments.directory {
        for page in &pages {
            let file = directory.join(&page.file);
            write_new(&context.directory, &file, page.text.as_bytes())?;
        }
        context.printer.print_status(&format!(
            "wrote {} pages to {}",
            pages.len(),
            directory.display()
        ));
        return Ok(Exit::Done);
    }
    let page = [&["nomad-csi".to_owned()][..], &arguments.command].concat().join("-");
    let file = format!("{page}.1");
    let page = pages.iter().find(|page| page.file == file).ok_or_else(|| {
        Diagnostic::error(
            Code::CliInvalidValue,
            format!("command `{}` does not exist", arguments.command.join(" ")),
        )
        .help("run `nomad-csi --help` to list the commands")
    })?;
    context.printer.print_result(&page.text);
    Ok(Exit::Done)
}

/// A page of the manual.
pub struct Page {
    /// `nomad-csi-volume-create.1`.
    pub file: String,
    /// The page in roff.
    pub text: String,
}

/// Returns all pages, the program's first.
pub(crate) fn pages(command_line: clap::Command) -> Vec<Page> {
    let mut command_line = command_line.disable_help_subcommand(true);
    command_line.build();
    let mut pages = vec![];
    collect(&command_line, &mut pages);
    pages
}

fn collect(command: &clap::Command, pages: &mut Vec<Page>) {
    let source = format!("nomad-csi {}", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(source).manual("nomad-csi");
    let mut text = vec![];
    // Writing to memory does not fail.
    if man.render(&mut text).is_ok() {
        pages.push(Page {
            file: man.get_filename(),
            text: String::from_utf8_lossy(&text).into_owned(),
        });
    }
    for subcommand in command.get_subcommands() {
        collect(subcommand, pages);
    }
}
