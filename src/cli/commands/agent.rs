//! `agent`: runs the agent until it is stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueHint};

use crate::agent::{
    AgentConfig, AgentOptions, CertificateRole, CheckedState, MigratedJournal, NodeConfig,
    PluginConcurrency, ProfileOptions, RotatedKey, ServerConfig, check_data_directory,
    create_authority, embedded_directory, issue_certificate, migrate_journal, reclaim_etcd,
    rotate_key, run_node, run_server,
};
use crate::cli::args::{AgentProfileArgs, OutputArgs};
use crate::cli::command_context::CommandContext;
use crate::cli::commands::status::print_list;
use crate::cli::env::Variable;
use crate::cli::error::CliError;
use crate::cli::exit::Exit;
use crate::cli::ui::event_list;
use nomad_csi_client::reconcile::workflow::read_history;
use nomad_csi_model::{Bytes, NamespacedId, VolumeId};

/// How many calls a plugin gets at a time.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PluginConcurrencyArgs {
    /// Concurrent calls of all classes per plugin, from 1 to 1000; one permit is kept for deletes and detaches
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.total,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub calls_per_plugin: u16,
    /// Concurrent calls of class `create` (creates, validations) per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.creates,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub creates_per_plugin: u16,
    /// Concurrent calls of classes `change` (expansions, snapshots) and `release` (deletes) per plugin, from 1 to 1000; drivers rely on 1
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.changes,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub changes_per_plugin: u16,
    /// Concurrent calls of classes `attach` and `detach` per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.attaches,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub attaches_per_plugin: u16,
    /// Concurrent calls of class `list` per plugin, from 1 to 1000
    #[arg(long, value_name = "N", default_value_t = PluginConcurrency::DEFAULT.lists,
        value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub lists_per_plugin: u16,
}

impl From<&PluginConcurrencyArgs> for PluginConcurrency {
    fn from(arguments: &PluginConcurrencyArgs) -> Self {
        Self {
            total: arguments.calls_per_plugin,
            creates: arguments.creates_per_plugin,
            changes: arguments.changes_per_plugin,
            attaches: arguments.attaches_per_plugin,
            lists: arguments.lists_per_plugin,
        }
    }
}

/// The subcommands of `agent`.
#[derive(Subcommand, Debug)]
pub(crate) enum AgentCommand {
    /// Check the data directory of an agent that is not running
    ///
    /// Reads the journal as a start of the agent does, and tests every rule that the state must keep.
    /// Changes no data, and no agent starts in the meantime. Exits with 1 if it finds a problem.
    #[command(after_long_help = "Example:\n  nomad-csi agent check --data-dir /var/lib/nomad-csi")]
    Check(AgentDataArgs),
    /// Tell what happened to a volume
    ///
    /// The running agent reads its journal: the events of the volume, of its claims, and of the
    /// allocations and nodes that claim it, oldest first. The journal keeps about the last 100,000
    /// events of all volumes. A deleted volume is found by its exact ID.
    #[command(
        after_long_help = "Examples:\n  nomad-csi agent journal db\n  nomad-csi agent journal db --last 1000 -o json"
    )]
    Journal(AgentJournalArgs),
    /// Replace the key of stored secrets
    #[command(subcommand)]
    Key(AgentKeyCommand),
    /// Run a server, to which nodes connect
    ///
    /// It answers the API and decides; nodes of other machines run the tasks and call the plugins. It needs no root.
    /// Nodes and their tasks go on while it does not run. With a section `[etcd]`, several servers have one journal: one of
    /// them leads, and the others wait until they can.
    #[command(
        after_long_help = "Example:\n  nomad-csi agent server --config /etc/nomad-csi/server.toml"
    )]
    Server(AgentRoleArgs),
    /// Run a node of a cluster, which connects to its servers
    ///
    /// It runs tasks and calls plugins, and listens nowhere. It runs as root if it mounts volumes. It stops no task
    /// because a server is silent.
    #[command(
        after_long_help = "Example:\n  nomad-csi agent node --config /etc/nomad-csi/node.toml"
    )]
    Node(AgentRoleArgs),
    /// Make the certificates of a cluster
    #[command(subcommand)]
    Tls(AgentTlsCommand),
    /// Move the journal of a data directory to etcd
    ///
    /// The state keeps its index, and secrets keep their key, which is copied to the server. The history of events stays
    /// behind. Neither an agent nor a server may run; nodes and their tasks go on. After a crash, run the command
    /// again. The old journal stays as journal.moved.redb, with which no agent starts.
    #[command(
        after_long_help = "Example:\n  nomad-csi agent migrate --from /var/lib/nomad-csi/server --config server.toml"
    )]
    Migrate(AgentMigrateArgs),
    /// Look after the etcd of a cluster
    #[command(subcommand)]
    Etcd(AgentEtcdCommand),
}

