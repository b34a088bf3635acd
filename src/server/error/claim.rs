//! Requests for claims that are refused or fail.

use http::StatusCode;

use crate::claim::{ClaimDenied, ClaimKey};
use crate::diagnostic::Code;
use crate::model::{AllocId, ExternalId, NamespacedId, NodeId, PluginId};

/// Why a request about a claim or a node fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimError {
    /// The claim is denied.
    Denied {
        /// The volume.
        volume: NamespacedId,
        /// The reason, and who is in the way.
        denied: Box<ClaimDenied>,
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
    /// The allocation has no claim of the volume.
    NoClaim {
        /// The volume.
        volume: NamespacedId,
        /// The allocation.
        alloc: AllocId,
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
    /// The request has an invalid field.
    Invalid(String),
    /// The node does not exist.
    UnknownNode(NodeId),
    /// The node is lost already, or is not lost.
    NodeState(String),
}

impl ClaimError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        match self {
            Self::Denied { .. } | Self::NoNodePlugin { .. } => {
                (Code::ClaimDenied, StatusCode::CONFLICT)
            }
            Self::Failed { .. } => (Code::ClaimFailed, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NoClaim { .. } => (Code::ClaimNotFound, StatusCode::NOT_FOUND),
            Self::OtherNode { .. }
            | Self::AllocEnded(_)
            | Self::NodeRequired
            | Self::AliasInUse { .. }
            | Self::Invalid(_) => (Code::ClaimInvalid, StatusCode::BAD_REQUEST),
            Self::UnknownNode(_) => (Code::NodeUnknown, StatusCode::NOT_FOUND),
            Self::NodeState(_) => (Code::NodeState, StatusCode::CONFLICT),
        }
    }

    /// Nomad's words where it has them, with what people need to know.
    pub(super) fn text(&self) -> String {
        self.message()
    }

    /// The message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Denied { volume, denied } => {
                let holders = denied.holders.iter().map(ToString::to_string);
                let holders: Vec<_> = holders.collect();
                let who = match holders.is_empty() {
                    true => String::new(),
                    false => format!(": {}", holders.join(", ")),
                };
                format!("cannot claim volume {}: {denied}{who}", volume.quoted())
            }
            Self::Failed {
                volume,
                alloc,
                error,
            } => format!(
                "cannot publish volume {} for allocation `{alloc}`: {error}",
                volume.quoted()
            ),
            Self::NoClaim { volume, alloc } => {
                format!(
                    "allocation `{alloc}` has no claim of volume {}",
                    volume.quoted()
                )
            }
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
            Self::NoNodePlugin {
                volume,
                plugin,
                node,
            } => format!(
                "cannot claim volume {}: plugin `{plugin}` is not healthy on node `{node}`",
                volume.quoted()
            ),
            Self::Invalid(problem) => problem.clone(),
            Self::UnknownNode(node) => format!("node `{node}` does not exist"),
            Self::NodeState(problem) => problem.clone(),
        }
    }
}
