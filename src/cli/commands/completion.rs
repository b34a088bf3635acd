//! `completion`: the script that completes command lines in a shell, and the completion itself.
//!
//! The script calls this program (`COMPLETE=bash nomad-csi -- words…`), so names of volumes, plugins, sets
//! and nodes come from the server that the environment names (`live_values`). The last word is the one before the
//! cursor. The scripts of bash and zsh are this program's own: the engine's let bash expand candidates, and pass
//! words with their quotes.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use clap::{Args, FromArgMatches as _, ValueEnum as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;

use super::live_lists::{NamedObjects, ServerValue};
use super::live_values::{ServerValues, candidates};
use super::shell_words::{Shell, TypedWord, is_option};
use crate::cli::args::GlobalArgs;
use crate::cli::cluster_contexts::ConfigHome;
use crate::cli::command_context::CommandContext;
use crate::cli::env::Variable;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::OutputFormat;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{HiddenField, Risk};
use nomad_csi_spec::schema;

/// Arguments of `completion`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Never: all shells are known.
pub(crate) fn print_completion_script(
    context: &CommandContext,
    arguments: &CompletionArgs,
) -> Result<Exit, CliError> {
    context.printer.print_result(&registration(arguments.shell)?);
    Ok(Exit::Done)
}

const BASH: &str = include_str!("completion/script.bash");
const ZSH: &str = include_str!("completion/script.zsh");

/// Returns the script that a shell sources.
///
/// # Errors
/// If the engine cannot write the script.
pub fn registration(shell: Shell) -> Result<String, CliError> {
    match shell {
        Shell::Bash => return Ok(BASH.to_owned()),
        Shell::Zsh => return Ok(ZSH.to_owned()),
        Shell::Fish | Shell::Powershell | Shell::Elvish => {}
    }
    let mut script = vec![];
    let shells = Shells::builtins();
    let shell = shells
        .completer(shell.name())
        .ok_or_else(|| broken("the completion engine does not support the shell"))?;
    shell
        .write_registration(
            Variable::Complete.name(),
            "nomad-csi",
            "nomad-csi",
            "nomad-csi",
            &mut script,
        )
        .map_err(|error| broken(&error.to_string()))?;
    Ok(String::from_utf8_lossy(&script).trim_start().to_owned())
}

fn broken(why: &str) -> CliError {
    Diagnostic::error(Code::Internal, "cannot create the completion script").note(why).into()
}

/// Completes the words after `--`, which the shell's script passes.
///
/// # Errors
/// If the shell is unknown.
pub(crate) fn complete(
    context: &CommandContext,
    shell: &str,
    command_line: clap::Command,
) -> Result<Exit, CliError> {
    let Some(shell) = Shell::named(shell) else {
        let names = Shell::value_variants().iter().map(|shell| shell.name());
        let names = names.collect::<Vec<_>>().join(", ");
        let message =
            format!("{} is `{shell}`, which is not a supported shell", Variable::Complete.name());
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help(format!("use `nomad-csi completion`, or set it to one of: {names}"))
            .into());
    };
    let mut words: Vec<OsString> =
        context.arguments.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
    let last = words.pop().unwrap_or_default();
    let Some(typed) = TypedWord::read(shell, &last) else {
        return Ok(Exit::Done);
    };
    words.push(typed.text.clone().into());
    let index = words.len() - 1;
    let mut command = with_live_values(context, command_line, &words);
    let directory = Some(context.directory.as_path());
    let found = clap_complete::engine::complete(&mut command, words, index, directory)
        .map_err(|error| broken(&error.to_string()))?;
    let lines = found.iter().filter_map(|candidate| {
        let value = candidate.get_value().to_str()?;
        if value.starts_with('-') && !is_option(&command, value) {
            return None;
        }
        Some(candidate_line(shell, &typed.offer(value)?, candidate))
    });
    context.printer.print_result(&lines.collect::<String>());
    Ok(Exit::Done)
}

/// Returns a candidate with its description, as the script of the shell reads it.
fn candidate_line(shell: Shell, value: &str, candidate: &CompletionCandidate) -> String {
    let help = candidate.get_help().map(ToString::to_string);
    let help = help.as_deref().and_then(|help| help.lines().next());
    let escaped = |text: &str| text.replace('\\', "\\\\");
    match (shell, help) {
        (Shell::Zsh, help) => {
            let value = escaped(value).replace(':', "\\:");
            let help = help.map(|help| format!(":{}", escaped(help)));
            format!("{value}{}\n", help.unwrap_or_default())
        }
        (Shell::Fish | Shell::Powershell, Some(help)) => format!("{value}\t{help}\n"),
        (Shell::Bash | Shell::Elvish, _) | (Shell::Fish | Shell::Powershell, None) => {
            format!("{value}\n")
        }
    }
}

/// Returns the command line with completers of the values that are known here or on the server.
fn with_live_values(
    context: &CommandContext,
    command_line: clap::Command,
    words: &[OsString],
) -> clap::Command {
    let global = global(command_line.clone(), words);
    let contexts = contexts(&global, context);
    let server =
        Arc::new(ServerValues::new(global, named_objects(command_line.clone(), words), context));
    let values = CompletedValues { contexts, server };
    values.complete("", command_line)
}

/// The sources that complete the values of arguments.
struct CompletedValues {
    contexts: Vec<String>,
    server: Arc<ServerValues>,
}

