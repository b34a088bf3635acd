//! Requests for claims that are refused or fail.

use http::StatusCode;

use nomad_csi_claims::claim::{ClaimDenied, ClaimDeniedReason, ClaimKey, StepProblem};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{
    AllocId, ExternalId, FenceStatement, JobKey, NamespacedId, NodeId, PluginId, shell_quoted,
};

/// An allocation that may still write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimWriter {
    /// The allocation.
    pub alloc: AllocId,
    /// Its node.
    pub node: NodeId,
    /// The job whose tasks run; `None` if a client made the allocation with its claim, and ends it by
    /// releasing the claim.
    pub job: Option<JobKey>,
}

impl std::fmt::Display for ClaimWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "allocation `{}`", self.alloc)?;
        if let Some(job) = &self.job {
            write!(f, " of job {}", job.quoted())?;
        }
        write!(f, " may still write on node `{}`", self.node)
    }
}

/// Why a request about a claim or a node fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The claim is denied.
    Denied {
        /// The volume.
        volume: NamespacedId,
        /// The reason, and who is in the way.
        denied: Box<ClaimDenied>,
        /// A node of a holder that is not connected.
        away: Option<NodeId>,
    },
    /// The volume can never be published for the claim, which is undone.
    Failed {
        /// The volume.
        volume: NamespacedId,
        /// The allocation.
        alloc: AllocId,
        /// The plugin's error.
        error: String,
    },
    /// The volume does not exist.
    NoVolume(NamespacedId),
    /// The allocation has no claim of the volume.
    NoClaim {
        /// The volume.
        volume: NamespacedId,
        /// The allocation.
        alloc: AllocId,
    },
    /// Tasks may still write to the volume.
    StillRunning {
        /// The volume.
        volume: NamespacedId,
        /// Whose tasks.
        writers: Vec<ClaimWriter>,
    },
    /// The allocation runs on another node.
    OtherNode {
        /// The allocation.
        alloc: AllocId,
        /// Its node.
        node: NodeId,
    },
    /// The allocation has ended.
    AllocEnded(AllocId),
    /// The request names no node, and there are several.
    NodeRequired,
    /// The allocation knows another volume by this name.
    AliasInUse {
        /// The volume.
        volume: NamespacedId,
        /// The claim.
        key: ClaimKey,
        /// The other volume.
        other: ExternalId,
    },
    /// The plugin does not run on the node, or has not reported what it needs.
    NoNodePlugin {
        /// The volume.
        volume: NamespacedId,
        /// The plugin.
        plugin: PluginId,
        /// The node.
        node: NodeId,
    },
    /// The volume is not detached from the node after the wait; the agent goes on.
    StillAttached {
        /// The volume.
        volume: NamespacedId,
        /// The node.
        node: NodeId,
        /// The failure of the last step.
        problem: Option<Box<StepProblem>>,
    },
    /// The request has an invalid field.
    Invalid(String),
    /// The node does not exist.
    UnknownNode(NodeId),
    /// The node is lost already, or is not lost.
    NodeState(String),
    /// The node cannot be off as far as is known: its absence is not on record yet.
    NodeNotAway(NodeId),
    /// The node cannot be declared lost without an approval: the agent hears from it.
    NodeHeard {
        /// The node.
        node: NodeId,
        /// The writers there.
        writers: Vec<ClaimWriter>,
    },
}

