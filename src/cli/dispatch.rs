//! Dispatch: from a parsed command to the function that runs it.

use clap::CommandFactory as _;

use super::command_context::CommandContext;
use super::command_line::{Cli, Command};
#[cfg(feature = "agent")]
use super::commands::agent::{self, AgentCommand, AgentEtcdCommand, AgentKeyCommand};
use super::commands::alloc::AllocCommand;
use super::commands::auth::AuthCommand;
use super::commands::explain::ExplainCommand;
use super::commands::job::{JobCommand, JobPeriodicCommand};
use super::commands::plugin::PluginCommand;
#[cfg(feature = "agent")]
use super::commands::plugin::direct::{self, DirectCommand};
use super::commands::snapshot::SnapshotCommand;
use super::commands::submit::submit_volumes;
use super::commands::volume::VolumeCommand;
use super::commands::{
    acl, alloc, apply, auth, completion, context as contexts, convert, drift, explain, fmt, forget,
    help, import, job, lsp, man, namespace, node, orphans, plan, plugin, reconcile, render, schema,
    set, snapshot, validate, version, volume,
};
use super::error::CliError;
use super::exit::Exit;
use super::process_environment::ProcessOwnership;
use super::runtime::CommandRuntime;
#[cfg(feature = "agent")]
use super::runtime::{RuntimeOptions, Threads};
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
    if obeys_policies(command) {
        context.policies()?;
    }
    let runtime = CommandRuntime { context, process };
    match command {
        Command::Validate(arguments) => validate::validate_files(context, arguments),
        Command::Render(arguments) => render::render_files(context, arguments),
        Command::Schema(arguments) => Ok(schema::print_schema(context, *arguments)),
        Command::Lint(arguments) => runtime.client(job::lint::check_jobs(context, arguments)),
        Command::Lsp(_) => lsp::serve_editor(context),
        Command::Convert(arguments) => convert::convert_file(context, arguments),
        Command::Fmt(arguments) => Ok(fmt::format_files(context, arguments)),
        Command::Explain(arguments) => match &arguments.command {
            None => explain::explain_word(context, arguments),
            Some(ExplainCommand::Placement(placement)) => {
                runtime.client(job::placement::explain_placement(context, placement))
            }
            Some(ExplainCommand::Function(function)) => {
                explain::explain_function(context, function)
            }
        },
        Command::Completion(arguments) => completion::print_completion_script(context, arguments),
        Command::Help(arguments) => help::print_help(context, arguments, Cli::command()),
        Command::Man(arguments) => man::print_manual(context, arguments, Cli::command()),
        Command::Version => Ok(version::print_version(context)),
        Command::Auth(AuthCommand::Check(arguments)) => {
            runtime.client(auth::check(context, arguments))
        }
        Command::Context(command) => contexts::manage_contexts(context, command),
        Command::Plan(arguments) => runtime.client(plan::show_plan(context, arguments)),
        Command::Apply(arguments) => {
            runtime.client(apply::apply_specifications(context, arguments))
        }
        Command::Import(arguments) => runtime.client(import::import_existing(context, arguments)),
        Command::Reconcile(arguments) => {
            runtime.repeating(reconcile::reconcile_until_stopped(context, arguments))
        }
        Command::Drift(arguments) => runtime.client(drift::show_drift(context, arguments)),
        Command::Set(command) => runtime.client(set::show_sets(context, command)),
        Command::Forget(arguments) => runtime.client(forget::forget_from_set(context, arguments)),
        Command::Volume(command) => dispatch_volume(command, runtime),
        Command::Snapshot(command) => runtime.client(snapshot::manage_snapshots(context, command)),
        Command::Job(command) => dispatch_job(command, runtime),
        Command::Alloc(command) => dispatch_alloc(command, runtime),
        Command::Node(command) => runtime.client(node::change::manage_nodes(context, command)),
        Command::Acl(command) => runtime.client(acl::manage_acl(context, command)),
        Command::Namespace(command) => {
            runtime.client(namespace::manage_namespaces(context, command))
        }
        Command::Orphans(arguments) => runtime.client(orphans::manage_orphans(context, arguments)),
        Command::Plugin(command) => dispatch_plugin(command, runtime),
        #[cfg(feature = "agent")]
        Command::Agent(arguments) => match &arguments.command {
            None => {
                let agent = agent::serve_agent(context, arguments);
                runtime.server(Threads::Many, agent)
            }
            Some(AgentCommand::Check(check)) => runtime.client(agent::check_agent(context, check)),
            Some(AgentCommand::Journal(journal)) => {
                runtime.client(agent::show_journal(context, journal))
            }
            Some(AgentCommand::Server(role)) => {
                runtime.server(Threads::Many, agent::serve_cluster(context, role))
            }
            Some(AgentCommand::Node(role)) => {
                runtime.server(Threads::Many, agent::join_cluster(context, role))
            }
            Some(AgentCommand::Tls(command)) => {
                runtime.client(agent::make_certificates(context, command))
            }
            Some(AgentCommand::Migrate(arguments)) => {
                runtime.client(agent::migrate_agent(context, arguments))
            }
            Some(AgentCommand::Etcd(AgentEtcdCommand::Reclaim(role))) => {
                runtime.client(agent::reclaim_space(context, role))
            }
            Some(AgentCommand::Key(AgentKeyCommand::Rotate(rotation))) => {
                runtime.client(agent::rotate_agent_key(context, rotation))
            }
        },
    }
}

