//! One run: from the outside world to an exit code.

use std::future::Future;
use std::io::Write;
use std::sync::{Arc, OnceLock};

use clap::{CommandFactory as _, FromArgMatches as _};
use tracing_subscriber::fmt::MakeWriter;

use super::args::{
    AuthCommand, Choices, Cli, Command, Global, PluginCommand, SetArgument, Submit, VolumeCommand,
};
#[cfg(feature = "agent")]
use super::commands::agent;
use super::commands::context as contexts;
use super::commands::submit::{self, Verb};
use super::commands::{
    apply, auth, completion, drift, explain, forget, import, man, orphans, plan, plugin, reconcile,
    set, snapshot, validate, volume,
};
use super::context::{Context, Stdin};
use super::env::Variable;
use super::error::CliError;
use super::exit::Exit;
use super::settings::{colour, columns, log};
use super::ui::{Printer, Stream};
use super::world::{Process, Sink, World};
use crate::diagnostic::{Code, Diagnostic};
use crate::telemetry::{self, LogLevel};

/// Runs one command and says how it ended.
pub fn run(world: World) -> Exit {
    let width = columns(&world.environment, world.columns);
    let parsed = parse(&world, width);
    let global = parsed
        .as_ref()
        .map(|cli| cli.global.clone())
        .unwrap_or_default();
    let process = world.process;
    let context = context(world, global, width);
    let exit = match parsed {
        Ok(cli) => dispatch(&context, &cli.command, process).unwrap_or_else(|error| {
            context.report(&error.diagnostics, &error.sources);
            error.exit
        }),
        Err(Unparsed::Completion(shell)) => {
            completion::complete(&context, &shell).unwrap_or_else(|error| error.exit)
        }
        Err(Unparsed::Clap(error)) => usage(&context, &error),
    };
    match context.printer.take_failure() {
        None => exit,
        Some(error) => {
            let message = "not everything could be written to standard output";
            context.say(&Diagnostic::error(Code::CliOutputFailed, message).note(error.to_string()));
            exit.max(Exit::Error)
        }
    }
}

enum Unparsed {
    /// A shell asks for completions.
    Completion(String),
    /// Help, the version, or a mistake.
    Clap(clap::Error),
}

fn parse(world: &World, width: usize) -> Result<Cli, Unparsed> {
    if let Ok(Some(shell)) = world.environment.text(Variable::Complete) {
        return Err(Unparsed::Completion(shell.to_owned()));
    }
    Cli::command()
        .term_width(width.min(100))
        .try_get_matches_from(&world.arguments)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(Unparsed::Clap)
}

fn context(world: World, global: Global, width: usize) -> Context {
    let environment = world.environment;
    let stream = |sink: Sink| Stream {
        colour: colour(&global, &environment, sink.is_terminal),
        is_terminal: sink.is_terminal,
        writer: sink.writer,
    };
    let moves = !matches!(environment.text(Variable::Terminal), Ok(Some("dumb")));
    let printer = Printer::new(stream(world.stdout), stream(world.stderr), width, moves);
    Context {
        arguments: world.arguments,
        global,
        environment,
        directory: world.directory,
        printer: Arc::new(printer),
        clock: world.clock,
        time_zone: world.time_zone,
        host_name: world.host_name,
        process_id: world.process_id,
        servers: world.servers,
        interrupts: world.interrupts,
        stdin: Stdin::new(world.stdin.reader, world.stdin.is_terminal),
        chosen: OnceLock::new(),
    }
}

/// clap's own words; its exit code 2 would mean "changes are pending".
fn usage(context: &Context, error: &clap::Error) -> Exit {
    let text = error.render().ansi().to_string();
    if error.use_stderr() {
        context.printer.talk(text.trim_end());
        return Exit::Error;
    }
    context.printer.data(&text);
    Exit::Done
}

