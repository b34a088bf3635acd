//! The command line as clap sees it. Doc comments here are the help, the manual and the reference.
//!
//! Nothing is decided here: `settings` joins flags and environment, `dispatch` picks the function.

#[cfg(feature = "agent")]
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};

use super::durations::TimeSpan;
use super::env;
use super::ledger::LedgerChoice;
#[cfg(feature = "agent")]
use super::ui::CheckReport;
use super::ui::{Output, ReportFile};
use crate::diagnostic::nearest;
use crate::model::{ServerVersion, SetName};
use crate::plan::{Awaited, DenyRule, HiddenField, Risk};
use crate::spec::schema;

/// Nomad's CSI volumes as specifications: check, plan and apply them, on a cluster or on an
/// embedded agent with a real CSI plugin.
///
/// A volume is declared in a file (HCL, YAML or JSON; every CSI volume file of Nomad is one).
/// `validate` checks it without a server, `plan` says what would change, `apply` does it.
/// With `--embedded` any command runs against an agent inside this very process.
///
/// Results go to standard output, everything else to standard error. Exit codes: 0 done or nothing
/// to do, 1 error, 2 changes are pending (`plan`), 3 blocked, 4 approval is needed, 130 interrupted.
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
pub(super) struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Global {
    /// Address of the server: http://, https:// or unix://
    #[arg(long, global = true, value_name = "URL", help_heading = SERVER)]
    pub address: Option<String>,
    /// Cluster of the config file, by its name; beats the environment
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, conflicts_with = "address")]
    pub context: Option<String>,
    /// Run against an agent in this process that keeps its state in DIR, and needs nothing else
    ///
    /// Without a directory: `nomad-csi/embedded` in the user's state home. If an agent already runs
    /// on that directory, it is used.
    #[cfg(feature = "agent")]
    #[arg(
        long, global = true, value_name = "DIR", num_args = 0..=1, require_equals = true,
        default_missing_value = "", conflicts_with_all = ["address", "region", "context"],
        help_heading = SERVER,
        value_hint = ValueHint::DirPath, value_parser = clap::builder::OsStringValueParser::new()
    )]
    pub embedded: Option<OsString>,
    /// Region that requests are meant for
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, hide_short_help = true)]
    pub region: Option<String>,
    /// Namespace; `*` is all, where a command reads
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER)]
    pub namespace: Option<String>,
    /// ACL token; other users of this machine can see it in the list of processes, so rather set
    /// NOMAD_TOKEN
    #[arg(long, global = true, value_name = "TOKEN", help_heading = SERVER, hide_short_help = true)]
    pub token: Option<Hidden>,
    /// PEM file with the authorities to trust
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub ca_cert: Option<PathBuf>,
    /// Directory of PEM files with the authorities to trust
    #[arg(long, global = true, value_name = "DIR", help_heading = SERVER, value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub ca_path: Option<PathBuf>,
    /// PEM file with the client certificate
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_cert: Option<PathBuf>,
    /// PEM file with the client certificate's key
    #[arg(long, global = true, value_name = "FILE", help_heading = SERVER, value_hint = ValueHint::FilePath, hide_short_help = true)]
    pub client_key: Option<PathBuf>,
    /// Name that the server's certificate must carry, if it is not the host's
    #[arg(long, global = true, value_name = "NAME", help_heading = SERVER, hide_short_help = true)]
    pub tls_server_name: Option<String>,
    /// Accept any server certificate: never in production; `=false` where something else says so
    #[arg(
        long, global = true, value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", help_heading = SERVER, hide_short_help = true
    )]
    pub tls_skip_verify: Option<bool>,
    /// No colours
    #[arg(long, global = true, help_heading = TALK, conflicts_with = "force_color", hide_short_help = true)]
    pub no_color: bool,
    /// Colours also where the output is no terminal
    #[arg(long, global = true, help_heading = TALK, hide_short_help = true)]
    pub force_color: bool,
    /// Log to standard error what is done; twice: every call
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = TALK, hide_short_help = true)]
    pub verbose: u8,
    /// How it is logged
    #[arg(long, global = true, value_name = "FORMAT", help_heading = TALK, hide_short_help = true)]
    pub log_format: Option<LogFormat>,
}

impl Global {
    /// Whether the server is an agent inside this process.
    pub(super) fn is_embedded(&self) -> bool {
        #[cfg(feature = "agent")]
        let embedded = self.embedded.is_some();
        #[cfg(not(feature = "agent"))]
        let embedded = false;
        embedded
    }
}

const SERVER: &str = "Server";
const TALK: &str = "Messages";
const LEDGER: &str = "Ledger";

