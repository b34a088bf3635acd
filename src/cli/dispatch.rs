//! Dispatch: from a parsed command to the function that runs it.

use clap::CommandFactory as _;

use super::command_context::CommandContext;
use super::command_line::{Cli, Command};
#[cfg(feature = "agent")]
use super::commands::agent::{self, AgentCommand, AgentKeyCommand};
use super::commands::alloc::AllocCommand;
use super::commands::auth::AuthCommand;
use super::commands::context as contexts;
use super::commands::explain::ExplainCommand;
use super::commands::job::{JobCommand, JobPeriodicCommand};
use super::commands::plugin::PluginCommand;
use super::commands::submit::submit_volumes;
use super::commands::volume::VolumeCommand;
use super::commands::{
    alloc, apply, auth, completion, drift, explain, forget, import, job, man, namespace, node,
    orphans, plan, plugin, reconcile, set, snapshot, validate, volume,
};
use super::error::CliError;
use super::exit::Exit;
use super::process_environment::ProcessOwnership;
#[cfg(feature = "agent")]
use super::runtime::{RuntimeOptions, Threads, run_in_runtime, run_server};
use super::runtime::{run_client, run_loop};
#[cfg(feature = "agent")]
use crate::telemetry::LogLevel;
use nomad_csi_client::reconcile::workflow::ApplyMode;

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
        Command::Validate(arguments) => validate::validate_files(context, arguments),
        Command::Explain(arguments) => match &arguments.command {
            None => explain::explain_word(context, arguments),
            Some(ExplainCommand::Placement(placement)) => run_client(
                context,
                process,
                job::placement::explain_placement(context, placement),
            ),
        },
        Command::Completion(arguments) => completion::print_completion_script(context, arguments),
        Command::Man(arguments) => man::print_manual(context, arguments, Cli::command()),
        Command::Auth(AuthCommand::Check(arguments)) => {
            run_client(context, process, auth::check(context, arguments))
        }
        Command::Context(command) => contexts::manage_contexts(context, command),
        Command::Plan(arguments) => {
            run_client(context, process, plan::show_plan(context, arguments))
        }
        Command::Apply(arguments) => run_client(
            context,
            process,
            apply::apply_specifications(context, arguments),
        ),
        Command::Import(arguments) => run_client(
            context,
            process,
            import::import_existing(context, arguments),
        ),
        Command::Reconcile(arguments) => run_loop(
            context,
            process,
            reconcile::reconcile_until_stopped(context, arguments),
        ),
        Command::Drift(arguments) => {
            run_client(context, process, drift::show_drift(context, arguments))
        }
        Command::Set(command) => run_client(context, process, set::show_sets(context, command)),
        Command::Forget(arguments) => run_client(
            context,
            process,
            forget::forget_from_set(context, arguments),
        ),
        Command::Volume(command) => dispatch_volume(context, command, process),
        Command::Snapshot(command) => run_client(
            context,
            process,
            snapshot::manage_snapshots(context, command),
        ),
        Command::Job(command) => dispatch_job(context, command, process),
        Command::Alloc(command) => dispatch_alloc(context, command, process),
        Command::Node(command) => run_client(
            context,
            process,
            node::change::manage_nodes(context, command),
        ),
        Command::Namespace(command) => run_client(
            context,
            process,
            namespace::manage_namespaces(context, command),
        ),
        Command::Orphans(arguments) => run_client(
            context,
            process,
            orphans::manage_orphans(context, arguments),
        ),
        Command::Plugin(command) => dispatch_plugin(context, command, process),
        #[cfg(feature = "agent")]
        Command::Agent(arguments) => match &arguments.command {
            None => {
                let agent = agent::serve_agent(context, arguments);
                run_server(context, process, Threads::Many, agent)
            }
            Some(AgentCommand::Check(check)) => {
                run_client(context, process, agent::check_agent(context, check))
            }
            Some(AgentCommand::Journal(journal)) => {
                run_client(context, process, agent::show_journal(context, journal))
            }
            Some(AgentCommand::Key(AgentKeyCommand::Rotate(rotation))) => {
                run_client(context, process, agent::rotate_agent_key(context, rotation))
            }
        },
    }
}

