//! The command line: all commands and the arguments that every command takes.
//!
//! Doc comments here and in the arguments of each command are the help, the manual and the reference.

use clap::{Parser, Subcommand};

use super::args::GlobalArgs;
use super::commands::acl::AclCommand;
#[cfg(feature = "agent")]
use super::commands::agent::AgentArgs;
use super::commands::alloc::AllocCommand;
use super::commands::apply::ApplyArgs;
use super::commands::auth::AuthCommand;
use super::commands::completion::CompletionArgs;
use super::commands::context::ContextCommand;
use super::commands::convert::ConvertArgs;
use super::commands::drift::DriftArgs;
use super::commands::explain::ExplainArgs;
use super::commands::fmt::FmtArgs;
use super::commands::forget::ForgetArgs;
use super::commands::help::HelpArgs;
use super::commands::import::ImportArgs;
use super::commands::job::{JobCommand, JobLintArgs};
use super::commands::lsp::LspArgs;
use super::commands::man::ManArgs;
use super::commands::namespace::NamespaceCommand;
use super::commands::node::NodeCommand;
use super::commands::orphans::OrphansArgs;
use super::commands::plan::PlanArgs;
use super::commands::plugin::PluginCommand;
use super::commands::reconcile::ReconcileArgs;
use super::commands::render::RenderArgs;
use super::commands::schema::SchemaArgs;
use super::commands::set::SetCommand;
use super::commands::snapshot::SnapshotCommand;
use super::commands::validate::ValidateArgs;
use super::commands::volume::VolumeCommand;
use super::env;
use super::run_reports::RunReports;

