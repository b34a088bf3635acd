//! `man`: the manual, one page per command.

use clap::CommandFactory as _;

use crate::cli::args::{Cli, Man};
use crate::cli::context::Context;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::diagnostic::{Code, Diagnostic};
use crate::files::write_new;

/// Prints one page, or writes all.
///
/// # Errors
/// If there is no such command, or a page cannot be written.
pub(crate) fn run(context: &Context, arguments: &Man) -> Result<Exit, CliError> {
    let pages = pages();
    if let Some(directory) = &arguments.directory {
        for page in &pages {
            let file = directory.join(&page.file);
            write_new(&context.directory, &file, page.text.as_bytes())?;
        }
        context.printer.talk(&format!(
            "wrote {} pages to {}",
            pages.len(),
            directory.display()
        ));
        return Ok(Exit::Done);
    }
    let wanted = [&["nomad-csi".to_owned()][..], &arguments.command]
        .concat()
        .join("-");
    let file = format!("{wanted}.1");
    let page = pages.iter().find(|page| page.file == file).ok_or_else(|| {
        Diagnostic::error(
            Code::CliInvalidValue,
            format!("there is no command `{}`", arguments.command.join(" ")),
        )
        .help("`nomad-csi --help` lists the commands")
    })?;
    context.printer.data(&page.text);
    Ok(Exit::Done)
}

/// A page of the manual.
pub struct Page {
    /// `nomad-csi-volume-create.1`.
    pub file: String,
    /// In roff.
    pub text: String,
}

/// All pages, the program's first.
pub fn pages() -> Vec<Page> {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![];
    collect(&command, &mut pages);
    pages
}

fn collect(command: &clap::Command, pages: &mut Vec<Page>) {
    let source = format!("nomad-csi {}", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone())
        .source(source)
        .manual("nomad-csi");
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