/// A value that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Hidden(pub String);

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl std::str::FromStr for Hidden {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One object a line.
    Json,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    /// Check volume specifications; asks no server
    ///
    /// Reports every problem of every file at once, with its place and what to do. Warnings are
    /// for what Nomad takes and ignores; they do not change the exit code.
    Validate(Validate),
    /// Show what `apply` would do
    ///
    /// Exits with 0 if there is nothing to do, with 2 if something would change, with 3 if a
    /// server would refuse a change, with 1 on an error.
    Plan(PlanArguments),
    /// Create, register and update volumes until they are as specified
    ///
    /// Shows the plan first and asks on a terminal. Right before a volume is changed it is read
    /// again; if it has changed since the plan, it is left alone (exit code 3). With a set, what was
    /// found and done is written to the ledger, and two runs on one set take turns.
    Apply(Apply),
    /// Show what is otherwise on the server than it was left; changes nothing anywhere
    ///
    /// Compares every volume of the set and of the files with what was last applied, by the ledger's
    /// hash of each field. What only the files changed is no drift: `plan` shows it. Without a set or
    /// a ledger the volumes are held against the files, and nobody can tell who changed what.
    ///
    /// Exits with 0 if nothing has drifted, with 2 if something has, with 1 on an error.
    Drift(DriftArguments),
    /// Look for drift again and again, and put it back with `--apply`
    ///
    /// Every round reads the files, the ledger and the server anew. A round comes at least once in
    /// every interval, and sooner when the server says that something changed; after failures the
    /// pauses grow. Without `--apply` nothing is changed. With it, what is reversible is put back;
    /// what is worse needs a flag, and what is blocked is left to a person. Ends in order, with 0, at
    /// Ctrl-C or SIGTERM.
    Reconcile(ReconcileArguments),
    /// Write down what exists, as specifications; changes no volume
    ///
    /// A plan made at once is empty. What the server hides is written as `unknown`, and what is not
    /// as it should be is marked: hidden mount flags, an external ID that several volumes share, one
    /// that the provider does not list, claims of allocations that have ended. With `--set` the set
    /// owns the volumes from then on, protected from removal.
    Import(ImportArguments),
    /// Let a set's volumes go: nothing is done to them, and nothing removes them any more
    ///
    /// Also lifts the protection of a volume, since what nobody owns is not removed. A volume that
    /// is still in the files is taken in again by the next `apply` of that set.
    Forget(Forget),
    /// Look at what sets own
    #[command(subcommand)]
    Set(SetCommand),
    /// Work with volumes
    #[command(subcommand)]
    Volume(VolumeCommand),
    /// Work with snapshots of volumes
    #[command(subcommand)]
    Snapshot(SnapshotCommand),
    /// List what a provider has and nobody registered; register or delete it
    ///
    /// The plugin's own list is joined with what is registered in all namespaces, of any plugin. With
    /// `--adopt` orphans are registered. With `--delete-data` they are deleted with their data, each
    /// approved by name: they are registered first, since a server deletes registered volumes only; a
    /// second run goes on where one was cut short. Nothing is deleted (exit code 3) where the token may
    /// not list the volumes of every namespace. What another cluster has registered, nobody here knows.
    Orphans(OrphansArguments),
    /// Work with plugins
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Run an agent: Nomad's HTTP API for volumes and plugins, with a real CSI plugin
    ///
    /// Ends in order at Ctrl-C or SIGTERM: what is being answered is finished. A second signal
    /// leaves at once, which loses nothing either. Mounts stay. Whoever reaches its port may create
    /// and delete volumes.
    #[cfg(feature = "agent")]
    Agent(Agent),
    /// Look at what the token may do
    #[command(subcommand)]
    Auth(AuthCommand),
    /// Work with named clusters
    ///
    /// They stand in the config file, `nomad-csi/config.toml` in the user's config home: tables
    /// `[context.NAME]` with an `address` and more. `--context NAME` beats the environment; the
    /// environment beats the context chosen with `context use`.
    #[command(subcommand)]
    Context(ContextCommand),
    /// Explain an error code
    Explain(Explain),
    /// Print the script that makes a shell complete this command line
    ///
    /// bash: source <(nomad-csi completion bash)
    #[command(verbatim_doc_comment)]
    Completion(Completion),
    /// Print the manual
    Man(Man),
}

/// Where specifications come from.
#[derive(Args, Clone, Debug)]
pub(super) struct Files {
    /// File, glob, directory (read recursively), or `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "PATH", required = true, value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Syntax of standard input, and of files whose names do not say it [default: json if the text
    /// starts with `{`, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
}

/// The three ways to write a specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpecSyntax {
    /// Nomad's own.
    Hcl,
    /// The same keys.
    Yaml,
    /// The same keys.
    Json,
}

/// `validate`.
#[derive(Args, Debug)]
pub(super) struct Validate {
    /// What to check.
    #[command(flatten)]
    pub files: Files,
    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
}

/// A report for people or machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReportForm {
    /// For people.
    Text,
    /// One document.
    Json,
}

/// Which set is meant.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SetArgument {
    /// Set that the volumes belong to, where the files do not name it
    ///
    /// A set remembers which volumes it owns, so that `--prune` removes those and no others. Without
    /// a set nothing is owned.
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
}

