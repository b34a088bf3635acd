//! The state of a task and its events, in an allocation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A task as its node reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskStateDocument {
    /// The newest events, oldest first.
    pub events: Vec<TaskEventDocument>,
    /// True if it failed for good.
    pub failed: bool,
    /// The time of the end, or `null`.
    pub finished_at: Option<String>,
    /// The time of the last restart, or `null`.
    pub last_restart: Option<String>,
    /// How often it was restarted.
    pub restarts: u64,
    /// The time of the first start, or `null`.
    pub started_at: Option<String>,
    /// `pending`, `running` or `dead`.
    pub state: String,
}

/// Something that happened to a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct TaskEventDocument {
    /// The details that programs read, such as `exit_code`.
    pub details: BTreeMap<String, String>,
    /// A description of the event, for people.
    pub display_message: String,
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// The kind, such as `Started` or `Setup Failure`.
    #[serde(rename = "Type")]
    pub event_type: String,
}