impl CompletedValues {
    /// Adds completers to a command and its subcommands. `path` is its name without the program's.
    fn complete(&self, path: &str, command: clap::Command) -> clap::Command {
        let command = command.mut_args(|argument| match self.completer(path, &argument) {
            Some(completer) => argument.add(completer),
            None => argument,
        });
        command.mut_subcommands(|inner| {
            let name = format!("{path} {}", inner.get_name());
            self.complete(name.trim_start(), inner)
        })
    }

    /// Returns the completer of an argument of the command with this path; `None` if nothing is known of
    /// its values.
    fn completer(&self, path: &str, argument: &clap::Arg) -> Option<ArgValueCompleter> {
        let name = argument.get_id().as_str();
        if let Some((kind, before)) = server_value_after(path, name) {
            return Some(ServerValues::completer(&self.server, kind, &before));
        }
        if let Some(kind) = server_value(path, name) {
            return Some(ServerValues::completer(&self.server, kind, &[]));
        }
        let known = match (path, name) {
            ("", "context") | ("context use" | "context show", "name") => self.contexts.clone(),
            ("explain", "word") => explained_words(),
            (_, "ignore") => schema::drift_fields().collect(),
            (_, "output") if argument.get_possible_values().is_empty() => {
                OutputFormat::NAMES.map(str::to_owned).to_vec()
            }
            _ => return None,
        };
        Some(starting_with(known))
    }
}

/// Returns the values of the server that an argument takes after a word and a colon, with those words.
fn server_value_after(path: &str, argument: &str) -> Option<(ServerValue, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(|word| format!("{word}:")).collect();
    match (path, argument) {
        ("orphans", "approve") => {
            let destroys_data = words(&[Risk::DestroysData.as_str()]);
            Some((ServerValue::ExternalVolume, destroys_data))
        }
        (_, "approve") => Some((ServerValue::Volume, words(&Risk::ALL.map(Risk::as_str)))),
        ("volume expand", "accept_loss") => None,
        (_, "accept_loss") => {
            let fields = words(&HiddenField::ALL.map(HiddenField::as_str));
            Some((ServerValue::Volume, fields))
        }
        _ => None,
    }
}

/// Returns the values of the server that an argument takes.
fn server_value(path: &str, argument: &str) -> Option<ServerValue> {
    let kind = match (path, argument) {
        ("orphans", "adopt" | "delete_data") => ServerValue::ExternalVolume,
        ("import", "external") => ServerValue::PluginOrExternalVolume,
        ("", "namespace") => ServerValue::Scope,
        ("", "region") => ServerValue::Region,
        ("namespace delete", "name") | (_, "ledger_namespace") => ServerValue::Namespace,
        ("snapshot delete", "ids") => ServerValue::Snapshot,
        ("job stop" | "job status" | "job dispatch" | "job periodic force", "id")
        | ("explain placement", "job") => ServerValue::Job,
        ("alloc logs", "task") => ServerValue::Task,
        ("alloc status" | "alloc logs" | "alloc stop", "id") | (_, "alloc") => {
            ServerValue::Allocation
        }
        ("volume release", "alias") => ServerValue::Alias,
        ("plugin status" | "plugin wait" | "plugin impact", "id") | (_, "plugin") => {
            ServerValue::Plugin
        }
        ("set show", "name") | (_, "set") => ServerValue::Set,
        (_, "node") => ServerValue::Node,
        (_, "replace" | "delete_data" | "volume") | ("forget" | "import", "ids") => {
            ServerValue::Volume
        }
        (path, "id" | "ids") if path.starts_with("volume ") || path == "snapshot create" => {
            ServerValue::Volume
        }
        _ => return None,
    };
    Some(kind)
}

/// Returns what `explain` explains.
fn explained_words() -> Vec<String> {
    let codes = Code::ALL.iter().map(ToString::to_string);
    let fields = schema::located_fields().map(|(_, field)| field.key.to_owned());
    codes.chain(fields).collect()
}

/// Returns the names of the config file's contexts. Empty if it cannot be read.
fn contexts(global: &GlobalArgs, context: &CommandContext) -> Vec<String> {
    let home = ConfigHome::of(global, &context.environment, &context.directory);
    let read = home.and_then(|home| home.contexts());
    read.map(|(contexts, _)| contexts.into_keys().collect()).unwrap_or_default()
}

/// The flags on the command line so far.
fn global(command_line: clap::Command, words: &[OsString]) -> GlobalArgs {
    let matches = command_line.ignore_errors(true).try_get_matches_from(words);
    matches
        .and_then(|matches| GlobalArgs::from_arg_matches(&matches))
        .unwrap_or_default()
        .with_all_namespaces()
}

/// The objects on the command line so far, of the command that is completed.
fn named_objects(command_line: clap::Command, words: &[OsString]) -> NamedObjects {
    let matches = command_line.ignore_errors(true).try_get_matches_from(words);
    let Ok(matches) = matches else {
        return NamedObjects::default();
    };
    let mut innermost = &matches;
    while let Some((_, inner)) = innermost.subcommand() {
        innermost = inner;
    }
    let value = |name: &str| {
        let values = innermost.try_get_many::<String>(name).ok().flatten();
        values.and_then(|mut values| values.next()).cloned()
    };
    NamedObjects {
        plugin: value("plugin").or_else(|| external_plugin(words)),
        alloc: value("alloc").or_else(|| value("id")),
        volume: value("id"),
    }
}

/// The plugin of `--external PLUGIN EXTERNAL_ID`, if the word after it is completed.
fn external_plugin(words: &[OsString]) -> Option<String> {
    let (_, before) = words.split_last()?;
    let (plugin, before) = before.split_last()?;
    (before.last()? == "--external").then(|| plugin.to_string_lossy().into_owned())
}

fn starting_with(values: Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| candidates(&values, current))
}