/// `plan`.
#[derive(Args, Debug)]
pub(super) struct PlanArguments {
    /// What is wanted.
    #[command(flatten)]
    pub files: Files,
    /// Whose it is.
    #[command(flatten)]
    pub set: SetArgument,
    /// Where that is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// Form of the plan
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
    /// Write the plan in another form too, to a file or to standard output (`-`); may be repeated
    ///
    /// FORM is sarif, junit, github (annotations for its workflows) or markdown. One that goes to
    /// standard output takes the place of `--output`.
    #[arg(long = "format", value_name = "FORM=FILE", value_delimiter = ',')]
    pub formats: Vec<ReportFile>,
    /// Save the plan in this file, which must not exist, for `apply FILE`
    ///
    /// It holds no secret and no specification: it names the files, and remembers what the plan
    /// relied on, what was asked for and what was agreed to.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// What may be done, and for which server it is planned.
    #[command(flatten)]
    pub choices: Choices,
    /// How many requests at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// What may be done besides, and for which server it is planned.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct Choices {
    /// Also deregister what the set owns and no file names; its data stays
    ///
    /// Files that say `set = "NAME"` and declare no volume let go of everything that the set owns. Files
    /// that are missing never do.
    #[arg(long, help_heading = CHOICES)]
    pub prune: bool,
    /// Remove this volume and make it anew; may be repeated
    ///
    /// A volume that the provider makes loses its data; of one that is registered by its external
    /// ID only the registration is replaced.
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = CHOICES)]
    pub replace: Vec<String>,
    /// Take a snapshot of a volume before it is replaced
    #[arg(long, requires = "replace", help_heading = CHOICES)]
    pub snapshot_first: bool,
    /// Delete this volume and its data; no file may name it; may be repeated
    #[arg(long, value_name = "[NAMESPACE/]ID", help_heading = CHOICES)]
    pub delete_data: Vec<String>,
    /// Let an update erase a value that the server hides and the file does not give; may be repeated
    ///
    /// FIELD is secrets or mount_flags.
    #[arg(long, value_name = "FIELD:[NAMESPACE/]ID", help_heading = CHOICES)]
    pub accept_loss: Vec<String>,
    /// The worst that may be done [default: reversible]
    #[arg(long, value_name = "RISK", help_heading = CHOICES, value_parser = one_of(Risk::ALL, Risk::as_str))]
    pub max_risk: Option<Risk>,
    /// Allow that much for this volume; may be repeated
    ///
    /// RISK is needs-downtime or destroys-data.
    #[arg(long, value_name = "RISK:[NAMESPACE/]ID", help_heading = CHOICES)]
    pub approve: Vec<String>,
    /// Refuse whatever does this; may be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', help_heading = CHOICES, value_parser = one_of(DenyRule::ALL, DenyRule::as_str))]
    pub deny: Vec<DenyRule>,
    /// Version of the Nomad server, where it does not say it to the token [default: ask it]
    #[arg(long, value_name = "VERSION", help_heading = CHOICES)]
    pub server_version: Option<ServerVersion>,
}

const CHOICES: &str = "What may be done";

/// A parser that takes one of these words.
fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(all.map(word));
    words.try_map(move |text| {
        let meant = all.into_iter().find(|one| word(*one) == text);
        meant.ok_or("it is none of these words")
    })
}

/// How much at once.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct Parallelism {
    /// How many volumes are worked on at once
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallelism: u16,
}

/// `apply`.
#[derive(Args, Debug)]
pub(super) struct Apply {
    /// Saved plan to carry out, in place of files
    ///
    /// It is made again from the files that it names, for the same server and set, with what was
    /// asked for and agreed to then. A volume that is not as it was then is left alone (exit code 3).
    /// With a set it can be carried out once.
    #[arg(
        value_name = "PLAN", value_hint = ValueHint::FilePath,
        conflicts_with_all = [
            "files", "syntax", "set", "ledger", "ledger_namespace", "server_version",
            "prune", "replace", "snapshot_first", "delete_data", "accept_loss",
        ]
    )]
    pub plan: Option<PathBuf>,
    /// File, glob, directory (read recursively), or `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "PATH", required_unless_present = "plan", value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Syntax of standard input, and of files whose names do not say it [default: json if the text
    /// starts with `{`, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
    /// Whose it is.
    #[command(flatten)]
    pub set: SetArgument,
    /// Where that is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// Whether to ask, to go on and to wait.
    #[command(flatten)]
    pub how: ApplyHow,
    /// Wait until the volumes can be used, for five minutes at most (exit code 3 if one cannot)
    #[arg(long)]
    pub wait: bool,
    /// Override the server's soft-mandatory policies (Nomad Enterprise)
    #[arg(long)]
    pub policy_override: bool,
    /// Form of the volumes printed.
    #[command(flatten)]
    pub output: OutputArguments,
    /// What may be done, and for which server it is planned.
    #[command(flatten)]
    pub choices: Choices,
    /// How many changes at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// Whether `apply` asks, goes on and waits.
#[derive(Args, Clone, Copy, Debug)]
pub(super) struct ApplyHow {
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Do what can be done also while something else is blocked or has to wait
    #[arg(long)]
    pub keep_going: bool,
    /// Do not wait for plugins that are not healthy
    ///
    /// Without this, one that has no healthy controller is waited for, for two minutes at most.
    #[arg(long)]
    pub no_wait: bool,
}

/// `drift`.
#[derive(Args, Debug)]
pub(super) struct DriftArguments {
    /// What was wanted.
    #[command(flatten)]
    pub files: Files,
    /// Whose it is.
    #[command(flatten)]
    pub set: SetArgument,
    /// Say nothing of this field's drift; may be repeated
    ///
    /// FIELD is a key of a specification, dotted where it is nested: `context`,
    /// `mount_options.fs_type`. In a file there is `ignore = ["FIELD"]` for one volume.
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = drifting_field)]
    pub ignore: Vec<String>,
    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
    /// Where the set is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// How much at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// `reconcile`.
