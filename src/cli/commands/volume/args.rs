//! Arguments of `volume`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

use super::claim_args::{ClaimArgs, ClaimsArgs, ReleaseArgs};
use super::cut_off::{cuts_off, cuts_off_id};
use super::doctor::DoctorArgs;
use crate::cli::args::{
    FileArgs, LedgerArgs, NO_PROVIDER_HELP, OutputArgs, ParallelismArgs, SERVER_VERSION_HELP,
    SHARE_HELP, SYNTAX_HELP, SecretArgs, ServerWaitArgs, SpecSyntax, WatchArgs, one_of,
    required_paths,
};
use crate::cli::durations::TimeSpan;
use nomad_csi_model::{AllocId, ServerVersion};
use nomad_csi_plan::{HiddenField, WaitCondition};

/// The subcommands of `volume`.
#[derive(Subcommand, Debug)]
pub(crate) enum VolumeCommand {
    /// Create volumes in the storage provider and register them
    ///
    /// Updates volumes that already exist.
    #[command(after_long_help = "Example:\n  nomad-csi volume create volume.hcl")]
    Create(SubmitArgs),
    /// Register volumes that exist in the storage provider
    ///
    /// Updates volumes that are already registered.
    #[command(after_long_help = "Example:\n  nomad-csi volume register volume.hcl")]
    Register(SubmitArgs),
    /// Deregister volumes and keep their data in the storage provider
    ///
    /// Refuses volumes that are in use (exit code 3). Asks for approval on a terminal. `--force` also drops
    /// claims, but never one of an allocation whose tasks may still write.
    #[command(after_long_help = "Example:\n  nomad-csi volume deregister db")]
    Deregister(DeregisterArgs),
    /// Delete volumes and their data in the storage provider
    ///
    /// Refuses volumes that are in use, and volumes that share their data with another registered
    /// volume (exit code 3). Asks for approval on a terminal. A volume that does not exist is an
    /// error without `--if-exists`. Given secrets override the stored ones. They cannot contain a
    /// comma, because the HTTP header that carries them is split at commas.
    #[command(after_long_help = "Example:\n  nomad-csi volume delete db --if-exists")]
    Delete(DeleteArgs),
    /// List volumes, or show one
    ///
    /// ID may be the start of an ID. An exact match takes precedence. The details of a volume end with its
    /// problems. If its plugin lists volumes and reports no health, the provider is asked whether it still
    /// has the data. The agent also shows how full the volume is on each node where it is published, if its
    /// plugin reports that.
    #[command(
        after_long_help = "Examples:\n  nomad-csi volume status\n  nomad-csi volume status db -o json"
    )]
    #[command(aliases = ["list", "ls", "get", "describe", "show"])]
    Status(VolumeStatusArgs),
    /// Give up a creation that did not end
    ///
    /// An agent that gets no answer to a create does not know whether the provider has the volume. It sends
    /// the same request again by itself, until the plugin answers; `volume status` shows the creation until
    /// then. This command makes the agent forget it, and prints the name that the volume has at the provider
    /// if it was created. Nothing is deleted. Waits while a call is under way. Asks for approval on a terminal.
    #[command(after_long_help = "Example:\n  nomad-csi volume abandon db")]
    Abandon(AbandonArgs),
    /// Detach a volume from a node where no allocation uses it
    ///
    /// A server detaches a volume when its allocations end. This command removes what that step
    /// left behind. It refuses while an allocation on the node may still use the volume (exit code
    /// 3).
    #[command(
        after_long_help = "Example:\n  nomad-csi volume detach db f7476465-4d6e-c0de-26d0-e383c49be941"
    )]
    Detach(DetachArgs),
    /// Show which allocations hold volumes, and what they wait for
    ///
    /// A claim is an allocation's hold on a volume. A problem is the failure of the last step of the
    /// claim; the agent tries it again. Only the agent shows claims. On Nomad, use `volume status`.
    #[command(
        after_long_help = "Examples:\n  nomad-csi volume claims\n  nomad-csi volume claims db -o json"
    )]
    Claims(ClaimsArgs),
    /// Claim a volume for an allocation and print its target path
    ///
    /// The agent attaches, stages and publishes the volume on the node. The same command again finds
    /// the same claim. The claim stays when the wait is over (exit code 1): run the command again, or
    /// give the volume back with `volume release`.
    #[command(
        after_long_help = "Example:\n  nomad-csi volume claim db --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99"
    )]
    Claim(ClaimArgs),
    /// Release an allocation's claims of a volume
    ///
    /// The agent unpublishes, unstages and detaches the volume, in this order. It refuses while tasks of
    /// the allocation may still write: stop the job first. If the wait is over, the release goes on (exit
    /// code 1).
    #[command(
        after_long_help = "Examples:\n  nomad-csi volume release db --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99\n  nomad-csi volume release db --alloc 5fc98185-17ff-26bc-a802-0c74fa471c99 --approve cuts-off:5fc98185-17ff-26bc-a802-0c74fa471c99"
    )]
    Release(ReleaseArgs),
    /// Find out why a volume cannot be used or released
    ///
    /// Joins what the server knows about the volume, its allocations, their nodes and the plugin
    /// with the provider's list, and shows each problem with its cause, the evidence, and remedies.
    /// The first remedy changes least. The agent shows the state of each claim. Nomad hides it, so
    /// some findings there are inferred, and marked so. `--fix` runs remedies that cannot lose data.
    ///
    /// Exits with 0 without findings, 2 with warnings only, 3 if a volume cannot be used or
    /// released, and 1 on an error.
    #[command(
        after_long_help = "Examples:\n  nomad-csi volume doctor db\n  nomad-csi volume doctor --all --fix"
    )]
    Doctor(DoctorArgs),
    /// Wait until a volume is schedulable, unclaimed or absent
    ///
    /// Reports the reason for waiting whenever it changes. Exits with 3 on timeout.
    #[command(
        after_long_help = "Example:\n  nomad-csi volume wait db --for schedulable --timeout 10m"
    )]
    Wait(WaitArgs),
    /// Expand a volume without changing anything else
    ///
    /// With `--size`, the request repeats the volume as the server shows it. If that would erase a
    /// value that the server hides (mount flags; secrets on Nomad), the command refuses (exit code
    /// 3) until a file supplies the value (`-f`) or its loss is accepted. Volumes never shrink.
    #[command(after_long_help = "Example:\n  nomad-csi volume expand db --size 20GiB")]
    Expand(Box<ExpandArgs>),
    /// Change mutable parameters of a volume
    ///
    /// Only the agent does this, with plugins that have MODIFY_VOLUME; the parameters are the plugin's own.
    /// Parameters that are not named stay as they are. The volume may be in use. A change that did not
    /// end is shown by `volume status`; the same command continues it.
    #[command(after_long_help = "Example:\n  nomad-csi volume modify db iops=3000 throughput=250")]
    Modify(ModifyArgs),
    /// Write an example specification
    ///
    /// With `--plugin`, the example is a volume of that plugin: it has what the server reports of the
    /// plugin, such as the topologies of its nodes, and leaves out what the plugin cannot do.
    #[command(
        after_long_help = "Examples:\n  nomad-csi volume init db.hcl\n  nomad-csi volume init --plugin ebs db.hcl"
    )]
    Init(InitArgs),
}