impl ClaimError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        match self {
            Self::Denied { denied, .. } if !denied.can_succeed_later() => {
                (Code::ClaimDenied, StatusCode::BAD_REQUEST)
            }
            Self::Denied { .. } | Self::NoNodePlugin { .. } => {
                (Code::ClaimDenied, StatusCode::CONFLICT)
            }
            Self::StillRunning { .. } => (Code::VolumeInUse, StatusCode::CONFLICT),
            Self::StillAttached { .. } => (Code::VolumeNotYet, StatusCode::INTERNAL_SERVER_ERROR),
            Self::Failed { .. } => (Code::ClaimFailed, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NoVolume(_) => (Code::VolumeNotFound, StatusCode::NOT_FOUND),
            Self::NoClaim { .. } => (Code::ClaimNotFound, StatusCode::NOT_FOUND),
            Self::OtherNode { .. }
            | Self::AllocEnded(_)
            | Self::NodeRequired
            | Self::AliasInUse { .. }
            | Self::Invalid(_) => (Code::ClaimInvalid, StatusCode::BAD_REQUEST),
            Self::UnknownNode(_) => (Code::NodeUnknown, StatusCode::NOT_FOUND),
            Self::NodeState(_) | Self::NodeNotAway(_) | Self::NodeHeard { .. } => {
                (Code::NodeState, StatusCode::CONFLICT)
            }
        }
    }

    /// The message with everything that is in the way: other clients get one text only.
    pub(super) fn text(&self) -> String {
        let notes = self.notes();
        if notes.is_empty() {
            return self.message();
        }
        format!("{}: {}", self.message(), notes.join(", "))
    }

    /// Returns what is in the way.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::StillAttached { problem, .. } => {
                let problem = problem.iter();
                problem
                    .map(|problem| format!("{} fails: {}", problem.step, problem.error))
                    .collect()
            }
            Self::Denied { denied, away, .. } => {
                let holders = denied.holders.iter().map(ToString::to_string);
                holders.chain(away.as_ref().map(away_note)).collect()
            }
            Self::StillRunning { writers, .. } | Self::NodeHeard { writers, .. } => {
                writers.iter().map(ToString::to_string).collect()
            }
            Self::Failed { .. }
            | Self::NoVolume(_)
            | Self::NoClaim { .. }
            | Self::OtherNode { .. }
            | Self::AllocEnded(_)
            | Self::NodeRequired
            | Self::AliasInUse { .. }
            | Self::NoNodePlugin { .. }
            | Self::Invalid(_)
            | Self::UnknownNode(_)
            | Self::NodeState(_)
            | Self::NodeNotAway(_) => vec![],
        }
    }

    /// Returns what to do.
    pub(super) fn help(&self) -> Vec<String> {
        match self {
            Self::StillRunning { volume, writers } => {
                let first = writers.first();
                first.map_or_else(Vec::new, |writer| still_running_help(volume, writer))
            }
            Self::NodeHeard { node, .. } => node_heard_help(node),
            other => vec![other.remedy()],
        }
    }

    fn remedy(&self) -> String {
        match self {
            Self::Denied { volume, denied, .. } => denied_help(volume, &denied.reason),
            Self::NoNodePlugin { plugin, .. } => format!(
                "start the plugin on that node; `nomad-csi plugin status {}` shows its state",
                shell_quoted(plugin)
            ),
            Self::StillAttached {
                volume, problem, ..
            } => {
                let remedy = problem.as_ref().and_then(|problem| problem.help.clone());
                remedy.unwrap_or_else(|| {
                    let words = volume.command_words();
                    format!("run `nomad-csi volume claims {words}` to see how far it is")
                })
            }
            Self::OtherNode { node, .. } => format!("use `--node {}`", shell_quoted(node)),
            Self::AllocEnded(_) => {
                "claim the volume for an allocation that runs; the ID of an ended one is never used again"
                    .to_owned()
            }
            Self::NodeRequired => "name the node, with `--node` on the command line".to_owned(),
            Self::AliasInUse { .. } => {
                "use another name, with `--alias` on the command line".to_owned()
            }
            Self::NodeNotAway(node) => format!(
                "wait until `nomad-csi node status {}` shows it as disconnected, which takes up to 20 seconds after a start of the \
                 server, and fence it then",
                shell_quoted(node.as_str())
            ),
            Self::Failed { .. }
            | Self::NoVolume(_)
            | Self::NoClaim { .. }
            | Self::StillRunning { .. }
            | Self::NodeHeard { .. }
            | Self::Invalid(_)
            | Self::UnknownNode(_)
            | Self::NodeState(_) => self.code_and_status().0.advice(),
        }
    }

    /// The message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Denied { volume, denied, .. } => {
                format!("cannot claim volume {}: {denied}", volume.quoted())
            }
            Self::Failed { volume, alloc, error } => format!(
                "cannot publish volume {} for allocation `{alloc}`: {error}",
                volume.quoted()
            ),
            Self::NoVolume(volume) => format!("volume {} does not exist", volume.quoted()),
            Self::NoClaim { volume, alloc } => {
                format!("allocation `{alloc}` has no claim of volume {}", volume.quoted())
            }
            Self::StillRunning { volume, .. } => format!(
                "cannot release volume {}: tasks that use it may still run",
                volume.quoted()
            ),
            Self::OtherNode { alloc, node } => {
                format!("allocation `{alloc}` runs on node `{node}`")
            }
            Self::AllocEnded(alloc) => format!("allocation `{alloc}` has ended"),
            Self::NodeRequired => "the request names no node, and there is not exactly one".into(),
            Self::AliasInUse { volume, key, other } => format!(
                "cannot claim volume {}: allocation `{}` knows external volume `{other}` as `{}`",
                volume.quoted(),
                key.alloc,
                key.alias
            ),
            Self::NoNodePlugin { volume, plugin, node } => format!(
                "cannot claim volume {}: plugin `{plugin}` is not healthy on node `{node}`",
                volume.quoted()
            ),
            Self::StillAttached { volume, node, .. } => {
                format!("volume {} is still being detached from node `{node}`", volume.quoted())
            }
            Self::Invalid(problem) => problem.clone(),
            Self::UnknownNode(node) => format!("node `{node}` does not exist"),
            Self::NodeState(problem) => problem.clone(),
            Self::NodeNotAway(node) => format!(
                "cannot fence node `{node}` as powered off: the server has not found out yet whether it is away"
            ),
            Self::NodeHeard { node, .. } => format!(
                "cannot fence node `{node}`: it is up, so what runs there is not known to have stopped"
            ),
        }
    }
}