#[derive(Args, Debug)]
pub(super) struct ReconcileArguments {
    /// What is wanted.
    #[command(flatten)]
    pub files: Files,
    /// Whose it is.
    #[command(flatten)]
    pub set: SetArgument,
    /// How long at most until the next round: 30s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = interval)]
    pub interval: Duration,
    /// Also change what is otherwise than the files say
    #[arg(long)]
    pub apply: bool,
    /// Where Prometheus finds the metrics, at /metrics; nobody is asked who he is
    #[arg(long, value_name = "ADDR:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Say nothing of this field's drift; may be repeated
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = drifting_field)]
    pub ignore: Vec<String>,
    /// What may be done.
    #[command(flatten)]
    pub choices: StandingChoices,
    /// Where the set is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// How much at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// What may be done in every round: nothing that is meant for once.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct StandingChoices {
    /// Also deregister what the set owns and no file names; its data stays
    ///
    /// Files that say `set = "NAME"` and declare no volume let go of everything that the set owns. Files
    /// that are missing never do.
    #[arg(long, requires = "apply", help_heading = CHOICES)]
    pub prune: bool,
    /// Let an update erase a value that the server hides and the file does not give; may be repeated
    #[arg(long, value_name = "FIELD:[NAMESPACE/]ID", requires = "apply", help_heading = CHOICES)]
    pub accept_loss: Vec<String>,
    /// The worst that may be done [default: reversible]
    #[arg(long, value_name = "RISK", requires = "apply", help_heading = CHOICES, value_parser = one_of(Risk::ALL, Risk::as_str))]
    pub max_risk: Option<Risk>,
    /// Allow that much for this volume; may be repeated
    #[arg(long, value_name = "RISK:[NAMESPACE/]ID", requires = "apply", help_heading = CHOICES)]
    pub approve: Vec<String>,
    /// Refuse whatever does this; may be repeated
    #[arg(long, value_name = "RULE", value_delimiter = ',', requires = "apply", help_heading = CHOICES, value_parser = one_of(DenyRule::ALL, DenyRule::as_str))]
    pub deny: Vec<DenyRule>,
    /// Version of the Nomad server, where it does not say it to the token [default: ask it]
    #[arg(long, value_name = "VERSION", help_heading = CHOICES)]
    pub server_version: Option<ServerVersion>,
}

impl From<StandingChoices> for Choices {
    fn from(choices: StandingChoices) -> Self {
        Self {
            prune: choices.prune,
            accept_loss: choices.accept_loss,
            max_risk: choices.max_risk,
            approve: choices.approve,
            deny: choices.deny,
            server_version: choices.server_version,
            ..Self::default()
        }
    }
}

/// A number of seconds, minutes or hours.
fn interval(text: &str) -> Result<Duration, String> {
    let units = [("s", 1), ("m", 60), ("h", 3600)];
    let unit = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds =
        unit.and_then(|(number, seconds)| number.parse::<u32>().ok()?.checked_mul(*seconds));
    match seconds {
        Some(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds.into())),
        Some(_) | None => Err("a time from 1s to 24h is needed, such as 30s, 5m or 1h".to_owned()),
    }
}

