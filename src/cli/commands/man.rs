//! `man`: the manual, one page per command.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::cli::command_context::CommandContext;
use crate::cli::env::Variable;
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
    collect(&command_line, &[], &mut pages);
    pages
}

fn collect(command: &clap::Command, related: &[String], pages: &mut Vec<Page>) {
    let source = format!("nomad-csi {}", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).source(source).manual("nomad-csi");
    let file = man.get_filename();
    // Writing to memory does not fail.
    if let Ok(text) = page(&man, command, related) {
        pages.push(Page { file, text });
    }
    let own = page_name(command);
    let is_program = related.is_empty();
    for subcommand in command.get_subcommands() {
        let inner = page_name(subcommand);
        let siblings = command.get_subcommands().map(page_name).filter(|name| *name != inner);
        let siblings = siblings.filter(|_| !is_program);
        let related: Vec<String> = std::iter::once(own.clone()).chain(siblings).collect();
        collect(subcommand, &related, pages);
    }
}

/// Returns the name of a command's page, such as `nomad-csi-volume-create`.
fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_owned()
}

/// Returns a page: what clap knows of the command, and the sections that readers of manuals look for.
fn page(
    man: &clap_mangen::Man,
    command: &clap::Command,
    related: &[String],
) -> std::io::Result<String> {
    let mut text = vec![];
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut text = String::from_utf8_lossy(&text).into_owned();
    text += &exit_status();
    text += &environment(related.is_empty());
    let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let examples = help.lines().map(str::trim).filter(|line| line.starts_with("nomad-csi "));
    let examples: String = examples.map(|line| format!("{}\n", escaped(line))).collect();
    if !examples.is_empty() {
        text.extend([".SH EXAMPLES\n.nf\n", &examples, ".fi\n"]);
    }
    let others = related.iter().cloned().chain(command.get_subcommands().map(page_name));
    let others = others.map(|name| format!("\\fB{}\\fR(1)", escaped(&name)));
    text.extend([".SH \"SEE ALSO\"\n", &others.collect::<Vec<_>>().join(", "), "\n"]);
    Ok(text)
}

/// The exit codes of the program. The description of a command says which ones it has.
const EXIT_CODES: [(Exit, &str); 6] = [
    (Exit::Done, "Success, or nothing to do."),
    (Exit::Error, "An error, including wrong usage."),
    (Exit::ChangesPending, "Changes or drift are pending, or there are warnings."),
    (Exit::Blocked, "A change is blocked: a server or plugin would refuse it, or it must wait."),
    (Exit::ApprovalNeeded, "An approval is required and was not given."),
    (Exit::Interrupted, "An interrupt stopped the command."),
];

fn exit_status() -> String {
    let rows = EXIT_CODES.iter().map(|(exit, meaning)| row(&exit.code().to_string(), meaning));
    format!(".SH \"EXIT STATUS\"\n{}", rows.collect::<String>())
}

/// The variables of the server, which every page shows.
const OF_SERVER: [Variable; 5] =
    [Variable::Address, Variable::Context, Variable::Namespace, Variable::Region, Variable::Token];

/// Returns the section of environment variables: all of them on the program's page.
fn environment(is_program: bool) -> String {
    let is_shown = |variable: &&Variable| match is_program {
        true => **variable != Variable::Complete,
        false => OF_SERVER.contains(variable),
    };
    let rows = Variable::ALL.iter().filter(is_shown);
    let rows: String = rows.map(|variable| row(variable.name(), variable.doc())).collect();
    let others = match is_program {
        true => "",
        false => "\\fBnomad\\-csi\\fR(1) lists all variables. ",
    };
    let rule = "A flag overrides its variable. An empty value counts as unset.";
    format!(".SH ENVIRONMENT\n{rows}.PP\n{others}{rule}\n")
}

fn row(name: &str, meaning: &str) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escaped(name), escaped(meaning))
}

/// Returns a line of text as roff has it, where `\`, `-`, and a full stop or a quote at its start have a meaning.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    match line.starts_with(['.', '\'']) {
        true => format!("\\&{line}"),
        false => line,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::command_line::Cli;

    const SECTIONS: [&str; 7] =
        ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "SEE ALSO"];

    #[test]
    fn every_page_has_the_sections_that_readers_look_for() {
        for page in pages(Cli::command()) {
            let sections = page.text.lines().filter_map(|line| line.strip_prefix(".SH "));
            let sections: Vec<&str> = sections.map(|name| name.trim_matches('"')).collect();
            for section in SECTIONS {
                let count = sections.iter().filter(|name| **name == section).count();
                assert_eq!(count, 1, "{}: {section} in {sections:?}", page.file);
            }
            assert!(!sections.contains(&"EXTRA"), "{}", page.file);
        }
    }

    #[test]
    fn every_page_names_others_and_all_of_them_exist() {
        let pages = pages(Cli::command());
        for page in &pages {
            let (_, others) = page.text.split_once(".SH \"SEE ALSO\"\n").unwrap_or_default();
            for name in others.trim().split(", ") {
                let name = name.trim_start_matches("\\fB").trim_end_matches("\\fR(1)");
                let file = format!("{}.1", name.replace("\\-", "-"));
                assert!(pages.iter().any(|page| page.file == file), "{}: {file}", page.file);
            }
        }
    }

    #[test]
    fn every_argument_is_described() {
        fn visit(command: &clap::Command) {
            for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
                let help = argument.get_help().or_else(|| argument.get_long_help());
                let is_described = help.is_some_and(|help| !help.to_string().trim().is_empty());
                assert!(is_described, "{:?}: {}", command.get_bin_name(), argument.get_id());
            }
            command.get_subcommands().for_each(visit);
        }
        let mut command_line = Cli::command();
        command_line.build();
        visit(&command_line);
    }

    #[test]
    fn a_line_is_text_in_roff() {
        for (line, expected) in
            [("--yes", "\\-\\-yes"), (".x", "\\&.x"), ("'x", "\\&'x"), ("a\\b", "a\\eb")]
        {
            assert_eq!(escaped(line), expected);
        }
    }
}