/// Arguments of `agent migrate`.
#[derive(Args, Debug)]
pub(crate) struct AgentMigrateArgs {
    /// Data directory with the journal
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub from: PathBuf,
    /// Configuration file of the server, with a section `[etcd]`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

/// The subcommands of `agent etcd`.
#[derive(Subcommand, Debug)]
pub(crate) enum AgentEtcdCommand {
    /// Give space back to an etcd that is full
    ///
    /// Forgets earlier revisions, defragments one member after the other, etcd's leader last, and ends the alarm. A member
    /// answers nothing while it is defragmented. It can run beside servers, and needs none of them.
    #[command(
        after_long_help = "Example:\n  nomad-csi agent etcd reclaim --config /etc/nomad-csi/server.toml"
    )]
    Reclaim(AgentRoleArgs),
}

/// Arguments of the roles of a cluster.
#[derive(Args, Debug)]
pub(crate) struct AgentRoleArgs {
    /// Configuration file, in TOML
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: PathBuf,
}

/// The subcommands of `agent tls`.
#[derive(Subcommand, Debug)]
pub(crate) enum AgentTlsCommand {
    /// Make the authority of a cluster
    ///
    /// Writes ca.pem and ca-key.pem, valid for ten years. With the key, a server or a node of the cluster can be made:
    /// keep it away from both.
    #[command(after_long_help = "Example:\n  nomad-csi agent tls init --dir tls")]
    Init(AgentTlsDirectoryArgs),
    /// Make the certificate of a server
    #[command(
        after_long_help = "Examples:\n  nomad-csi agent tls server s1 --dir tls\n  nomad-csi agent tls server s1 --dir tls --host 10.0.0.1 --host s1.example"
    )]
    Server(AgentTlsServerArgs),
    /// Make the certificate of a node
    #[command(after_long_help = "Example:\n  nomad-csi agent tls node n1 --dir tls")]
    Node(AgentTlsIssueArgs),
}

/// Arguments of `agent tls init`.
#[derive(Args, Debug)]
pub(crate) struct AgentTlsDirectoryArgs {
    /// Directory of the authority, which only this user can change
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
}

/// Arguments of the commands that issue a certificate, valid for a year, into NAME.pem and NAME-key.pem.
#[derive(Args, Debug)]
pub(crate) struct AgentTlsIssueArgs {
    /// Name of the certificate, and of its files
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Directory of the authority
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Region of the cluster
    #[arg(long, value_name = "REGION", default_value = "global")]
    pub cluster_region: String,
}

/// Arguments of `agent tls server`.
#[derive(Args, Debug)]
pub(crate) struct AgentTlsServerArgs {
    /// What every certificate has.
    #[command(flatten)]
    pub issue: AgentTlsIssueArgs,
    /// Host name or IP address of the server's HTTP API, which clients find in the certificate (repeatable)
    #[arg(long = "host", value_name = "HOST")]
    pub addresses: Vec<String>,
}