/// Manage Nomad CSI volumes from specification files
///
/// A specification declares volumes in HCL, YAML or JSON. Every CSI volume file of Nomad is a valid
/// specification. `validate` checks specifications without a server, `plan` shows what would change
/// and `apply` makes the changes. With `--embedded`, any command runs against an agent with a real
/// CSI plugin inside this process.
///
/// Results go to standard output, all other messages to standard error. Exit codes: 0 success or
/// nothing to do, 1 error, 2 pending changes or drift, 3 blocked, 4 approval required, 130
/// interrupted.
#[derive(Parser, Debug)]
#[command(
    name = "nomad-csi",
    version,
    max_term_width = 100,
    after_long_help = env::help_section(),
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = false,
    propagate_version = false
)]
pub(crate) struct Cli {
    /// Arguments of every command.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The command.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Check volume specifications without a server
    ///
    /// Reports every problem of every file in one run, with its position and a remedy. Warnings
    /// mark keys and values that Nomad accepts and ignores. They do not change the exit code.
    #[command(after_long_help = "Example:\n  nomad-csi validate volume.hcl")]
    Validate(ValidateArgs),
    /// Print the volumes of specifications, with expressions evaluated
    ///
    /// Shows what a variable, a class, `count` or `for_each` leads to. The output is a specification that
    /// declares the same volumes. Secrets and mount flags that have values are printed as `sensitive`, which no command
    /// accepts; references stay, with paths from the working directory.
    #[command(
        after_long_help = "Examples:\n  nomad-csi render volumes/ --var-file prod.vars.hcl\n  nomad-csi render volumes/ -o yaml --origins"
    )]
    Render(RenderArgs),
    /// Put the white space of HCL files in order
    ///
    /// Indents by two spaces, aligns the `=` of items that follow each other, and leaves at most one empty
    /// line. Texts, comments and here-documents stay as they are, and nothing is reordered. A file that
    /// does not parse is not changed (exit code 1). `-` is written to standard output.
    #[command(
        after_long_help = "Examples:\n  nomad-csi fmt volumes/\n  nomad-csi fmt --check --diff volumes/"
    )]
    Fmt(FmtArgs),
    /// Convert a specification to another syntax
    ///
    /// Converts the source, not its values: expressions stay expressions, and comments are kept, in JSON as keys
    /// `//`. Anchors of YAML are written out. The result is read again, and refused if it would not read the
    /// same. Secrets that the file contains are in the result too.
    #[command(
        after_long_help = "Examples:\n  nomad-csi convert volumes/db.hcl --to yaml\n  nomad-csi convert volumes/db.yaml --to hcl --out volumes/db.hcl"
    )]
    Convert(ConvertArgs),
    /// Check job files against the volumes that they use, as `job lint` does
    ///
    /// The volumes are those that the files of `--file` declare, without a server, or those of the server. Exits
    /// with 0 without errors, and with 1 otherwise.
    #[command(
        after_long_help = "Example:\n  nomad-csi lint jobs/*.nomad.hcl -f volumes/ --plugins plugins/"
    )]
    Lint(JobLintArgs),
    /// Print the JSON Schema of specifications in YAML and JSON
    ///
    /// Editors complete keys and mark mistakes with it. Keys, values and descriptions are those of
    /// `explain`; `validate` checks more.
    #[command(after_long_help = "Example:\n  nomad-csi schema")]
    Schema(SchemaArgs),
    /// Serve an editor: problems, completion and help while you type
    ///
    /// The editor starts this command and speaks the Language Server Protocol over standard input and output.
    /// No connection is opened, no secret is read, and no program is started. Exits with 0 if the editor asked for
    /// the end, else with 1.
    #[command(after_long_help = "Example:\n  nomad-csi lsp")]
    Lsp(LspArgs),
    /// Show the changes that `apply` would make
    ///
    /// Exits with 0 without changes, 2 with pending changes, 3 if a server would refuse a change,
    /// and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi plan volumes/\n  nomad-csi plan volumes/ --set web --out web.plan"
    )]
    Plan(PlanArgs),
    /// Create, register and update volumes to match specifications
    ///
    /// Shows the plan and asks for approval on a terminal. Reads each volume again right before it
    /// changes it, and skips a volume that changed since the plan (exit code 3). With a set,
    /// records the results in the ledger and holds the lock of the set.
    ///
    /// PATH can also be one plan that `plan --out` saved. The plan is then computed again from the
    /// files that it names, for the same server and set, with the same options and approvals. A plan
    /// for a set can be applied once.
    #[command(
        after_long_help = "Examples:\n  nomad-csi apply volumes/ --set web\n  nomad-csi apply web.plan --yes"
    )]
    Apply(ApplyArgs),
    /// Show what changed on the server since the last apply
    ///
    /// Compares each volume of the set and of the files with the values last applied, by the hash
    /// of each field in the ledger. A change in a file is not drift; `plan` shows it. Without a set
    /// or a ledger, the command compares the volumes with the files and cannot tell which side
    /// changed. It changes nothing.
    ///
    /// Exits with 0 without drift, 2 with drift, and 1 on an error.
    #[command(after_long_help = "Example:\n  nomad-csi drift volumes/ --set web")]
    Drift(DriftArgs),
    /// Check for drift repeatedly, and correct it with `--apply`
    ///
    /// Every round reads the files, the ledger and the server. A round starts after each interval,
    /// or earlier when the server reports a change. After failures, the pauses grow. Without
    /// `--apply`, nothing changes. With it, reversible drift is corrected. Riskier changes need a
    /// flag, and blocked changes wait for an operator. Ctrl-C or SIGTERM stops the command with
    /// exit code 0.
    #[command(
        after_long_help = "Examples:\n  nomad-csi reconcile volumes/ --set web --interval 5m\n  nomad-csi reconcile volumes/ --set web --apply --metrics 127.0.0.1:9100"
    )]
    Reconcile(ReconcileArgs),
    /// Write specifications for existing volumes
    ///
    /// A plan made from the new files is empty. Values that the server hides are written as
    /// `unknown`. The import reports problems: hidden mount flags, an external ID that several
    /// volumes share or that the provider does not list, claims of allocations that have ended.
    /// With `--set`, the set takes ownership of the volumes and protects them from removal. The
    /// volumes do not change.
    #[command(
        after_long_help = "Examples:\n  nomad-csi import --all --directory volumes\n  nomad-csi import db --set web --out db.hcl"
    )]
    Import(ImportArgs),
    /// Remove volumes from a set without changing them
    ///
    /// Also ends the protection of the volumes: `--prune` never removes a volume outside its set.
    /// If a file still declares a volume, the next `apply` of that set takes ownership again.
    #[command(after_long_help = "Example:\n  nomad-csi forget db --set web")]
    Forget(ForgetArgs),
    /// Show sets and the volumes that they own
    #[command(subcommand)]
    Set(SetCommand),
    /// Create, show, change and delete volumes
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Create, list and delete snapshots
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// Check, run, show and stop jobs
    #[command(subcommand)]
    Job(JobCommand),
    /// Show and stop allocations, and print the logs of their tasks
    #[command(subcommand)]
    Alloc(AllocCommand),
    /// Manage the tokens and policies of servers
    ///
    /// For servers of `nomad-csi agent server` with an ACL, and for Nomad. `nomad-csi auth check` shows what a token may do.
    #[command(subcommand)]
    Acl(AclCommand),
    /// List, create and delete namespaces
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Show, drain and fence nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// List, register or delete the unregistered volumes of a provider
    ///
    /// Compares the plugin's list with the registered volumes of all namespaces and plugins.
    /// `--adopt` registers orphans. `--delete-data` deletes orphans with their data; each deletion
    /// needs approval by name. An orphan is registered before it is deleted, because a server
    /// deletes registered volumes only. A second run resumes an interrupted deletion. Nothing is
    /// deleted (exit code 3) if the token cannot list the volumes of every namespace. The command
    /// cannot see volumes that another cluster has registered.
    #[command(
        after_long_help = "Examples:\n  nomad-csi orphans --plugin ebs\n  nomad-csi orphans --plugin ebs --delete-data vol-1 --approve destroys-data:vol-1"
    )]
    Orphans(OrphansArgs),
    /// Show, serve and check CSI plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Run an agent: Nomad's volume and plugin API with a CSI plugin
    ///
    /// On Ctrl-C or SIGTERM, the agent completes open requests and stops. A second signal aborts it
    /// without data loss. Mounts stay. Anyone who can reach the agent's port can read; what changes
    /// something needs the operator's token.
    #[cfg(feature = "agent")]
    #[command(after_long_help = "Example:\n  nomad-csi agent --dev --data-dir /var/lib/nomad-csi")]
    Agent(AgentArgs),
    /// Check the permissions of the token
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Manage named clusters
    ///
    /// Clusters are defined in the config file, `nomad-csi/config.toml` in the user's config
    /// directory: tables `[context.NAME]` with an `address` and other settings. `--context NAME`
    /// overrides the environment. The environment overrides the default cluster that `context use`
    /// sets.
    #[command(subcommand)]
    Context(ContextCommand),
    /// Explain an error code, a field of a specification, or the placement of a job
    ///
    /// For a field: its type, its default, when it can change, and what servers answer to a change.
    #[command(
        after_long_help = "Examples:\n  nomad-csi explain spec/unknown-field\n  nomad-csi explain access_mode"
    )]
    Explain(ExplainArgs),
    /// Print a shell completion script
    ///
    /// bash: source <(nomad-csi completion bash)
    #[command(verbatim_doc_comment)]
    #[command(after_long_help = "Example:\n  nomad-csi completion zsh")]
    Completion(CompletionArgs),
    /// Print the help of a command
    #[command(after_long_help = "Example:\n  nomad-csi help volume create")]
    Help(HelpArgs),
    /// Print the manual
    #[command(
        after_long_help = "Examples:\n  nomad-csi man volume create\n  nomad-csi man --directory man1"
    )]
    Man(ManArgs),
    /// Print the version, the commit and the features of this program
    ///
    /// `--version` prints the version alone. A program that is not of a release has no commit.
    #[command(after_long_help = "Example:\n  nomad-csi version")]
    Version,
}

