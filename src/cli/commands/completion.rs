//! `completion`: the script that completes command lines in a shell, and the completion itself.
//!
//! The script calls this program (`COMPLETE=bash nomad-csi -- words…`), so IDs of volumes and plugins come
//! from the server that the environment names. A server that does not answer within a fraction of a
//! second completes nothing.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use clap::{Args, FromArgMatches as _, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;

use crate::cli::args::GlobalArgs;
use crate::cli::cluster_contexts::{ConfigHome, select_cluster};
use crate::cli::command_context::CommandContext;
use crate::cli::env::{Environment, Variable};
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::servers::Servers;
use crate::cli::settings::{Target, namespace, server_target};
use crate::cli::ui::OutputFormat;
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Namespace;
use crate::ports::{VolumeApi, VolumeQuery};
use crate::spec::schema;

/// Arguments of `completion`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// Shell to complete in
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// The supported shells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// `source <(nomad-csi completion bash)`
    Bash,
    /// `source <(nomad-csi completion zsh)`
    Zsh,
    /// `nomad-csi completion fish | source`
    Fish,
    /// `nomad-csi completion powershell | Out-String | Invoke-Expression`
    Powershell,
    /// `eval (nomad-csi completion elvish | slurp)`
    Elvish,
}

/// The longest time that a completion takes.
const PATIENCE: Duration = Duration::from_millis(700);

/// Prints the script.
///
/// # Errors
/// Never: all shells are known.
pub(crate) fn print_completion_script(
    context: &CommandContext,
    arguments: &CompletionArgs,
) -> Result<Exit, CliError> {
    context
        .printer
        .print_result(&registration(arguments.shell)?);
    Ok(Exit::Done)
}

/// Returns the script that a shell sources.
///
/// # Errors
/// If the engine cannot write the script.
pub fn registration(shell: Shell) -> Result<String, CliError> {
    let name = match shell {
        Shell::Bash => "bash",
        Shell::Zsh => "zsh",
        Shell::Fish => "fish",
        Shell::Powershell => "powershell",
        Shell::Elvish => "elvish",
    };
    let mut script = vec![];
    let shells = Shells::builtins();
    let shell = shells
        .completer(name)
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
    Diagnostic::error(Code::Internal, "cannot create the completion script")
        .note(why)
        .into()
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
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(shell) else {
        let names = shells.names().collect::<Vec<_>>().join(", ");
        let message = format!(
            "{} is `{shell}`, which is not a supported shell",
            Variable::Complete.name()
        );
        return Err(Diagnostic::error(Code::CliInvalidValue, message)
            .help(format!(
                "use `nomad-csi completion`, or set it to one of: {names}"
            ))
            .into());
    };
    let words: Vec<OsString> = context
        .arguments
        .iter()
        .skip_while(|word| *word != "--")
        .skip(1)
        .cloned()
        .collect();
    let mut answer = vec![];
    let mut command = with_live_values(context, command_line, &words);
    shell
        .write_complete(&mut command, words, Some(&context.directory), &mut answer)
        .map_err(|error| broken(&error.to_string()))?;
    context
        .printer
        .print_result(&String::from_utf8_lossy(&answer));
    Ok(Exit::Done)
}

/// Returns the command line with completers that ask the server for values.
fn with_live_values(
    context: &CommandContext,
    command_line: clap::Command,
    words: &[OsString],
) -> clap::Command {
    let asking = Arc::new(Asking {
        global: global(command_line.clone(), words),
        environment: context.environment.clone(),
        directory: context.directory.clone(),
        servers: Arc::clone(&context.servers),
        known: OnceLock::new(),
    });
    let volumes = |argument: clap::Arg| argument.add(asking.completer(|known| &known.volumes));
    let plugins = |argument: clap::Arg| argument.add(asking.completer(|known| &known.plugins));
    let namespaces =
        |argument: clap::Arg| argument.add(asking.completer(|known| &known.namespaces));
    let names = contexts(&context.environment);
    command_line
        .mut_arg("namespace", namespaces)
        .mut_arg("context", |argument| {
            argument.add(starting_with(names.clone()))
        })
        .mut_subcommand("context", |command| {
            let named = |verb: clap::Command| {
                verb.mut_arg("name", |argument| {
                    argument.add(starting_with(names.clone()))
                })
            };
            command
                .mut_subcommand("use", named)
                .mut_subcommand("show", |verb| named(verb).mut_arg("output", forms))
                .mut_subcommand("list", |verb| verb.mut_arg("output", forms))
        })
        .mut_subcommand("volume", |command| {
            command
                .mut_subcommand("delete", |verb| verb.mut_arg("ids", volumes))
                .mut_subcommand("deregister", |verb| verb.mut_arg("ids", volumes))
                .mut_subcommand("detach", |verb| verb.mut_arg("id", volumes))
                .mut_subcommand("wait", |verb| verb.mut_arg("id", volumes))
                .mut_subcommand("expand", |verb| {
                    verb.mut_arg("id", volumes).mut_arg("output", forms)
                })
                .mut_subcommand("create", |verb| verb.mut_arg("output", forms))
                .mut_subcommand("register", |verb| verb.mut_arg("output", forms))
                .mut_subcommand("status", |verb| {
                    verb.mut_arg("id", volumes)
                        .mut_arg("plugin", plugins)
                        .mut_arg("output", forms)
                })
        })
        .mut_subcommand("orphans", |command| {
            command.mut_arg("plugin", plugins).mut_arg("output", forms)
        })
        .mut_subcommand("snapshot", |command| {
            command
                .mut_subcommand("create", |verb| {
                    verb.mut_arg("id", volumes).mut_arg("output", forms)
                })
                .mut_subcommand("list", |verb| {
                    verb.mut_arg("plugin", plugins)
                        .mut_arg("volume", volumes)
                        .mut_arg("output", forms)
                })
                .mut_subcommand("delete", |verb| verb.mut_arg("plugin", plugins))
        })
        .mut_subcommand("plugin", |command| {
            command
                .mut_subcommand("wait", |verb| verb.mut_arg("id", plugins))
                .mut_subcommand("status", |verb| {
                    verb.mut_arg("id", plugins).mut_arg("output", forms)
                })
        })
        .mut_subcommand("apply", |command| command.mut_arg("output", forms))
        .mut_subcommand("explain", |command| {
            let codes = Code::ALL.iter().map(ToString::to_string);
            let fields = schema::located_fields().map(|(_, field)| field.key.to_owned());
            let words: Vec<String> = codes.chain(fields).collect();
            command.mut_arg("word", |argument| argument.add(starting_with(words)))
        })
}

