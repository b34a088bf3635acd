//! The reference of the command line, `docs/cli.md`, generated from the help.

use clap::{Arg, ArgAction, Command, CommandFactory as _};

use super::command_line::Cli;
use super::env::Variable;

/// Returns the reference as Markdown.
pub fn reference() -> String {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut parts = vec![
        "# The command line\n\n<!-- Generated from the program: \
         `NOMAD_CSI_BLESS=1 cargo test --test suite generated` updates it. -->\n"
            .to_owned(),
    ];
    chapter(&command, &mut parts);
    parts.push(
        "\n## Environment\n\nA flag overrides its variable; an empty value counts as unset.\n\n\
         | Variable | Meaning |\n| --- | --- |\n"
            .to_owned(),
    );
    let shown = |variable: &&Variable| **variable != Variable::Complete;
    let row =
        |variable: &Variable| format!("| `{}` | {} |\n", variable.name(), cell(variable.doc()));
    parts.extend(Variable::ALL.iter().filter(shown).map(row));
    parts.concat()
}

fn chapter(command: &Command, parts: &mut Vec<String>) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let about = command.get_long_about().or_else(|| command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    parts.push(format!("\n## `{name}`\n\n{}\n\n    {usage}\n", about.trim()));
    let is_root = !name.contains(' ');
    parts.extend(examples(command).filter(|_| !is_root));
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .filter(|argument| is_root || !argument.is_global_set())
        .filter(|argument| argument.get_id() != "help" && argument.get_id() != "version")
        .collect();
    if !arguments.is_empty() {
        parts.push("\n| Argument | Meaning |\n| --- | --- |\n".to_owned());
    }
    let row =
        |argument: &Arg| format!("| {} | {} |\n", signature(argument), cell(&meaning(argument)));
    parts.extend(arguments.into_iter().map(row));
    for subcommand in command.get_subcommands() {
        chapter(subcommand, parts);
    }
}

/// Returns the examples of a command as a code block.
fn examples(command: &Command) -> impl Iterator<Item = String> {
    let help = command.get_after_long_help().map(ToString::to_string);
    help.into_iter().map(|help| {
        let (title, lines) = help.split_once('\n').unwrap_or((&help, ""));
        let lines = lines.lines().map(|line| format!("    {}\n", line.trim()));
        format!("\n{title}\n\n{}", lines.collect::<String>())
    })
}

fn signature(argument: &Arg) -> String {
    let value = argument
        .get_value_names()
        .map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        .unwrap_or_default();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if argument.is_positional() {
        return format!("`{value}`");
    }
    let mut names = vec![];
    if let Some(short) = argument.get_short() {
        names.push(format!("-{short}"));
    }
    if let Some(long) = argument.get_long() {
        names.push(format!("--{long}"));
    }
    let names = names.join("`, `");
    match (takes_value, argument.is_require_equals_set()) {
        (false, _) => format!("`{names}`"),
        (true, true) => format!("`{names}[={value}]`"),
        (true, false) => format!("`{names} {value}`"),
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let text = help.map(ToString::to_string).unwrap_or_default();
    // clap removes the full stop of the first paragraph, and a table has no paragraphs.
    let mut parts = vec![text.replace("\n\n", ". ")];
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    let takes_value = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    if takes_value && !values.is_empty() {
        parts.push(format!("one of {}", values.join(", ")));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if takes_value && !defaults.is_empty() {
        parts.push(format!("default `{}`", defaults.join(" ")));
    }
    parts.join("; ")
}

/// Returns the text on one line with column separators escaped.
fn cell(text: &str) -> String {
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('|', "\\|")
}