fn dispatch(context: &Context, command: &Command, process: Process) -> Result<Exit, CliError> {
    match command {
        Command::Validate(arguments) => validate::run(context, arguments),
        Command::Explain(arguments) => explain::run(context, arguments),
        Command::Completion(arguments) => completion::run(context, arguments),
        Command::Man(arguments) => man::run(context, arguments),
        Command::Auth(AuthCommand::Check(arguments)) => {
            wait(context, process, auth::check(context, arguments))
        }
        Command::Context(command) => contexts::run(context, command),
        Command::Plan(arguments) => wait(context, process, plan::run(context, arguments)),
        Command::Apply(arguments) => wait(context, process, apply::run(context, arguments)),
        Command::Import(arguments) => wait(context, process, import::run(context, arguments)),
        Command::Reconcile(arguments) => stay(context, process, reconcile::run(context, arguments)),
        Command::Drift(arguments) => wait(context, process, drift::run(context, arguments)),
        Command::Set(command) => wait(context, process, set::run(context, command)),
        Command::Forget(arguments) => wait(context, process, forget::run(context, arguments)),
        Command::Volume(command) => on_volume(context, command, process),
        Command::Snapshot(command) => wait(context, process, snapshot::run(context, command)),
        Command::Orphans(arguments) => wait(context, process, orphans::run(context, arguments)),
        Command::Plugin(PluginCommand::Status(arguments)) => {
            wait(context, process, plugin::status::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Serve(arguments)) => {
            serve(context, process, plugin::serve::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Probe(arguments)) => {
            wait(context, process, plugin::probe::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Check(arguments)) => {
            let manner = Manner {
                log: LogLevel::Warn,
                threads: Threads::Many,
                left: plugin::check::LEFT,
            };
            in_runtime(
                context,
                process,
                &manner,
                plugin::check::run(context, arguments),
            )
        }
        #[cfg(feature = "agent")]
        Command::Agent(arguments) => serve(context, process, agent::run(context, arguments)),
    }
}

fn on_volume(
    context: &Context,
    command: &VolumeCommand,
    process: Process,
) -> Result<Exit, CliError> {
    match command {
        VolumeCommand::Create(arguments) => {
            let (set, choices) = (SetArgument::default(), Choices::default());
            let order = order(context, arguments, (&set, &choices), Verb::Create)?;
            wait(context, process, submit::run(context, &order))
        }
        VolumeCommand::Register(arguments) => {
            let (set, choices) = (SetArgument::default(), Choices::default());
            let order = order(context, arguments, (&set, &choices), Verb::Register)?;
            wait(context, process, submit::run(context, &order))
        }
        VolumeCommand::Deregister(arguments) => wait(
            context,
            process,
            volume::remove::deregister(context, arguments),
        ),
        VolumeCommand::Delete(arguments) => {
            wait(context, process, volume::remove::delete(context, arguments))
        }
        VolumeCommand::Status(arguments) => {
            wait(context, process, volume::status::run(context, arguments))
        }
        VolumeCommand::Detach(arguments) => {
            wait(context, process, volume::detach::run(context, arguments))
        }
        VolumeCommand::Wait(arguments) => {
            wait(context, process, volume::wait::run(context, arguments))
        }
        VolumeCommand::Expand(arguments) => {
            wait(context, process, volume::expand::run(context, arguments))
        }
        VolumeCommand::Init(arguments) => volume::init::run(context, arguments),
    }
}

fn order<'a>(
    context: &Context,
    arguments: &'a Submit,
    (set, choices): (&'a SetArgument, &'a Choices),
    verb: Verb,
) -> Result<submit::Order<'a>, CliError> {
    Ok(submit::Order {
        files: &arguments.files,
        set,
        place: None,
        verb,
        output: &arguments.output.output,
        parallelism: arguments.parallelism.parallelism,
        choices,
        policy_override: arguments.policy_override,
        wait: false,
        saved: None,
        namespace: context.namespace()?,
    })
}

/// Waits for a command that talks to a server.
fn wait(
    context: &Context,
    process: Process,
    command: impl Future<Output = Result<Exit, CliError>>,
) -> Result<Exit, CliError> {
    let manner = Manner {
        log: LogLevel::Warn,
        threads: Threads::of_client(context),
        left: "left at once: calls that were running may still take effect; look with `nomad-csi volume status`",
    };
    in_runtime(context, process, &manner, command)
}

/// Waits for a command that goes on until somebody ends it, and says what it does.
fn stay(
    context: &Context,
    process: Process,
    command: impl Future<Output = Result<Exit, CliError>>,
) -> Result<Exit, CliError> {
    let manner = Manner {
        log: LogLevel::Info,
        threads: Threads::of_client(context),
        left: "left at once: calls that were running may still take effect; the next round finds out",
    };
    in_runtime(context, process, &manner, command)
}

/// Waits for a command that is a server, and says what it does.
#[cfg(feature = "agent")]
fn serve(
    context: &Context,
    process: Process,
    command: impl Future<Output = Result<Exit, CliError>>,
) -> Result<Exit, CliError> {
    let manner = Manner {
        log: LogLevel::Info,
        threads: Threads::Many,
        left: "left at once: what was begun is taken up by the next start",
    };
    in_runtime(context, process, &manner, command)
}

/// How a command is waited for.
struct Manner {
    /// What is logged where nobody says otherwise.
    log: LogLevel,
    threads: Threads,
    /// What it means to leave it where it is.
    left: &'static str,
}

/// On how many threads a command runs.
#[derive(Clone, Copy, Debug)]
enum Threads {
    /// A client mostly waits: threads that wake each other for every answer would take longer than
    /// what there is to do with it.
    One,
    /// A server uses all processors.
    Many,
}

impl Threads {
    /// Those of a command that talks to a server, which may be inside this process.
    fn of_client(context: &Context) -> Self {
        if context.global.is_embedded() {
            Self::Many
        } else {
            Self::One
        }
    }
}

/// Waits for a command. A second interrupt leaves it where it is, and says what that means.
fn in_runtime(
    context: &Context,
    process: Process,
    manner: &Manner,
    command: impl Future<Output = Result<Exit, CliError>>,
) -> Result<Exit, CliError> {
    if process == Process::Own {
        start_log(context, manner.log)?;
    }
    let mut builder = match manner.threads {
        Threads::One => tokio::runtime::Builder::new_current_thread(),
        Threads::Many => tokio::runtime::Builder::new_multi_thread(),
    };
    let runtime = builder.enable_all().build().map_err(|error| {
        Diagnostic::error(Code::Internal, "no threads can be started").note(error.to_string())
    })?;
    let ended = runtime.block_on(async {
        let signals = async {
            match process {
                Process::Own => context.interrupts.listen().await,
                Process::Shared => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = command => ended,
            never = signals => match never {},
            () = context.interrupts.leave() => {
                context.printer.talk(manner.left);
                Err(CliError::said(Exit::Interrupted))
            }
        }
    });
    // A thread may still wait for an answer on standard input.
    runtime.shutdown_background();
    ended
}

fn start_log(context: &Context, level: LogLevel) -> Result<(), CliError> {
    let settings = log(&context.global, &context.environment, level)?;
    telemetry::start(&settings, LogWriter(Arc::clone(&context.printer)))?;
    Ok(())
}

/// Log lines go where talk goes, so that they do not cut into progress.
#[derive(Clone)]
struct LogWriter(Arc<Printer>);

impl<'writer> MakeWriter<'writer> for LogWriter {
    type Writer = Self;

    fn make_writer(&'writer self) -> Self {
        self.clone()
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.ask(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
