//! Creations that did not end: documents that only this program's agent has.

use serde::{Deserialize, Serialize};

/// A creation that did not end, as an entry of a list of volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CreationDocument {
    /// The index at which it began.
    pub create_index: u64,
    /// When it began, in nanoseconds since the epoch.
    pub create_time: i64,
    /// How far it is.
    pub creation: CreationStateDocument,
    /// The ID of the volume.
    #[serde(rename = "ID")]
    pub id: String,
    /// The index of its last request.
    pub modify_index: u64,
    /// When it was last requested, in nanoseconds since the epoch.
    pub modify_time: i64,
    /// The name of the volume.
    pub name: String,
    /// The namespace of the volume.
    pub namespace: String,
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// True if the volume can be used, which is always `false`.
    pub schedulable: bool,
}

/// How far a creation is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct CreationStateDocument {
    /// How often the agent tried in vain to continue it, since it started.
    pub failed_attempts: u32,
    /// When it is continued, in nanoseconds since the epoch; 0 when the plugin changes.
    pub next_attempt: i64,
    /// Why the last attempt failed; empty before the first one.
    pub problem: String,
    /// The name of the volume at the provider, if it was created.
    pub provider_name: String,
    /// How many different requests may have created the volume.
    pub requests: usize,
}

/// The response to giving up a creation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct GivenUpDocument {
    /// The plugin.
    #[serde(rename = "PluginID")]
    pub plugin_id: String,
    /// The name of a volume that the provider may have.
    pub provider_name: String,
}