/// Arguments of `volume create` and `volume register`.
#[derive(Args, Debug)]
#[command(group = required_paths())]
pub(crate) struct SubmitArgs {
    /// The specifications.
    #[command(flatten)]
    pub files: FileArgs,
    #[arg(long, value_name = "[NAMESPACE/]ID", help = SHARE_HELP)]
    pub share: Vec<String>,
    /// Override the server's soft-mandatory policies (Nomad Enterprise)
    #[arg(long)]
    pub policy_override: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
}

/// Arguments of `volume deregister`.
#[derive(Args, Debug)]
pub(crate) struct DeregisterArgs {
    /// Exact IDs of the volumes
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Also drop claims of allocations that cannot write any more
    ///
    /// A claim is dropped if the client of the allocation has reported `complete` or `failed`, and its node is
    /// up. Nomad itself would also drop the claims of allocations that must stop, and of lost ones, while their
    /// tasks write; this command refuses that (exit code 3). If the node is gone or fenced, or the server has no
    /// record of the allocation and no node is away, the claim needs an approval (`--approve cuts-off:ALLOC`).
    /// Nothing is unmounted or detached.
    #[arg(long)]
    pub force: bool,
    /// Approve that the claim of an allocation whose end cannot be proven is dropped; repeatable
    ///
    /// ALLOC is the full ID. Make sure that the machine is off or cut off from its storage: otherwise two
    /// allocations may write to one volume. `--yes` never approves that.
    #[arg(long, value_name = "cuts-off:ALLOC", requires = "force", value_parser = cuts_off)]
    pub approve: Vec<AllocId>,
    /// Succeed for volumes that are not registered
    #[arg(long)]
    pub if_exists: bool,
    /// The ledger that records which set owns the volumes.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
}