/// The subcommands of `agent key`.
#[derive(Subcommand, Debug)]
pub(crate) enum AgentKeyCommand {
    /// Replace the key of an agent that is not running
    ///
    /// Makes a new key, seals every stored secret with it, reads everything back, and then removes the
    /// old key. A crash at any moment leaves a directory whose agent starts; the next rotation goes on.
    /// The journal's history is dropped, because its secrets are sealed with the old key. A backup of
    /// the directory from before needs its own copy of the old key. If the old key may be known to
    /// others, change the secrets themselves too.
    #[command(
        after_long_help = "Example:\n  nomad-csi agent key rotate --data-dir /var/lib/nomad-csi"
    )]
    Rotate(AgentDataArgs),
}

/// Arguments of the commands for an agent that is not running.
#[derive(Args, Debug)]
pub(crate) struct AgentDataArgs {
    /// Data directory of the agent [default: the one of --embedded]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
}

/// Arguments of `agent journal`.
#[derive(Args, Debug)]
pub(crate) struct AgentJournalArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Number of events to show, counted from the newest
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub last: u16,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `agent`.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct AgentArgs {
    /// The subcommand; without one, the agent runs.
    #[command(subcommand)]
    pub command: Option<AgentCommand>,
    /// Run a server and a node in one process
    #[arg(long)]
    pub dev: bool,
    /// Directory of the agent's state [default: a temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Address of the HTTP API [default: 127.0.0.1:4646]
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<String>,
    /// Allow an address that other machines can reach, who can read without a token
    ///
    /// They can read volumes, plugins, nodes and jobs. Everything else needs the operator's token, as on
    /// loopback. The agent has no TLS, so the token can be read on the way.
    #[arg(long)]
    pub allow_unauthenticated: bool,
    /// Name that clients may use for the agent besides its address and localhost, repeatable
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Limit of the HTTP API, such as connections-per-address=200, repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    pub limit: Vec<String>,
    /// Directory that jobs can mount as a host volume, with `:ro` at the end for reading only, repeatable
    #[arg(long, value_name = "NAME=PATH")]
    pub host_volume: Vec<String>,
    /// Do not run the embedded plugin `hostpath`
    ///
    /// Use it if all plugins run as jobs or behind `--plugin-endpoint`. Volumes of `hostpath` cannot be used then.
    #[arg(long)]
    pub no_embedded_plugin: bool,
    /// Plugin that runs already, by its socket, such as ebs=unix:///run/ebs.sock, repeatable
    ///
    /// The agent neither starts nor stops it. Without an ID, the plugin is registered under its own name.
    /// It must run on this machine with this agent's mounts, and see the agent's data directory under the
    /// same path.
    #[arg(long, value_name = "[ID=]URL")]
    pub plugin_endpoint: Vec<String>,
    /// Let jobs run tasks of `exec` as root
    ///
    /// Such a task is root of the machine as soon as one process outside of it helps. Without this option, only
    /// plugins and tasks of `raw_exec` run as root. Nomad refuses it in the same way (`user.denylist`).
    #[arg(long)]
    pub allow_root_tasks: bool,
    /// Number of a user that may run a plugin of `--plugin-endpoint`, besides this user and root, repeatable
    ///
    /// The plugin gets the secrets of its volumes, and the agent believes its answers.
    #[arg(long, value_name = "UID")]
    pub plugin_endpoint_user: Vec<u32>,
    /// Allow core dumps of the agent and its plugin, which contain keys and secrets
    #[arg(long)]
    pub allow_core_dumps: bool,
    /// Address that serves Prometheus metrics at /metrics without authentication
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// How many calls a plugin gets at the same time.
    #[command(flatten)]
    pub calls: PluginConcurrencyArgs,
    /// The profile of the embedded plugin.
    #[command(flatten)]
    pub plugin: AgentProfileArgs,
}

