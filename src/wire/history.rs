//! The history of a volume: documents that only this program's agent has.

use serde::{Deserialize, Serialize};

/// An event in the history of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VolumeEventDocument {
    /// The name of the event, the same for all events of its kind.
    pub event: String,
    /// The index of the event in the journal.
    pub index: u64,
    /// A description of the event, for people.
    pub text: String,
    /// When it was recorded, in nanoseconds since the epoch.
    pub time: i64,
}
