//! Claims of volumes: documents that only this program's agent has.

use serde::{Deserialize, Serialize};

use super::volume::MountOptionsDocument;

/// The body of a request to use a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClaimRequestDocument {
    /// The access mode; empty for that in force, or the first that fits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub access_mode: String,
    /// The name by which the allocation knows the volume; empty for the volume's ID.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
    /// The allocation.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// The attachment mode; empty for that in force, or the first that fits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub attachment_mode: String,
    /// Mount options that override the volume's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_options: Option<MountOptionsDocument>,
    /// The node; empty for the allocation's, or the only one.
    #[serde(rename = "NodeID", skip_serializing_if = "String::is_empty")]
    pub node_id: String,
    /// True if the allocation only reads.
    pub read_only: bool,
    /// The longest time to wait until the volume is published, as a Go duration; empty for 30 s.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub wait: String,
}

/// The failure of the last step of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClaimProblemDocument {
    /// The error.
    pub error: String,
    /// The remedy; empty if the agent repeats the step by itself.
    pub help: String,
    /// When it was first seen, in nanoseconds since the epoch.
    pub since: i64,
    /// The step: CSI's RPC.
    pub step: String,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ClaimDocument {
    /// The access mode.
    pub access_mode: String,
    /// The name by which the allocation knows the volume.
    pub alias: String,
    /// The allocation.
    #[serde(rename = "AllocID")]
    pub alloc_id: String,
    /// The state of the attachment to the node: `no`, `maybe` or `yes`.
    pub attached: String,
    /// The attachment mode.
    pub attachment_mode: String,
    /// The provider's ID of the volume.
    #[serde(rename = "ExternalID")]
    pub external_id: String,
    /// How often the step that the claim waits for has failed since it was due; 0 if it did not fail.
    pub failed_attempts: u32,
    /// When the claim was granted, in nanoseconds since the epoch.
    pub granted_at: i64,
    /// The namespace of the volume.
    pub namespace: String,
    /// When the step that failed is tried again, in nanoseconds since the epoch; 0 if no step pauses.
    pub next_attempt: i64,
    /// The node.
    #[serde(rename = "NodeID")]
    pub node_id: String,
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The failure of the last step; `null` if it succeeded.
    pub problem: Option<ClaimProblemDocument>,
    /// The state of the publication for the claim: `no`, `maybe` or `yes`.
    pub published: String,
    /// True if the allocation only reads.
    pub read_only: bool,
    /// The state of the staging on the node: `no`, `maybe` or `yes`.
    pub staged: String,
    /// `publishing`, `published`, `cutting-off`, `unpublishing` or `detaching`.
    pub state: String,
    /// The target path on the node; empty until it is published.
    pub target_path: String,
    /// The volume.
    #[serde(rename = "VolumeID")]
    pub volume_id: String,
}

/// The response to a release or a detach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct ReleaseResponse {
    /// How many claims are still being released.
    pub remaining: usize,
}
