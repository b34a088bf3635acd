//! The steps from a claim to a target path and back.

use serde::{Deserialize, Serialize};

use super::key::ClaimKey;
use nomad_csi_model::NodeId;

/// One thing to do for a volume. A step that calls a plugin is recorded as started before the call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// ControllerPublishVolume for a node.
    ControllerPublish(NodeId),
    /// NodeStageVolume on a node.
    NodeStage(NodeId),
    /// NodePublishVolume for a claim.
    NodePublish(ClaimKey),
    /// NodeExpandVolume on a node that uses a volume whose provider has expanded it (W17).
    NodeExpand(NodeId),
    /// NodeUnpublishVolume for a claim.
    NodeUnpublish(ClaimKey),
    /// NodeUnstageVolume on a node.
    NodeUnstage(NodeId),
    /// ControllerUnpublishVolume for a node.
    ControllerUnpublish(NodeId),
    /// Gives up what a lost node has, without a call.
    AssumeNodeGone(NodeId),
    /// Undoes what a node that returned still has of the volume.
    Sweep(NodeId),
    /// Removes a claim of which nothing is left.
    Release(ClaimKey),
}

/// The effect in the outside world that a step makes or undoes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// The volume is attached to the node.
    Attached(NodeId),
    /// The volume is staged on the node.
    Staged(NodeId),
    /// The volume is published for the claim.
    Published(ClaimKey),
}

/// The calls of which at most one may run at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallLock {
    /// The controller's calls for the volume.
    Controller,
    /// The calls for the volume on one node.
    Node(NodeId),
}

impl Step {
    /// Returns the call lock of the step's call; `None` for a step without a call.
    ///
    /// `node_of` returns the node of a claim.
    pub fn call_lock(&self, node_of: impl FnOnce(&ClaimKey) -> Option<NodeId>) -> Option<CallLock> {
        match self {
            Self::ControllerPublish(_) | Self::ControllerUnpublish(_) => Some(CallLock::Controller),
            Self::NodeStage(node)
            | Self::NodeUnstage(node)
            | Self::NodeExpand(node)
            | Self::Sweep(node) => Some(CallLock::Node(node.clone())),
            Self::NodePublish(key) | Self::NodeUnpublish(key) => node_of(key).map(CallLock::Node),
            Self::AssumeNodeGone(_) | Self::Release(_) => None,
        }
    }

    /// Returns the effect that the step makes or undoes.
    pub fn effect(&self) -> Option<Effect> {
        match self {
            Self::ControllerPublish(node) | Self::ControllerUnpublish(node) => {
                Some(Effect::Attached(node.clone()))
            }
            Self::NodeStage(node) | Self::NodeUnstage(node) => Some(Effect::Staged(node.clone())),
            Self::NodePublish(key) | Self::NodeUnpublish(key) => {
                Some(Effect::Published(key.clone()))
            }
            Self::NodeExpand(_) | Self::AssumeNodeGone(_) | Self::Sweep(_) | Self::Release(_) => {
                None
            }
        }
    }

    /// Returns whether the step leads towards a target path.
    pub fn is_setup(&self) -> bool {
        match self {
            Self::ControllerPublish(_) | Self::NodeStage(_) | Self::NodePublish(_) => true,
            Self::NodeExpand(_)
            | Self::NodeUnpublish(_)
            | Self::NodeUnstage(_)
            | Self::ControllerUnpublish(_)
            | Self::AssumeNodeGone(_)
            | Self::Sweep(_)
            | Self::Release(_) => false,
        }
    }

    /// Returns the name for people: CSI's RPC, or what the agent does.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ControllerPublish(_) => "ControllerPublishVolume",
            Self::NodeStage(_) => "NodeStageVolume",
            Self::NodePublish(_) => "NodePublishVolume",
            Self::NodeExpand(_) => "NodeExpandVolume",
            Self::NodeUnpublish(_) => "NodeUnpublishVolume",
            Self::NodeUnstage(_) => "NodeUnstageVolume",
            Self::ControllerUnpublish(_) => "ControllerUnpublishVolume",
            Self::AssumeNodeGone(_) => "give up the lost node",
            Self::Sweep(_) => "sweep the node",
            Self::Release(_) => "release the claim",
        }
    }
}