/// Returns the names of the config file's contexts. Empty if it cannot be read.
fn contexts(environment: &Environment) -> Vec<String> {
    let read = ConfigHome::of(environment).and_then(|home| home.contexts());
    read.map(|(contexts, _)| contexts.into_keys().collect())
        .unwrap_or_default()
}

/// The flags on the command line so far.
fn global(command_line: clap::Command, words: &[OsString]) -> GlobalArgs {
    let matches = command_line.ignore_errors(true).try_get_matches_from(words);
    matches
        .and_then(|matches| GlobalArgs::from_arg_matches(&matches))
        .unwrap_or_default()
}

fn forms(argument: clap::Arg) -> clap::Arg {
    argument.add(starting_with(
        OutputFormat::NAMES.map(str::to_owned).to_vec(),
    ))
}

fn starting_with(values: Vec<String>) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| candidates(&values, current))
}

fn candidates(values: &[String], current: &OsStr) -> Vec<CompletionCandidate> {
    let current = current.to_string_lossy();
    let matching = values
        .iter()
        .filter(|value| value.starts_with(current.as_ref()));
    matching.map(CompletionCandidate::new).collect()
}

/// Values from the server, read when the first one is needed.
struct Asking {
    global: GlobalArgs,
    environment: Environment,
    directory: PathBuf,
    servers: Arc<dyn Servers>,
    known: OnceLock<Known>,
}

#[derive(Default)]
struct Known {
    volumes: Vec<String>,
    plugins: Vec<String>,
    namespaces: Vec<String>,
}

impl Asking {
    fn completer(self: &Arc<Self>, of: fn(&Known) -> &Vec<String>) -> ArgValueCompleter {
        let asking = Arc::clone(self);
        ArgValueCompleter::new(move |current: &OsStr| {
            candidates(of(asking.known.get_or_init(|| asking.ask())), current)
        })
    }

    /// Queries the server for a time that a user does not notice. Never starts an agent.
    fn ask(&self) -> Known {
        let Ok(chosen) = select_cluster(&self.global, &self.environment) else {
            return Known::default();
        };
        let chosen = chosen.as_ref();
        let Ok(target @ Target::Cluster(_)) =
            server_target(&self.global, &self.environment, &self.directory, chosen)
        else {
            return Known::default();
        };
        let Ok(runtime) = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
        else {
            return Known::default();
        };
        let known = runtime.block_on(async {
            let asking = async {
                let session = self.servers.open(&target).await.ok()?;
                let scope = namespace(&self.global, &self.environment, chosen)
                    .ok()?
                    .unwrap_or_default();
                Some(Known::of(&*session.api, &scope).await)
            };
            tokio::time::timeout(PATIENCE, asking).await.ok().flatten()
        });
        runtime.shutdown_background();
        known.unwrap_or_default()
    }
}

impl Known {
    async fn of(api: &dyn VolumeApi, scope: &Namespace) -> Self {
        let everywhere = VolumeQuery {
            namespace: Namespace::new(Namespace::ALL),
            prefix: None,
            plugin: None,
            filter: None,
        };
        let (volumes, plugins) =
            tokio::join!(api.list_volumes(&everywhere), api.list_plugins(None));
        let volumes = volumes.unwrap_or_default();
        let in_scope = volumes
            .iter()
            .filter(|one| scope.as_str() == Namespace::ALL || one.value.namespace == *scope);
        let mut namespaces: Vec<_> = volumes
            .iter()
            .map(|one| one.value.namespace.to_string())
            .collect();
        namespaces.push(Namespace::ALL.to_owned());
        namespaces.sort();
        namespaces.dedup();
        let plugins = plugins.unwrap_or_default();
        Self {
            volumes: in_scope.map(|one| one.value.id.to_string()).collect(),
            plugins: plugins.iter().map(|one| one.value.id.to_string()).collect(),
            namespaces,
        }
    }
}
