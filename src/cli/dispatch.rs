//! Dispatch: from a parsed command to the function that runs it.

use clap::CommandFactory as _;

use super::command_context::CommandContext;
use super::command_line::{Cli, Command};
#[cfg(feature = "agent")]
use super::commands::agent;
use super::commands::auth::AuthCommand;
use super::commands::context as contexts;
use super::commands::plugin::PluginCommand;
use super::commands::submit::submit_volumes;
use super::commands::volume::VolumeCommand;
use super::commands::{
    apply, auth, completion, drift, explain, forget, import, man, orphans, plan, plugin, reconcile,
    set, snapshot, validate, volume,
};
use super::error::CliError;
use super::exit::Exit;
use super::process_environment::ProcessOwnership;
#[cfg(feature = "agent")]
use super::runtime::{RuntimeOptions, Threads, run_in_runtime, run_server};
use super::runtime::{run_client, run_loop};
use crate::reconcile::workflow::ApplyMode;
#[cfg(feature = "agent")]
use crate::telemetry::LogLevel;

/// Runs a command.
///
/// # Errors
/// Those of the command.
pub(super) fn dispatch(
    context: &CommandContext,
    command: &Command,
    process: ProcessOwnership,
) -> Result<Exit, CliError> {
    match command {
        Command::Validate(arguments) => validate::run(context, arguments),
        Command::Explain(arguments) => explain::run(context, arguments),
        Command::Completion(arguments) => completion::run(context, arguments),
        Command::Man(arguments) => man::run(context, arguments, Cli::command()),
        Command::Auth(AuthCommand::Check(arguments)) => {
            run_client(context, process, auth::check(context, arguments))
        }
        Command::Context(command) => contexts::run(context, command),
        Command::Plan(arguments) => run_client(context, process, plan::run(context, arguments)),
        Command::Apply(arguments) => run_client(context, process, apply::run(context, arguments)),
        Command::Import(arguments) => run_client(context, process, import::run(context, arguments)),
        Command::Reconcile(arguments) => {
            run_loop(context, process, reconcile::run(context, arguments))
        }
        Command::Drift(arguments) => run_client(context, process, drift::run(context, arguments)),
        Command::Set(command) => run_client(context, process, set::run(context, command)),
        Command::Forget(arguments) => run_client(context, process, forget::run(context, arguments)),
        Command::Volume(command) => dispatch_volume(context, command, process),
        Command::Snapshot(command) => run_client(context, process, snapshot::run(context, command)),
        Command::Orphans(arguments) => {
            run_client(context, process, orphans::run(context, arguments))
        }
        Command::Plugin(PluginCommand::Status(arguments)) => {
            run_client(context, process, plugin::status::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Serve(arguments)) => {
            run_server(context, process, plugin::serve::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Probe(arguments)) => {
            run_client(context, process, plugin::probe::run(context, arguments))
        }
        #[cfg(feature = "agent")]
        Command::Plugin(PluginCommand::Check(arguments)) => {
            let options = RuntimeOptions {
                default_log_level: LogLevel::Warn,
                threads: Threads::Many,
                abort_message: plugin::check::LEFT,
            };
            run_in_runtime(
                context,
                process,
                &options,
                plugin::check::run(context, arguments),
            )
        }
        #[cfg(feature = "agent")]
        Command::Agent(arguments) => run_server(context, process, agent::run(context, arguments)),
    }
}

fn dispatch_volume(
    context: &CommandContext,
    command: &VolumeCommand,
    process: ProcessOwnership,
) -> Result<Exit, CliError> {
    match command {
        VolumeCommand::Create(arguments) => {
            let submitting = submit_volumes(context, arguments, ApplyMode::Create);
            run_client(context, process, submitting)
        }
        VolumeCommand::Register(arguments) => {
            let submitting = submit_volumes(context, arguments, ApplyMode::Register);
            run_client(context, process, submitting)
        }
        VolumeCommand::Deregister(arguments) => run_client(
            context,
            process,
            volume::remove::deregister(context, arguments),
        ),
        VolumeCommand::Delete(arguments) => {
            run_client(context, process, volume::remove::delete(context, arguments))
        }
        VolumeCommand::Status(arguments) => {
            run_client(context, process, volume::status::run(context, arguments))
        }
        VolumeCommand::Detach(arguments) => {
            run_client(context, process, volume::detach::run(context, arguments))
        }
        VolumeCommand::Wait(arguments) => {
            run_client(context, process, volume::wait::run(context, arguments))
        }
        VolumeCommand::Expand(arguments) => {
            run_client(context, process, volume::expand::run(context, arguments))
        }
        VolumeCommand::Init(arguments) => volume::init::run(context, arguments),
    }
}