/// Returns whether a command makes changes that `--deny` or a limit of risk is about, and has a server. Its policies are read
/// before everything else.
fn obeys_policies(command: &Command) -> bool {
    match command {
        Command::Plan(_) | Command::Apply(_) | Command::Reconcile(_) | Command::Orphans(_) => true,
        Command::Volume(command) => match command {
            VolumeCommand::Create(_)
            | VolumeCommand::Register(_)
            | VolumeCommand::Deregister(_)
            | VolumeCommand::Delete(_)
            | VolumeCommand::Expand(_) => true,
            VolumeCommand::Status(_)
            | VolumeCommand::Abandon(_)
            | VolumeCommand::Detach(_)
            | VolumeCommand::Claims(_)
            | VolumeCommand::Claim(_)
            | VolumeCommand::Release(_)
            | VolumeCommand::Doctor(_)
            | VolumeCommand::Wait(_)
            | VolumeCommand::Modify(_)
            | VolumeCommand::Init(_) => false,
        },
        Command::Snapshot(command) => match command {
            SnapshotCommand::Delete(_) => true,
            SnapshotCommand::Create(_) | SnapshotCommand::List(_) => false,
        },
        // It obeys the policies that need no config file.
        Command::Validate(_) => false,
        Command::Render(_)
        | Command::Schema(_)
        | Command::Lint(_)
        | Command::Lsp(_)
        | Command::Convert(_)
        | Command::Fmt(_)
        | Command::Explain(_)
        | Command::Completion(_)
        | Command::Help(_)
        | Command::Man(_)
        | Command::Version
        | Command::Auth(_)
        | Command::Context(_)
        | Command::Import(_)
        | Command::Drift(_)
        | Command::Set(_)
        | Command::Forget(_)
        | Command::Job(_)
        | Command::Alloc(_)
        | Command::Node(_)
        | Command::Acl(_)
        | Command::Namespace(_)
        | Command::Plugin(_) => false,
        #[cfg(feature = "agent")]
        Command::Agent(_) => false,
    }
}

fn dispatch_plugin(command: &PluginCommand, runtime: CommandRuntime<'_>) -> Result<Exit, CliError> {
    let context = runtime.context;
    match command {
        PluginCommand::Status(arguments) => {
            runtime.client(plugin::status::show_plugins(context, arguments))
        }
        PluginCommand::Impact(arguments) => {
            runtime.client(plugin::impact::show_impact(context, arguments))
        }
        PluginCommand::Snapshot(arguments) => {
            runtime.client(plugin::snapshot::write_snapshot(context, arguments))
        }
        PluginCommand::Wait(arguments) => {
            runtime.client(plugin::wait::wait_until_healthy(context, arguments))
        }
        #[cfg(feature = "agent")]
        PluginCommand::Direct(command) => dispatch_direct(command, runtime),
    }
}

#[cfg(feature = "agent")]
fn dispatch_direct(command: &DirectCommand, runtime: CommandRuntime<'_>) -> Result<Exit, CliError> {
    let context = runtime.context;
    match command {
        DirectCommand::Serve(arguments) => {
            let plugin = direct::serve::serve_embedded_plugin(context, arguments);
            runtime.server(Threads::One, plugin)
        }
        DirectCommand::Probe(arguments) => {
            runtime.client(direct::probe::probe_plugin(context, arguments))
        }
        DirectCommand::Diff(arguments) => {
            runtime.client(direct::diff::compare_probes(context, arguments))
        }
        DirectCommand::Check(arguments) => {
            let options = RuntimeOptions {
                default_log_level: LogLevel::Warn,
                threads: Threads::Many,
                waiting_message: None,
                abort_message: direct::check::LEFT,
            };
            runtime.run(&options, direct::check::check_plugin(context, arguments))
        }
    }
}