/// `import`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["ids", "all", "external", "from_tfstate"]))]
pub(super) struct ImportArguments {
    /// The volumes' IDs, exactly
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// All volumes of the namespace, or of all (`--namespace '*'`)
    #[arg(long)]
    pub all: bool,
    /// A volume that the plugin's provider has and that is registered nowhere
    #[arg(long, num_args = 2, value_names = ["PLUGIN", "EXTERNAL_ID"])]
    pub external: Vec<String>,
    /// The volumes of a Terraform state; asks no server
    ///
    /// Secrets are not taken over. Prints the `removed` blocks that make Terraform forget them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["set"])]
    pub from_tfstate: Option<PathBuf>,
    /// ID of the volume to be registered [default: the external ID]
    #[arg(long, value_name = "ID", requires = "external")]
    pub id: Option<String>,
    /// Set that owns them from now on
    #[arg(long, value_name = "NAME", conflicts_with = "external")]
    pub set: Option<SetName>,
    /// Where they are written.
    #[command(flatten)]
    pub output: SpecOutput,
    /// Where the set is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// How much at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// Where specifications are written.
#[derive(Args, Debug)]
pub(super) struct SpecOutput {
    /// Write a file for each volume below this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "file")]
    pub directory: Option<PathBuf>,
    /// Write all volumes into this file [default: standard output]
    #[arg(long = "out", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Syntax of what is written [default: by the file's ending, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
    /// Overwrite files that are there
    #[arg(long)]
    pub force: bool,
}

/// A field whose drift can be seen.
fn drifting_field(text: &str) -> Result<String, String> {
    let fields: Vec<String> = schema::drifting().collect();
    if fields.iter().any(|field| field == text) {
        return Ok(text.to_owned());
    }
    let near = nearest(text, fields.iter().map(String::as_str));
    Err(match near {
        Some(near) => format!("it is no field whose drift could be seen; is `{near}` meant?"),
        None => format!(
            "it is no field whose drift could be seen: {}",
            fields.join(", ")
        ),
    })
}

/// Where sets are remembered.
#[derive(Args, Clone, Debug)]
pub(super) struct LedgerPlace {
    /// Where sets are remembered: nomad, file:PATH, or none
    ///
    /// `nomad` is the server's variables below `nomad-csi/sets`, which need Nomad 1.7 or later, or
    /// the agent. No secret is in a ledger; losing it is safe, since what nobody owns is never
    /// removed.
    #[arg(long, value_name = "WHERE", default_value = "nomad", value_parser = LedgerChoice::parse, help_heading = LEDGER)]
    pub ledger: LedgerChoice,
    /// Namespace of the variables that sets are remembered in
    #[arg(long, value_name = "NAME", default_value = "default", help_heading = LEDGER, hide_short_help = true)]
    pub ledger_namespace: String,
}

/// `forget`.
#[derive(Args, Debug)]
pub(super) struct Forget {
    /// The volumes' IDs, exactly
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Set that owns them
    #[arg(long, value_name = "NAME")]
    pub set: SetName,
    /// Where it is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
}

/// `set …`.
#[derive(Subcommand, Debug)]
pub(super) enum SetCommand {
    /// List sets
    List(SetList),
    /// Show what a set owns, and what was begun with it and not ended
    Show(SetShow),
}

/// `set list`.
#[derive(Args, Debug)]
pub(super) struct SetList {
    /// Where sets are remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `set show`.
#[derive(Args, Debug)]
pub(super) struct SetShow {
    /// The set's name
    #[arg(value_name = "NAME")]
    pub name: SetName,
    /// Where it is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Form of what is printed.
#[derive(Args, Clone, Debug)]
pub(super) struct OutputArguments {
    /// Form of the result: table, wide, json, yaml, name, or jsonpath=EXPRESSION (RFC 9535)
    ///
    /// `json` is the server's own JSON, of one object where one was asked for and of a list
    /// otherwise. `jsonpath` selects from it and prints one match a line, texts without quotes.
    #[arg(short, long, value_name = "FORM", default_value = "table", value_parser = Output::parse)]
    pub output: Output,
}

/// `volume …`.
#[derive(Subcommand, Debug)]
pub(super) enum VolumeCommand {
    /// Create volumes in the storage provider and register them
    ///
    /// A volume that exists already is updated instead.
    Create(Submit),
    /// Register volumes that exist in the storage provider
    ///
    /// A volume that is registered already is updated instead.
    Register(Submit),
    /// Remove the registration of volumes; their data stays in the storage provider
    ///
    /// Refuses volumes that are in use (exit code 3). Asks on a terminal.
    Deregister(Deregister),
    /// Delete volumes and their data in the storage provider
    ///
    /// Refuses volumes that are in use, and volumes whose data another registered volume shares
    /// (exit code 3). Asks on a terminal. A volume that does not exist is an error, unless
    /// `--if-exists` is given.
    Delete(Delete),
    /// List volumes, or show one
    ///
    /// ID may be the start of an ID; an exact match wins.
    Status(VolumeStatus),
    /// Take volumes off a node that has nothing running with them any more
    ///
    /// A server does that by itself once an allocation has ended; this is for what was left over.
    /// Refused while an allocation on that node may still use the volume (exit code 3).
    Detach(Detach),
    /// Wait until a volume can be used, is used by nobody, or is gone
    ///
    /// Says why it is not so yet, whenever the reason changes. Exits with 3 if the time is over before
    /// it is so.
    Wait(WaitArguments),
    /// Make a volume larger, and change nothing else about it
    ///
    /// With `--size` everything else is sent as the server shows it. Where the server hides something
    /// that this would erase (mount flags; secrets on Nomad), it is refused (exit code 3) until a file
    /// gives it (`-f`) or its loss is accepted. Volumes never shrink.
    Expand(Box<ExpandArguments>),
    /// Write an example specification
    Init(Init),
}

/// `volume create` and `volume register`.
#[derive(Args, Debug)]
pub(super) struct Submit {
    /// What is wanted.
    #[command(flatten)]
    pub files: Files,
    /// Override the server's soft-mandatory policies (Nomad Enterprise)
    #[arg(long)]
    pub policy_override: bool,
    /// Form of the volumes printed.
    #[command(flatten)]
    pub output: OutputArguments,
    /// How many at once.
    #[command(flatten)]
    pub parallelism: Parallelism,
}

/// `volume deregister`.
#[derive(Args, Debug)]
pub(super) struct Deregister {
    /// The volumes' IDs, exactly
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Also drop claims of allocations that have ended or that the server no longer knows
    ///
    /// A claim of an allocation that may still run is never dropped.
    #[arg(long)]
    pub force: bool,
    /// A volume that is not registered is no error
    #[arg(long)]
    pub if_exists: bool,
    /// Where it is remembered which set owns and protects them.
    #[command(flatten)]
    pub place: LedgerPlace,
}

/// `volume delete`.
#[derive(Args, Debug)]
pub(super) struct Delete {
    /// The volumes' IDs, exactly
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Secret for the storage provider, laid over the stored ones; may be repeated
    ///
    /// Other users of this machine can see it in the list of processes. The value cannot hold a
    /// comma: it travels in a header that is split there.
    #[arg(long = "secret", value_name = "KEY=VALUE")]
    pub secrets: Vec<Hidden>,
    /// A volume that does not exist is no error
    #[arg(long)]
    pub if_exists: bool,
    /// Where it is remembered which set owns and protects them.
    #[command(flatten)]
    pub place: LedgerPlace,
}

/// `volume detach`.
#[derive(Args, Debug)]
pub(super) struct Detach {
    /// The volume's ID, exactly
    #[arg(value_name = "VOLUME")]
    pub id: String,
    /// The node's whole ID; of a node that an allocation of the volume is on, its name or the start
    /// of its ID will do
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// `volume wait`.
#[derive(Args, Debug)]
pub(super) struct WaitArguments {
    /// The volume's ID, exactly
    #[arg(value_name = "ID")]
    pub id: String,
    /// How the volume shall be
    #[arg(long = "for", value_name = "STATE", value_parser = one_of(Awaited::ALL, Awaited::as_str))]
    pub awaited: Awaited,
    /// How long to wait at most, such as 30s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: TimeSpan,
}

/// `volume expand`.
#[derive(Args, Debug)]
pub(super) struct ExpandArguments {
    /// The volume's ID, exactly
    #[arg(value_name = "ID")]
    pub id: String,
    /// How large it shall be at least
    #[arg(long, value_name = "SIZE", required_unless_present = "files")]
    pub size: Option<String>,
    /// How large it may be at most [default: as before, if that is not too small]
    #[arg(long, value_name = "SIZE", requires = "size")]
    pub max_size: Option<String>,
    /// Specification that gives the new size, and everything that the server hides: a file, a glob, a
    /// directory, or `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "PATH", conflicts_with = "size", value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Syntax of standard input, and of files whose names do not say it [default: json if the text
    /// starts with `{`, else hcl]
    #[arg(long, value_name = "SYNTAX", requires = "files")]
    pub syntax: Option<SpecSyntax>,
    /// Let the volume lose a value that the server hides; may be repeated
    #[arg(long, value_name = "FIELD", value_parser = one_of(HiddenField::ALL, HiddenField::as_str))]
    pub accept_loss: Vec<HiddenField>,
    /// Set that owns the volume, and remembers the new size as applied [default: the files' own]
    ///
    /// Without one, a volume that a set owns has drifted afterwards.
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// Where the set is remembered.
    #[command(flatten)]
    pub place: LedgerPlace,
    /// Version of the Nomad server, where it does not say it to the token [default: ask it]
    #[arg(long, value_name = "VERSION")]
    pub server_version: Option<ServerVersion>,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// Secrets for the storage provider, where no specification gives them.
#[derive(Args, Clone, Debug, Default)]
pub(super) struct SecretArguments {
    /// File with secrets for the storage provider: one map of texts, as YAML or JSON
    ///
    /// In place of a text, `{env: NAME}` is the value of an environment variable and `{file: PATH}`
    /// that of a file, its path starting from the directory of this one.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secrets: Option<PathBuf>,
    /// Secret for the storage provider, from a variable or a file: KEY=env:NAME or KEY=file:PATH; may
    /// be repeated
    ///
    /// Laid over those of `--secrets`. The value itself is not taken here: other users of this machine
    /// could see it in the list of processes.
    #[arg(long, value_name = "KEY=SOURCE")]
    pub secret_from: Vec<Hidden>,
}

/// `orphans`.
#[derive(Args, Debug)]
pub(super) struct OrphansArguments {
    /// Plugin whose provider is asked
    #[arg(long, value_name = "ID")]
    pub plugin: String,
    /// Register this volume of the provider, under the ID given or its own; may be repeated
    #[arg(long, value_name = "[ID=]EXTERNAL_ID", conflicts_with = "delete_data")]
    pub adopt: Vec<String>,
    /// Delete this volume of the provider and its data; may be repeated
    #[arg(long, value_name = "EXTERNAL_ID")]
    pub delete_data: Vec<String>,
    /// How the volumes may be used, such as single-node-writer:file-system; may be repeated
    ///
    /// For `--delete-data` it need not be said, unless the plugin refuses single-node-writer:file-system.
    #[arg(long, value_name = "ACCESS_MODE:ATTACHMENT_MODE")]
    pub capability: Vec<String>,
    /// Agree to the deletion of this volume, `destroys-data:EXTERNAL_ID`; may be repeated
    #[arg(long, value_name = "RISK:EXTERNAL_ID", requires = "delete_data")]
    pub approve: Vec<String>,
    /// Secrets.
    #[command(flatten)]
    pub secrets: SecretArguments,
    /// Form of the list.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `snapshot …`.
#[derive(Subcommand, Debug)]
pub(super) enum SnapshotCommand {
    /// Take a snapshot of a volume
    ///
    /// Of one name a provider makes one snapshot: the same command again gives the same one.
    Create(SnapshotCreate),
    /// List the snapshots of a plugin's provider, the latest first
    ///
    /// No server remembers snapshots; the plugin is asked for all pages of its list.
    List(SnapshotList),
    /// Delete snapshots
    ///
    /// Asks on a terminal. A snapshot that the provider does not list is an error, unless
    /// `--if-exists` is given.
    Delete(SnapshotDelete),
}

/// `snapshot create`.
#[derive(Args, Debug)]
pub(super) struct SnapshotCreate {
    /// The volume's ID, exactly
    #[arg(value_name = "VOLUME")]
    pub id: String,
    /// What the snapshot is called, up to 128 bytes
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Parameter for the storage provider; may be repeated
    #[arg(long = "parameter", value_name = "KEY=VALUE")]
    pub parameters: Vec<String>,
    /// Secrets.
    #[command(flatten)]
    pub secrets: SecretArguments,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `snapshot list`.
#[derive(Args, Debug)]
pub(super) struct SnapshotList {
    /// Plugin whose provider is asked; with `--volume` that of the volume
    #[arg(long, value_name = "ID", required_unless_present = "volume")]
    pub plugin: Option<String>,
    /// Only snapshots of this volume
    #[arg(long, value_name = "ID")]
    pub volume: Option<String>,
    /// Secrets.
    #[command(flatten)]
    pub secrets: SecretArguments,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `snapshot delete`.
#[derive(Args, Debug)]
pub(super) struct SnapshotDelete {
    /// The plugin's ID
    #[arg(value_name = "PLUGIN")]
    pub plugin: String,
    /// The provider's IDs of the snapshots, exactly
    #[arg(value_name = "SNAPSHOT", required = true)]
    pub ids: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// A snapshot that does not exist is no error
    #[arg(long)]
    pub if_exists: bool,
    /// Secrets.
    #[command(flatten)]
    pub secrets: SecretArguments,
}

/// `volume status`.
#[derive(Args, Debug)]
pub(super) struct VolumeStatus {
    /// A volume's ID, or the start of it
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Only volumes of this plugin
    #[arg(long, value_name = "ID")]
    pub plugin: Option<String>,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `volume init`.
#[derive(Args, Debug)]
pub(super) struct Init {
    /// The file to write, or `-` for standard output [default: volume.hcl, .yaml or .json]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Syntax of the example [default: by the file's ending, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
}

/// `auth …`.
#[derive(Subcommand, Debug)]
pub(super) enum AuthCommand {
    /// Check what the token may do; asks the server, and changes nothing
    ///
    /// With files: whether it may plan and apply them, what is missing, and the smallest policy that
    /// grants it all (exit code 3 if anything is missing). Without: what it may do with volumes, in
    /// each namespace that it can see or in the one that is named.
    Check(AuthCheck),
}

/// `auth check`.
#[derive(Args, Debug)]
pub(super) struct AuthCheck {
    /// File, glob, directory (read recursively), or `-` for standard input; may be repeated
    #[arg(short, long = "file", value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    /// Syntax of standard input, and of files whose names do not say it [default: json if the text
    /// starts with `{`, else hcl]
    #[arg(long, value_name = "SYNTAX", requires = "files")]
    pub syntax: Option<SpecSyntax>,
    /// Whose it is.
    #[command(flatten)]
    pub set: SetArgument,
    /// Namespace of the variables that sets are remembered in
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub ledger_namespace: String,
    /// Form of the report
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
}

/// `context …`.
#[derive(Subcommand, Debug)]
pub(super) enum ContextCommand {
    /// List the clusters of the config file
    List(OutputArguments),
    /// Choose the cluster that is meant where flags and environment say nothing else
    Use(ContextUse),
    /// Show a cluster of the config file; tokens are not looked up
    Show(ContextShow),
}

/// `context use`.
#[derive(Args, Debug)]
pub(super) struct ContextUse {
    /// The context's name
    #[arg(value_name = "NAME", required_unless_present = "none")]
    pub name: Option<String>,
    /// Choose none
    #[arg(long, conflicts_with = "name")]
    pub none: bool,
}

/// `context show`.
#[derive(Args, Debug)]
pub(super) struct ContextShow {
    /// The context's name [default: the chosen one]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `plugin …`.
#[derive(Subcommand, Debug)]
pub(super) enum PluginCommand {
    /// List plugins, or show one
    ///
    /// ID may be the start of an ID; an exact match wins.
    Status(PluginStatus),
    /// Serve the embedded plugin on a socket, as a process of its own
    ///
    /// Volumes are images with a file system of their own, block devices, or directories of this
    /// machine. Making directories needs no privileges; everything else, and mounting, needs
    /// CAP_SYS_ADMIN. Ends in order at Ctrl-C or SIGTERM; mounts stay. The agent starts it by itself;
    /// any other orchestrator may use it too.
    #[cfg(feature = "agent")]
    Serve(Serve),
    /// Print everything that a plugin says about itself
    ///
    /// Asks the plugin on a socket directly, without any orchestrator: its name, its capabilities,
    /// its node, whether it is ready. What breaks the CSI specification is said.
    #[cfg(feature = "agent")]
    Probe(Probe),
    /// Check whether a plugin does what the CSI specification says
    ///
    /// Only what the plugin advertises is demanded. Without `--destructive` it is only asked;
    /// with it, volumes are created, used and deleted again, under names that begin with
    /// `nomad-csi-check-`, also after Ctrl-C. Exits with 0 if all that was checked holds, else
    /// with 1.
    #[cfg(feature = "agent")]
    Check(Check),
}

/// `plugin probe`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(super) struct Probe {
    /// Where the plugin listens: unix:// and the path of its socket
    #[arg(long, value_name = "URL")]
    pub endpoint: String,
    /// How long one call may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Form of the result
    #[arg(short, long, value_name = "FORM", default_value = "text")]
    pub output: ReportForm,
}

/// `plugin check`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(super) struct Check {
    /// Where the plugin listens: unix:// and the path of its socket
    #[arg(long, value_name = "URL", required_unless_present = "list")]
    pub endpoint: Option<String>,
    /// How long one call may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub timeout: u64,
    /// Also create, use and delete volumes and snapshots
    #[arg(long)]
    pub destructive: bool,
    /// File with the parameters of the volumes that are created: one map of texts, as YAML or JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub parameters: Option<PathBuf>,
    /// File with mutable parameters that the plugin knows, to modify volumes with: one map of texts,
    /// as YAML or JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub mutable_parameters: Option<PathBuf>,
    /// File with the secrets of every call that can carry some: one map of texts, as YAML or JSON
    ///
    /// Its values are never shown.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub secrets: Option<PathBuf>,
    /// Directory to stage volumes below, which the plugin sees under the same path [default: a
    /// directory below the temporary one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub staging: Option<PathBuf>,
    /// Directory to publish volumes below, which the plugin sees under the same path [default: a
    /// directory below the temporary one]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub target: Option<PathBuf>,
    /// Also check block devices
    #[arg(long)]
    pub block: bool,
    /// The plugin's log, to look for the secrets in
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// Size of the volumes that are created
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    pub size: String,
    /// Only these checks: an area, a check, or a pattern with `*`; may be repeated
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub only: Vec<String>,
    /// All but these checks: an area, a check, or a pattern with `*`; may be repeated
    #[arg(long, value_name = "CHECK", value_delimiter = ',')]
    pub skip: Vec<String>,
    /// List the checks and what they demand, and ask no plugin
    #[arg(long)]
    pub list: bool,
    /// Form of the report: a table, or one JSON document with every call
    #[arg(short, long, value_name = "FORM", default_value = "table")]
    pub output: TableForm,
    /// Write the report in another form too, to a file or to standard output (`-`); may be repeated
    ///
    /// FORM is junit or markdown. One that goes to standard output takes the place of `--output`.
    #[arg(long = "format", value_name = "FORM=FILE", value_delimiter = ',')]
    pub formats: Vec<CheckReport>,
}

/// A table for people, or a document for machines.
#[cfg(feature = "agent")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TableForm {
    /// For people.
    Table,
    /// One document.
    Json,
}

/// `plugin serve`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Where to listen: unix:// and the absolute path of a socket ending in .sock
    #[arg(long, value_name = "URL")]
    pub endpoint: String,
    /// Where its volumes and what it knows of them are
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub state_dir: PathBuf,
    /// What it calls this machine [default: its host name]
    #[arg(long, value_name = "ID")]
    pub node_id: Option<String>,
    /// End when standard input does, so that it does not outlive who started it
    #[arg(long)]
    pub exit_on_stdin_eof: bool,
    /// Which plugin it plays.
    #[command(flatten)]
    pub play: PlayArguments,
}

/// Writes the flags that say which plugin the embedded one plays: once for itself, and once with a
/// prefix for the agent that starts it.
#[cfg(feature = "agent")]
macro_rules! play_arguments {
    ($name:ident, $prefix:literal, $heading:literal) => {
        /// Which plugin the embedded one plays.
        #[derive(Args, Clone, Debug, Default)]
        #[command(next_help_heading = $heading)]
        pub(super) struct $name {
            /// What volumes with a file system are: auto, image or directory [default: auto]
            ///
            /// An image has a file system of its own and the size that was asked for; it needs loop
            /// devices (root). A directory promises no size. auto is an image where that can be had and
            /// a size or a file system is asked for.
            #[arg(long = concat!($prefix, "backing"), value_name = "KIND")]
            pub backing: Option<String>,
            /// Promise more bytes than the file system has
            #[arg(long = concat!($prefix, "overcommit"))]
            pub overcommit: bool,
            /// Take a capability away, such as LIST_VOLUMES; repeatable
            ///
            /// A plugin without CONTROLLER_SERVICE is one for nodes only, one without NODE_SERVICE a
            /// controller; without STAGE_UNSTAGE_VOLUME it publishes at once; without CONFIRMED it
            /// validates and never confirms. A wrong name is answered with all names.
            #[arg(long = concat!($prefix, "without"), value_name = "CAPABILITY")]
            pub without: Vec<String>,
            /// Have volumes attached (ControllerPublishVolume) before they are used
            #[arg(long = concat!($prefix, "attach"))]
            pub attach: bool,
            /// The same, and at most so many at once
            #[arg(long = concat!($prefix, "attach-limit"), value_name = "NUMBER")]
            pub attach_limit: Option<u32>,
            /// Where its volumes are, such as topology.example/zone=a; repeatable
            #[arg(long = concat!($prefix, "topology"), value_name = "KEY=VALUE")]
            pub topology: Vec<String>,
            /// Let an RPC go wrong, such as NodeStageVolume:UNAVAILABLE:2; repeatable
            ///
            /// RPC (or *), what happens, and how often (else always). What happens: a gRPC code;
            /// delay=200ms; lose-reply (all is done, the answer is UNAVAILABLE); hang; crash, and
            /// crash-after (all is done first), which are counted over all starts.
            #[arg(long = concat!($prefix, "fault"), value_name = "RPC:FAULT[:TIMES]")]
            pub fault: Vec<String>,
        }

        impl From<&$name> for crate::agent::PlayOptions {
            fn from(arguments: &$name) -> Self {
                Self {
                    backing: arguments.backing.clone(),
                    overcommit: arguments.overcommit,
                    without: arguments.without.clone(),
                    attach: arguments.attach,
                    attach_limit: arguments.attach_limit,
                    topology: arguments.topology.clone(),
                    fault: arguments.fault.clone(),
                }
            }
        }
    };
}

#[cfg(feature = "agent")]
play_arguments!(PlayArguments, "", "Which plugin it plays");
#[cfg(feature = "agent")]
play_arguments!(
    PluginPlayArguments,
    "plugin-",
    "Which plugin the embedded one plays"
);

/// `agent`.
#[cfg(feature = "agent")]
#[derive(Args, Debug)]
pub(super) struct Agent {
    /// Server and node in one process: the only mode so far
    #[arg(long)]
    pub dev: bool,
    /// Where it keeps its state [default: a temporary directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub data_dir: Option<PathBuf>,
    /// Where it listens [default: 127.0.0.1:4646]
    #[arg(long, value_name = "ADDR:PORT")]
    pub http: Option<String>,
    /// Listen where other machines reach it, although it does not ask who they are
    #[arg(long)]
    pub allow_unauthenticated: bool,
    /// Which plugin the embedded one plays.
    #[command(flatten)]
    pub plugin: PluginPlayArguments,
}

/// `plugin status`.
#[derive(Args, Debug)]
pub(super) struct PluginStatus {
    /// A plugin's ID, or the start of it
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Form of the result.
    #[command(flatten)]
    pub output: OutputArguments,
}

/// `explain`.
#[derive(Args, Debug)]
pub(super) struct Explain {
    /// The code, such as `spec/unknown-field`; without it all codes are listed
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// `completion`.
#[derive(Args, Debug)]
pub(super) struct Completion {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

/// Shells that can be taught.
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

/// `man`.
#[derive(Args, Debug)]
pub(super) struct Man {
    /// The command whose page to print, such as `volume create` [default: nomad-csi itself]
    #[arg(value_name = "COMMAND", conflicts_with = "directory")]
    pub command: Vec<String>,
    /// Write all pages into this directory instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub directory: Option<PathBuf>,
}
