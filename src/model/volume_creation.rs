//! Creations that did not end, as a server shows them.

use super::id::{NamespacedId, PluginId};

/// A creation without an answer: the provider may have the volume, and it is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeCreation {
    /// The volume.
    pub volume: NamespacedId,
    /// The plugin.
    pub plugin_id: PluginId,
    /// The name of the volume at the provider, if it was created.
    pub provider_name: String,
    /// How many different requests may have created it.
    pub requests: usize,
    /// When it began, in nanoseconds since the epoch.
    pub since: i64,
    /// How often the agent tried in vain to continue it.
    pub failed_attempts: u32,
    /// When it is continued, in nanoseconds since the epoch; `None` when the plugin changes.
    pub next_attempt: Option<i64>,
    /// Why the last attempt failed; `None` before the first one.
    pub problem: Option<String>,
}
