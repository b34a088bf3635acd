//! Arguments of `node`.

use clap::{ArgGroup, Args, Subcommand};

use crate::cli::args::{OutputArgs, not_empty};
use crate::cli::durations::TimeSpan;
use nomad_csi_model::{FenceStatement, NodeId};

/// The subcommands of `node`.
#[derive(Subcommand, Debug)]
pub(crate) enum NodeCommand {
    /// List nodes, or show one with its plugins and allocations
    #[command(
        after_long_help = "Examples:\n  nomad-csi node status\n  nomad-csi node status worker-1 -o json"
    )]
    #[command(aliases = ["list", "ls", "get", "describe", "show"])]
    Status(NodeStatusArgs),
    /// Let a node get new allocations, or not
    ///
    /// Allocations that run on the node stay.
    #[command(after_long_help = "Example:\n  nomad-csi node eligibility worker-1 --disable")]
    Eligibility(EligibilityArgs),
    /// Move the allocations of a node to other nodes
    ///
    /// A draining node gets no new allocations. The command waits until the allocations have ended.
    /// An interrupt ends the command, and the drain goes on.
    #[command(
        after_long_help = "Examples:\n  nomad-csi node drain worker-1 --enable --deadline 30m\n  nomad-csi node drain worker-1 --disable"
    )]
    Drain(DrainArgs),
    /// Declare a node lost, so that its volumes can be used elsewhere
    ///
    /// The agent ends the claims of the node, and detaches its volumes without the node. Turn the
    /// node off first, or cut it off from its storage: nothing that runs there may write any more.
    /// Where the plugin attaches no volumes, the agent cannot prevent such writes, and your word is
    /// the only protection. Say which of the two it is with `--powered-off` or `--cut-off-storage`; on a
    /// terminal the command asks for it, and for approval.
    ///
    /// A node that the agent hears from is still on: its tasks write until they have ended. Fencing it
    /// requires `--approve cuts-off:NODE`, with the full ID of the node.
    #[command(
        after_long_help = "Examples:\n  nomad-csi node fence f7476465-4d6e-c0de-26d0-e383c49be941 --powered-off --yes\n  nomad-csi node fence f7476465-4d6e-c0de-26d0-e383c49be941 --yes --approve cuts-off:f7476465-4d6e-c0de-26d0-e383c49be941"
    )]
    Fence(FenceArgs),
    /// Let a fenced node be used again
    ///
    /// The agent first removes what is left of volumes on the node. Until then, the node gets no
    /// claims.
    #[command(
        after_long_help = "Example:\n  nomad-csi node unfence f7476465-4d6e-c0de-26d0-e383c49be941"
    )]
    Unfence(UnfenceArgs),
}

/// Arguments of `node status`.
#[derive(Args, Debug)]
pub(crate) struct NodeStatusArgs {
    /// Name of the node, its ID, or at least 4 characters of its ID
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `node eligibility`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("eligibility").required(true).args(["enable", "disable"]))]
pub(crate) struct EligibilityArgs {
    /// Name of the node or its ID; on a terminal, also at least 4 characters of its ID
    #[arg(value_name = "NODE", value_parser = not_empty())]
    pub node: String,
    /// Let the node get new allocations
    #[arg(long)]
    pub enable: bool,
    /// Give the node no new allocations
    #[arg(long)]
    pub disable: bool,
}

/// Arguments of `node drain`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("drain").required(true).args(["enable", "disable"]))]
#[expect(clippy::struct_excessive_bools, reason = "one per flag of the command")]
pub(crate) struct DrainArgs {
    /// Name of the node or its ID; on a terminal, also at least 4 characters of its ID
    #[arg(value_name = "NODE", value_parser = not_empty())]
    pub node: String,
    /// Start to move the allocations
    #[arg(long)]
    pub enable: bool,
    /// Stop moving allocations, and let the node get new ones
    #[arg(long)]
    pub disable: bool,
    /// Time after which the remaining allocations are stopped
    #[arg(long, value_name = "DURATION", default_value = "1h", conflicts_with = "disable")]
    pub deadline: TimeSpan,
    /// Give allocations as long as they need
    #[arg(long, conflicts_with_all = ["deadline", "disable"])]
    pub no_deadline: bool,
    /// Leave the allocations of system jobs, such as node plugins
    #[arg(long, conflicts_with = "disable")]
    pub ignore_system: bool,
    /// Give the node no new allocations after the drain ends
    #[arg(long, conflicts_with = "enable")]
    pub keep_ineligible: bool,
    /// End after the request, without waiting for the drain
    #[arg(long)]
    pub detach: bool,
}

/// Arguments of `node fence`.
#[derive(Args, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "one per flag of the command")]
pub(crate) struct FenceArgs {
    /// Name of the node or its ID; on a terminal, also at least 4 characters of its ID
    #[arg(value_name = "NODE", value_parser = not_empty())]
    pub node: String,
    /// Skip the approval prompt
    #[arg(long, short)]
    pub yes: bool,
    /// Say that the machine is off
    ///
    /// The plugins there have ended with it, so volumes that waited for a controller there go on with another one. The
    /// agent refuses it for a node that is connected.
    #[arg(long)]
    pub powered_off: bool,
    /// Say that the machine reaches none of its storage
    ///
    /// It may still run. A controller there may still change volumes at its provider, so volumes that wait for it go on
    /// waiting.
    #[arg(long, conflicts_with = "powered_off")]
    pub cut_off_storage: bool,
    /// Say that the controllers on the machine have stopped, too
    #[arg(long, requires = "cut_off_storage")]
    pub controllers_stopped: bool,
    /// Fence a node that is up, and cut off what runs there
    ///
    /// The agent fences a node that it hears from only if the full ID of the node approves it. On a terminal, the
    /// answer to the prompt approves it too.
    #[arg(long, value_name = "cuts-off:NODE", value_parser = cuts_off)]
    pub approve: Option<NodeId>,
}

impl FenceArgs {
    /// What the options say of the node.
    pub(super) fn statement(&self) -> Option<FenceStatement> {
        let controllers_stopped = self.controllers_stopped;
        match (self.powered_off, self.cut_off_storage) {
            (true, _) => Some(FenceStatement::PoweredOff),
            (false, true) => Some(FenceStatement::CutOffStorage { controllers_stopped }),
            (false, false) => None,
        }
    }
}

fn cuts_off(text: &str) -> Result<NodeId, String> {
    match text.strip_prefix("cuts-off:") {
        Some(node) if !node.is_empty() => Ok(NodeId::new(node)),
        Some(_) | None => {
            Err("the only approval is `cuts-off:` and the full ID of the node".to_owned())
        }
    }
}

/// Arguments of `node unfence`.
#[derive(Args, Debug)]
pub(crate) struct UnfenceArgs {
    /// Name of the node or its ID; on a terminal, also at least 4 characters of its ID
    #[arg(value_name = "NODE", value_parser = not_empty())]
    pub node: String,
}