impl Command {
    /// Returns the reports that the command line requests, of a run that starts at `now`.
    pub(super) fn reports(&self, now: i64) -> Option<RunReports> {
        match self {
            Self::Validate(arguments) => RunReports::of("validate", &arguments.reports, now),
            Self::Plan(arguments) => RunReports::of("plan", &arguments.reports, now),
            Self::Apply(arguments) => RunReports::of("apply", &arguments.reports, now),
            Self::Drift(arguments) => RunReports::of("drift", &arguments.reports, now),
            Self::Lint(arguments) | Self::Job(JobCommand::Lint(arguments)) => {
                RunReports::of("job lint", &arguments.reports, now)
            }
            Self::Render(_)
            | Self::Fmt(_)
            | Self::Schema(_)
            | Self::Lsp(_)
            | Self::Convert(_)
            | Self::Reconcile(_)
            | Self::Import(_)
            | Self::Forget(_)
            | Self::Set(_)
            | Self::Volume(_)
            | Self::Snapshot(_)
            | Self::Job(_)
            | Self::Alloc(_)
            | Self::Node(_)
            | Self::Acl(_)
            | Self::Namespace(_)
            | Self::Orphans(_)
            | Self::Plugin(_)
            | Self::Auth(_)
            | Self::Context(_)
            | Self::Explain(_)
            | Self::Completion(_)
            | Self::Help(_)
            | Self::Man(_)
            | Self::Version => None,
            #[cfg(feature = "agent")]
            Self::Agent(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn leaves<'c>(command: &'c clap::Command, found: &mut Vec<&'c clap::Command>) {
        if !command.has_subcommands() {
            found.push(command);
        }
        for subcommand in command.get_subcommands() {
            leaves(subcommand, found);
        }
    }

    #[test]
    fn the_long_help_of_every_command_ends_with_examples_that_parse() {
        let mut command_line = Cli::command();
        command_line.build();
        let mut commands = vec![];
        leaves(&command_line, &mut commands);
        for command in commands {
            let name = command.get_bin_name().unwrap_or_default();
            let help = command.get_after_long_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let examples: Vec<&str> = help.lines().skip(1).map(str::trim).collect();
            assert!((1..=2).contains(&examples.len()), "{name}: {help}");
            for example in examples {
                assert!(example.starts_with(name), "{name}: {example}");
                let parsed = Cli::command().try_get_matches_from(example.split(' '));
                assert!(parsed.is_ok(), "{example}: {parsed:?}");
            }
        }
    }

    #[test]
    fn the_first_line_of_help_is_short_and_has_no_full_stop() {
        let mut command_line = Cli::command();
        command_line.build();
        let mut commands = vec![];
        leaves(&command_line, &mut commands);
        for command in commands {
            let name = command.get_bin_name().unwrap_or_default();
            let about = command.get_about().map(ToString::to_string);
            let about = about.unwrap_or_default();
            assert!((1..70).contains(&about.chars().count()), "{name}: {about}");
            assert!(!about.ends_with('.'), "{name}: {about}");
        }
    }
}