/// What frees a volume of a node that is away.
fn away_note(node: &NodeId) -> String {
    let fence = FenceStatement::command(node);
    format!("node `{node}` is not connected: if that machine is off, `{fence}` frees the volume")
}

/// To move what runs on the node, or to approve that it is cut off.
fn node_heard_help(node: &NodeId) -> Vec<String> {
    let node = shell_quoted(node.as_str());
    vec![
        format!("to stop what runs there, run `nomad-csi node drain {node} --enable`"),
        format!("to cut it off, run `nomad-csi node fence {node} --yes --approve cuts-off:{node}`"),
        "if the machine is off, wait until its connection has ended, which takes up to 10 seconds"
            .to_owned(),
    ]
}

/// To end the tasks, or to approve that they lose the volume.
fn still_running_help(volume: &NamespacedId, writer: &ClaimWriter) -> Vec<String> {
    let NamespacedId { namespace, id } = volume;
    let alloc = shell_quoted(writer.alloc.as_str());
    let stop = writer.job.as_ref().map(|job| {
        format!(
            "run `nomad-csi job stop {} --namespace {}`: the end of its tasks releases the volume",
            shell_quoted(job.id.as_str()),
            shell_quoted(job.namespace.as_str())
        )
    });
    let cut_off = format!(
        "to kill the tasks and release the volume then, run `nomad-csi volume release {} --namespace {} --alloc {alloc} --approve cuts-off:{alloc}`",
        shell_quoted(id.as_str()),
        shell_quoted(namespace.as_str())
    );
    stop.into_iter().chain([cut_off]).collect()
}

fn denied_help(volume: &NamespacedId, reason: &ClaimDeniedReason) -> String {
    let in_namespace = volume.command_words();
    match reason {
        ClaimDeniedReason::BeingReleased | ClaimDeniedReason::Detaching => {
            format!(
                "wait until it is released; `nomad-csi volume claims {in_namespace}` shows how far it is"
            )
        }
        ClaimDeniedReason::OtherClaim => {
            format!(
                "release the other claim first: `nomad-csi volume release {in_namespace} --alloc ID`"
            )
        }
        ClaimDeniedReason::NodeLost(node) => format!(
            "claim the volume on another node, or run `nomad-csi node unfence {}` when the node is back",
            shell_quoted(node)
        ),
        ClaimDeniedReason::Unschedulable => {
            format!("check the plugin and the volume with `nomad-csi volume status {in_namespace}`")
        }
        ClaimDeniedReason::Capability(_) => format!(
            "use a capability that `nomad-csi volume status {in_namespace}` lists, or add it to the volume"
        ),
        ClaimDeniedReason::NodeFull { .. } | ClaimDeniedReason::Exhausted(_) => {
            "release other volumes of the plugin on the node, or use another node".to_owned()
        }
        ClaimDeniedReason::MaxClaims { .. }
        | ClaimDeniedReason::AttachmentMode
        | ClaimDeniedReason::OtherUsage(_) => Code::ClaimDenied.advice(),
    }
}
