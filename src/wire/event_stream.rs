//! The lines of Nomad's event stream.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of the stream: the events of one index. A line without events is a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventBatchDocument {
    /// Why the server ends the stream, on its last line. Nomad's clients skip such a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The events.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventDocument>,
    /// The index; 0 on a line without events.
    #[serde(skip_serializing_if = "is_zero")]
    pub index: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(index: &u64) -> bool {
    *index == 0
}

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct EventDocument {
    /// Other names by which a topic can name the object.
    pub filter_keys: Option<Vec<String>>,
    /// The index of the event.
    pub index: u64,
    /// The ID of the object.
    pub key: String,
    /// The namespace of the object; empty for nodes and plugins.
    pub namespace: String,
    /// The object, under the name of its kind.
    pub payload: Value,
    /// The kind of object.
    pub topic: String,
    /// The event.
    #[serde(rename = "Type")]
    pub event_type: String,
}
