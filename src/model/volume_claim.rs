//! Claims of volumes as a server shows them.

use super::id::{AllocId, ExternalId, NamespacedId, NodeId, PluginId, VolumeAlias};

/// The failure of the last step of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimProblem {
    /// The step: CSI's RPC.
    pub step: String,
    /// The error.
    pub error: String,
    /// The remedy; `None` if the agent repeats the step by itself.
    pub help: Option<String>,
    /// When it was first seen, in nanoseconds since the epoch.
    pub since: i64,
}

/// A claim: an allocation's hold on a volume. States and modes are the server's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeClaim {
    /// The volume.
    pub volume: NamespacedId,
    /// The allocation.
    pub alloc: AllocId,
    /// The name by which the allocation knows the volume.
    pub alias: VolumeAlias,
    /// The node.
    pub node: NodeId,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The provider's ID of the volume.
    pub external_id: ExternalId,
    /// The access mode.
    pub access_mode: String,
    /// The attachment mode.
    pub attachment_mode: String,
    /// True if the allocation only reads.
    pub read_only: bool,
    /// `publishing`, `published`, `cutting-off`, `unpublishing` or `detaching`.
    pub state: String,
    /// True if the target path can be used.
    pub is_published: bool,
    /// The target path on the node; empty until it is published.
    pub target_path: String,
    /// When the claim was granted, in nanoseconds since the epoch.
    pub granted_at: i64,
    /// How often the step that the claim waits for has failed.
    pub failed_attempts: u32,
    /// When that step is tried again, in nanoseconds since the epoch; `None` if it does not pause.
    pub next_attempt: Option<i64>,
    /// The failure of the last step.
    pub problem: Option<ClaimProblem>,
}

impl VolumeClaim {
    /// Returns whether the claim is given back, and the volume is being undone on its node.
    pub fn is_in_release(&self) -> bool {
        matches!(self.state.as_str(), "unpublishing" | "detaching")
    }
}