/// Arguments of `volume delete`.
#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// Exact IDs of the volumes
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Approve that tasks of a node or of an allocation may lose the data; repeatable
    ///
    /// ID is the full ID of the node or allocation. Nomad forgets the allocations of a node that is away, so a volume
    /// that has changed since may still be written there. Make sure that the machine is off or cut off from its storage.
    /// `--yes` never approves that.
    #[arg(long, value_name = "cuts-off:ID", value_parser = cuts_off_id)]
    pub approve: Vec<String>,
    /// Secrets that override the stored ones.
    #[command(flatten)]
    pub secrets: SecretArgs,
    /// Succeed for volumes that do not exist
    #[arg(long)]
    pub if_exists: bool,
    /// The ledger that records which set owns the volumes.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    /// The limit of concurrent work.
    #[command(flatten)]
    pub parallelism: ParallelismArgs,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
}

/// Arguments of `volume status`.
#[derive(Args, Debug)]
pub(crate) struct VolumeStatusArgs {
    /// ID of a volume, or the start of one
    #[arg(value_name = "ID")]
    pub id: Option<String>,
    /// Show only volumes of this plugin
    #[arg(long, value_name = "ID")]
    pub plugin: Option<String>,
    /// Show only volumes for which this expression is true, such as 'Name matches "^db"'
    ///
    /// The server tests the expression: the agent, and Nomad 1.3 or newer. An earlier Nomad ignores it
    /// and lists all volumes.
    #[arg(long, value_name = "EXPRESSION", conflicts_with = "id")]
    pub filter: Option<String>,
    #[arg(long, requires = "id", help = NO_PROVIDER_HELP)]
    pub no_provider: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
    /// Whether changes are shown.
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// Arguments of `volume abandon`.
#[derive(Args, Debug)]
pub(crate) struct AbandonArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
}

/// Arguments of `volume detach`.
#[derive(Args, Debug)]
pub(crate) struct DetachArgs {
    /// Exact ID of the volume
    #[arg(value_name = "VOLUME")]
    pub id: String,
    /// Name of the node, its ID, or at least 4 characters of its ID
    #[arg(value_name = "NODE")]
    pub node: String,
}

/// Arguments of `volume wait`.
#[derive(Args, Debug)]
pub(crate) struct WaitArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// State to wait for
    #[arg(long = "for", value_name = "STATE", value_parser = one_of(WaitCondition::ALL, WaitCondition::as_str))]
    pub condition: WaitCondition,
    /// Longest time to wait, such as 30s, 5m or 1h30m
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: TimeSpan,
}

/// Arguments of `volume expand`.
#[derive(Args, Debug)]
pub(crate) struct ExpandArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Minimum size, such as 10GiB
    #[arg(long, value_name = "SIZE", required_unless_present = "files")]
    pub size: Option<String>,
    /// Maximum size [default: the current maximum, unless it is too small]
    #[arg(long, value_name = "SIZE", requires = "size")]
    pub max_size: Option<String>,
    /// Specification with the new size and the values that the server hides: file, glob, directory
    /// or `-`; repeatable
    #[arg(short, long = "file", value_name = "PATH", conflicts_with = "size", value_hint = ValueHint::AnyPath)]
    pub files: Vec<String>,
    #[arg(long, value_name = "SYNTAX", requires = "files", help = SYNTAX_HELP)]
    pub syntax: Option<SpecSyntax>,
    /// Allow the update to erase a value that the server hides; repeatable
    #[arg(long, value_name = "FIELD", value_parser = one_of(HiddenField::ALL, HiddenField::as_str))]
    pub accept_loss: Vec<HiddenField>,
    /// Set that owns the volume and records the new size [default: the set that the files name]
    ///
    /// Without a set, the new size of an owned volume counts as drift.
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
    /// The ledger of the set.
    #[command(flatten)]
    pub ledger: LedgerArgs,
    #[arg(long, value_name = "VERSION", help = SERVER_VERSION_HELP)]
    pub server_version: Option<ServerVersion>,
    /// Confirm the start without a prompt; this command never asks
    #[arg(long, short)]
    pub yes: bool,
    /// The wait for the server.
    #[command(flatten)]
    pub server_wait: ServerWaitArgs,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `volume modify`.
#[derive(Args, Debug)]
pub(crate) struct ModifyArgs {
    /// Exact ID of the volume
    #[arg(value_name = "ID")]
    pub id: String,
    /// Parameter with its new value
    #[arg(value_name = "KEY=VALUE", required = true)]
    pub parameters: Vec<String>,
    /// Confirm the start without a prompt; this command never asks
    #[arg(long, short)]
    pub yes: bool,
    /// The output format.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `volume init`.
#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// File to write, or `-` for standard output [default: volume.hcl, .yaml or .json]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Plugin of the volume, by its ID on the server or the start of it [default: the embedded plugin]
    #[arg(long, value_name = "PLUGIN")]
    pub plugin: Option<String>,
    /// Syntax of the example [default: by the file's extension, else hcl]
    #[arg(long, value_name = "SYNTAX")]
    pub syntax: Option<SpecSyntax>,
}