fn dispatch_plugin(
    context: &CommandContext,
    command: &PluginCommand,
    process: ProcessOwnership,
) -> Result<Exit, CliError> {
    match command {
        PluginCommand::Status(arguments) => run_client(
            context,
            process,
            plugin::status::show_plugins(context, arguments),
        ),
        PluginCommand::Impact(arguments) => run_client(
            context,
            process,
            plugin::impact::show_impact(context, arguments),
        ),
        PluginCommand::Wait(arguments) => run_client(
            context,
            process,
            plugin::wait::wait_until_healthy(context, arguments),
        ),
        #[cfg(feature = "agent")]
        PluginCommand::Serve(arguments) => {
            let plugin = plugin::serve::serve_embedded_plugin(context, arguments);
            run_server(context, process, Threads::One, plugin)
        }
        #[cfg(feature = "agent")]
        PluginCommand::Probe(arguments) => run_client(
            context,
            process,
            plugin::probe::probe_plugin(context, arguments),
        ),
        #[cfg(feature = "agent")]
        PluginCommand::Diff(arguments) => run_client(
            context,
            process,
            plugin::diff::compare_probes(context, arguments),
        ),
        #[cfg(feature = "agent")]
        PluginCommand::Check(arguments) => {
            let options = RuntimeOptions {
                default_log_level: LogLevel::Warn,
                threads: Threads::Many,
                abort_message: plugin::check::LEFT,
            };
            run_in_runtime(
                context,
                process,
                &options,
                plugin::check::check_plugin(context, arguments),
            )
        }
    }
}

fn dispatch_alloc(
    context: &CommandContext,
    command: &AllocCommand,
    process: ProcessOwnership,
) -> Result<Exit, CliError> {
    match command {
        AllocCommand::Status(arguments) => run_client(
            context,
            process,
            alloc::status::show_allocations(context, arguments),
        ),
        AllocCommand::Logs(arguments) => run_client(
            context,
            process,
            alloc::logs::print_logs(context, arguments),
        ),
        AllocCommand::Stop(arguments) => run_client(
            context,
            process,
            alloc::stop::stop_named_allocation(context, arguments),
        ),
    }
}

fn dispatch_job(
    context: &CommandContext,
    command: &JobCommand,
    process: ProcessOwnership,
) -> Result<Exit, CliError> {
    match command {
        JobCommand::Validate(arguments) => job::validate::validate_jobs(context, arguments),
        JobCommand::Run(arguments) => {
            run_client(context, process, job::run::run_job_file(context, arguments))
        }
        JobCommand::Plan(arguments) => run_client(
            context,
            process,
            job::plan::plan_job_file(context, arguments),
        ),
        JobCommand::Stop(arguments) => run_client(
            context,
            process,
            job::stop::stop_named_job(context, arguments),
        ),
        JobCommand::Dispatch(arguments) => run_client(
            context,
            process,
            job::dispatch::dispatch_named_job(context, arguments),
        ),
        JobCommand::Periodic(JobPeriodicCommand::Force(arguments)) => run_client(
            context,
            process,
            job::force::force_named_job(context, arguments),
        ),
        JobCommand::Status(arguments) => {
            run_client(context, process, job::status::show_jobs(context, arguments))
        }
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
        VolumeCommand::Status(arguments) => run_client(
            context,
            process,
            volume::status::show_volumes(context, arguments),
        ),
        VolumeCommand::Abandon(arguments) => run_client(
            context,
            process,
            volume::abandon::abandon(context, arguments),
        ),
        VolumeCommand::Detach(arguments) => run_client(
            context,
            process,
            volume::detach::detach_from_node(context, arguments),
        ),
        VolumeCommand::Claims(arguments) => run_client(
            context,
            process,
            volume::claims::show_claims(context, arguments),
        ),
        VolumeCommand::Claim(arguments) => {
            run_client(context, process, volume::claims::claim(context, arguments))
        }
        VolumeCommand::Release(arguments) => run_client(
            context,
            process,
            volume::claims::release(context, arguments),
        ),
        VolumeCommand::Doctor(arguments) => run_client(
            context,
            process,
            volume::doctor::diagnose(context, arguments),
        ),
        VolumeCommand::Wait(arguments) => run_client(
            context,
            process,
            volume::wait::wait_for_state(context, arguments),
        ),
        VolumeCommand::Expand(arguments) => run_client(
            context,
            process,
            volume::expand::expand_to_size(context, arguments),
        ),
        VolumeCommand::Modify(arguments) => {
            run_client(context, process, volume::modify::modify(context, arguments))
        }
        VolumeCommand::Init(arguments) => match arguments.plugin.as_deref() {
            None => volume::init::write_example(context, arguments),
            Some(plugin) => run_client(
                context,
                process,
                volume::init::write_for_plugin(context, arguments, plugin),
            ),
        },
    }
}