/// Runs the agent. A signal stops it with success.
///
/// # Errors
/// If the agent cannot start.
pub(crate) async fn serve_agent(
    context: &CommandContext,
    arguments: &AgentArgs,
) -> Result<Exit, CliError> {
    let data_dir = arguments.data_dir.as_ref();
    let config = AgentConfig::parse(&AgentOptions {
        dev: arguments.dev,
        directory: context.directory.clone(),
        data_dir: data_dir.map(|path| context.directory.join(path)),
        http: arguments.http.clone(),
        allow_unauthenticated: arguments.allow_unauthenticated,
        has_acl_and_tls: false,
        allow_hosts: arguments.allow_host.clone(),
        limits: arguments.limit.clone(),
        host_volumes: arguments.host_volume.clone(),
        plugin_endpoints: arguments.plugin_endpoint.clone(),
        no_embedded_plugin: arguments.no_embedded_plugin,
        plugin_endpoint_users: arguments.plugin_endpoint_user.clone(),
        allow_core_dumps: arguments.allow_core_dumps,
        allow_root_tasks: arguments.allow_root_tasks,
        plugin: ProfileOptions::from(&arguments.plugin),
        calls: PluginConcurrency::from(&arguments.calls),
        metrics: arguments.metrics,
        runtime_dir: context.environment.path(Variable::RuntimeDir),
    })?;
    crate::agent::run_agent(config, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}

/// Runs a server of a cluster. A signal stops it with success.
///
/// # Errors
/// If it cannot start.
pub(crate) async fn serve_cluster(
    context: &CommandContext,
    arguments: &AgentRoleArgs,
) -> Result<Exit, CliError> {
    let config = server_config(context, &arguments.config)?;
    run_server(config, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}

/// Runs a node of a cluster. A signal stops it with success.
///
/// # Errors
/// If it cannot start.
pub(crate) async fn join_cluster(
    context: &CommandContext,
    arguments: &AgentRoleArgs,
) -> Result<Exit, CliError> {
    let runtime_dir = context.environment.path(Variable::RuntimeDir);
    let config = NodeConfig::read(&context.directory.join(&arguments.config), runtime_dir)?;
    run_node(config, context.interrupts.stop().clone()).await?;
    Ok(Exit::Done)
}

/// Makes the certificates of a cluster.
///
/// # Errors
/// If a file cannot be written, or exists.
pub(crate) async fn make_certificates(
    context: &CommandContext,
    command: &AgentTlsCommand,
) -> Result<Exit, CliError> {
    let made = match command {
        AgentTlsCommand::Init(AgentTlsDirectoryArgs { dir }) => {
            create_authority(context.directory.join(dir)).await?
        }
        AgentTlsCommand::Server(arguments) => {
            let addresses = arguments.addresses.clone();
            issue(context, CertificateRole::Server, &arguments.issue, addresses).await?
        }
        AgentTlsCommand::Node(arguments) => {
            issue(context, CertificateRole::Node, arguments, vec![]).await?
        }
    };
    for file in made {
        let shown = file.strip_prefix(&context.directory).unwrap_or(&file);
        context.printer.print_result(&format!("Wrote {}\n", shown.display()));
    }
    Ok(Exit::Done)
}

async fn issue(
    context: &CommandContext,
    role: CertificateRole,
    arguments: &AgentTlsIssueArgs,
    addresses: Vec<String>,
) -> Result<Vec<PathBuf>, CliError> {
    let AgentTlsIssueArgs { name, dir, cluster_region } = arguments;
    let directory = context.directory.join(dir);
    let region = cluster_region.clone();
    Ok(issue_certificate(directory, role, name.clone(), region, addresses).await?)
}

/// Moves the journal of a data directory to etcd. An interrupt ends only the wait for the leadership.
///
/// # Errors
/// If it cannot be moved.
pub(crate) async fn migrate_agent(
    context: &CommandContext,
    arguments: &AgentMigrateArgs,
) -> Result<Exit, CliError> {
    let config = server_config(context, &arguments.config)?;
    let data = context.directory.join(&arguments.from);
    let stop = context.interrupts.stop().clone();
    let MigratedJournal { index, old } = migrate_journal(&data, &config, stop).await?;
    context.printer.print_result(&format!(
        "Moved the journal to etcd, up to event {index}\nThe old one is {}\n",
        old.display()
    ));
    Ok(Exit::Done)
}

/// Gives space back to the etcd of a server.
///
/// # Errors
/// If a step fails.
pub(crate) async fn reclaim_space(
    context: &CommandContext,
    arguments: &AgentRoleArgs,
) -> Result<Exit, CliError> {
    let config = server_config(context, &arguments.config)?;
    for one in reclaim_etcd(&config).await? {
        let size = |bytes| Bytes::new(bytes).map(Bytes::binary).unwrap_or_default();
        let (member, before, after) = (one.member, size(one.before), size(one.after));
        context.printer.print_result(&format!("{member}: {before} before, {after} now\n"));
    }
    Ok(Exit::Done)
}

fn server_config(context: &CommandContext, file: &Path) -> Result<ServerConfig, CliError> {
    let runtime_dir = context.environment.path(Variable::RuntimeDir);
    Ok(ServerConfig::read(&context.directory.join(file), runtime_dir)?)
}

/// Checks a data directory.
///
/// # Errors
/// If it cannot be read, or has problems.
pub(crate) async fn check_agent(
    context: &CommandContext,
    arguments: &AgentDataArgs,
) -> Result<Exit, CliError> {
    let data = data_directory(context, arguments)?;
    let checking = check_data_directory(&data);
    let CheckedState { volumes, variables, .. } =
        context.interrupts.unless_interrupted(checking).await??;
    context.printer.print_result(&format!(
        "No problems: {}, {}\n",
        count(volumes, "volume"),
        count(variables, "variable"),
    ));
    Ok(Exit::Done)
}

/// Rotates the key of a data directory. An interrupt waits for its end.
///
/// # Errors
/// If the key cannot be rotated.
pub(crate) async fn rotate_agent_key(
    context: &CommandContext,
    arguments: &AgentDataArgs,
) -> Result<Exit, CliError> {
    let data = data_directory(context, arguments)?;
    let RotatedKey { sealed } = rotate_key(&data).await?;
    context.printer.print_result(&format!(
        "Rotated the key of {}: {} sealed with the new key\n",
        data.display(),
        count(sealed, "secret"),
    ));
    Ok(Exit::Done)
}

fn data_directory(
    context: &CommandContext,
    arguments: &AgentDataArgs,
) -> Result<PathBuf, CliError> {
    let path = |variable| context.environment.path(variable);
    let (state_home, home) = (path(Variable::StateHome), path(Variable::Home));
    let data = arguments.data_dir.as_deref();
    let data = embedded_directory(data, state_home.as_deref(), home.as_deref())?;
    Ok(context.directory.join(data))
}

/// Tells what happened to a volume.
///
/// # Errors
/// Those of [`read_history`].
pub(crate) async fn show_journal(
    context: &CommandContext,
    arguments: &AgentJournalArgs,
) -> Result<Exit, CliError> {
    let output = &arguments.output.output;
    context
        .with_cluster(async |cluster| {
            let workflow = context.workflow(cluster, "agent journal", 1);
            let namespace = context.namespace()?.unwrap_or_default();
            let key = NamespacedId::new(namespace, VolumeId::new(&arguments.id));
            let read = read_history(&workflow, &key, usize::from(arguments.last)).await?;
            let nothing = format!("The journal has no events of volume {key}");
            print_list(context, output, read, &nothing, |events| {
                event_list(events, &context.time_reference())
            })
        })
        .await
}

fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}
