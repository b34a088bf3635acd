//! The history of a volume as an agent tells it.

/// An event in the history of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeEvent {
    /// The index of the event in the agent's journal.
    pub index: u64,
    /// When it was recorded, in nanoseconds since the epoch.
    pub time: i64,
    /// The event in the agent's words.
    pub text: String,
}
