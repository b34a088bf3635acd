//! Where an event stands in the journal.

/// Index and time of an event.
#[derive(Clone, Copy)]
pub(super) struct EventPosition {
    pub(super) index: u64,
    pub(super) time: i64,
}