fn dispatch_alloc(command: &AllocCommand, runtime: CommandRuntime<'_>) -> Result<Exit, CliError> {
    let context = runtime.context;
    match command {
        AllocCommand::Status(arguments) => {
            runtime.client(alloc::status::show_allocations(context, arguments))
        }
        AllocCommand::Logs(arguments) => {
            runtime.client(alloc::logs::print_logs(context, arguments))
        }
        AllocCommand::Fs(arguments) => runtime.client(alloc::files::show_files(context, arguments)),
        AllocCommand::Restart(arguments) => {
            runtime.client(alloc::signal::restart_named_allocation(context, arguments))
        }
        AllocCommand::Signal(arguments) => {
            runtime.client(alloc::signal::signal_named_allocation(context, arguments))
        }
        AllocCommand::Stop(arguments) => {
            runtime.client(alloc::stop::stop_named_allocation(context, arguments))
        }
    }
}

fn dispatch_job(command: &JobCommand, runtime: CommandRuntime<'_>) -> Result<Exit, CliError> {
    let context = runtime.context;
    match command {
        JobCommand::Validate(arguments) => job::validate::validate_jobs(context, arguments),
        JobCommand::Lint(arguments) => runtime.client(job::lint::check_jobs(context, arguments)),
        JobCommand::Run(arguments) => runtime.client(job::run::run_job_file(context, arguments)),
        JobCommand::Plan(arguments) => runtime.client(job::plan::plan_job_file(context, arguments)),
        JobCommand::Stop(arguments) => {
            runtime.client(job::stop::stop_named_job(context, arguments))
        }
        JobCommand::Dispatch(arguments) => {
            runtime.client(job::dispatch::dispatch_named_job(context, arguments))
        }
        JobCommand::Periodic(JobPeriodicCommand::Force(arguments)) => {
            runtime.client(job::force::force_named_job(context, arguments))
        }
        JobCommand::History(arguments) => {
            runtime.client(job::history::list_versions(context, arguments))
        }
        JobCommand::Restart(arguments) => {
            runtime.client(job::restart::restart_named_job(context, arguments))
        }
        JobCommand::Revert(arguments) => {
            runtime.client(job::revert::revert_named_job(context, arguments))
        }
        JobCommand::Status(arguments) => runtime.client(job::status::show_jobs(context, arguments)),
    }
}

fn dispatch_volume(command: &VolumeCommand, runtime: CommandRuntime<'_>) -> Result<Exit, CliError> {
    let context = runtime.context;
    match command {
        VolumeCommand::Create(arguments) => {
            let submitting = submit_volumes(context, arguments, ApplyMode::Create);
            runtime.client(submitting)
        }
        VolumeCommand::Register(arguments) => {
            let submitting = submit_volumes(context, arguments, ApplyMode::Register);
            runtime.client(submitting)
        }
        VolumeCommand::Deregister(arguments) => {
            runtime.client(volume::remove::deregister(context, arguments))
        }
        VolumeCommand::Delete(arguments) => {
            runtime.client(volume::remove::delete(context, arguments))
        }
        VolumeCommand::Status(arguments) => {
            runtime.client(volume::status::show_volumes(context, arguments))
        }
        VolumeCommand::Abandon(arguments) => {
            runtime.client(volume::abandon::abandon(context, arguments))
        }
        VolumeCommand::Detach(arguments) => {
            runtime.client(volume::detach::detach_from_node(context, arguments))
        }
        VolumeCommand::Claims(arguments) => {
            runtime.client(volume::claims::show_claims(context, arguments))
        }
        VolumeCommand::Claim(arguments) => {
            runtime.client(volume::claims::claim(context, arguments))
        }
        VolumeCommand::Release(arguments) => {
            runtime.client(volume::claims::release(context, arguments))
        }
        VolumeCommand::Doctor(arguments) => {
            runtime.client(volume::doctor::diagnose(context, arguments))
        }
        VolumeCommand::Wait(arguments) => {
            runtime.client(volume::wait::wait_for_state(context, arguments))
        }
        VolumeCommand::Expand(arguments) => {
            runtime.client(volume::expand::expand_to_size(context, arguments))
        }
        VolumeCommand::Modify(arguments) => {
            runtime.client(volume::modify::modify(context, arguments))
        }
        VolumeCommand::Init(arguments) => match arguments.plugin.as_deref() {
            None => volume::init::write_example(context, arguments),
            Some(plugin) => {
                runtime.client(volume::init::write_for_plugin(context, arguments, plugin))
            }
        },
    }
}
