//! The agent's durable state.
//!
//! A journal stores committed events in order, each under its index, and at most one snapshot that
//! replaces all events up to its own index. The newest of the replaced events stay for a while as
//! history, which no start reads. It does not interpret events. `server::cell` is its only
//! writer; `store::lock` keeps other processes out.

use std::sync::Arc;

use async_trait::async_trait;

use nomad_csi_claims::state::{Event, SnapshotChanges, StateSnapshot};
use nomad_csi_model::diagnostic::Code;

/// The content of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Replaces all events up to its index.
    pub snapshot: Option<StateSnapshot>,
    /// True if the next snapshot may contain only what changed since this one.
    pub accepts_changes: bool,
    /// The events after the snapshot, in order and without gaps.
    pub events: Vec<Event>,
}

/// The kind of a journal failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JournalErrorKind {
    /// The disk is full. The journal works again when there is free space.
    DiskFull,
    /// The operating system returned an error, or the file cannot be opened.
    Unavailable,
    /// Another process has the journal open.
    InUse,
    /// Another program wrote the content, or the content is damaged.
    Damaged,
    /// A later version of this program wrote the content.
    TooNew,
    /// The database in which the journal is has no space for it.
    EtcdFull,
    /// Another server leads: nothing was written, and nothing will be.
    NotLeader,
    /// The leadership ended while a write was under way: whether it is stored cannot be known here.
    OutcomeUnknown,
}

impl JournalErrorKind {
    /// Returns the code of this kind.
    pub const fn code(self) -> Code {
        match self {
            Self::DiskFull => Code::JournalDiskFull,
            Self::Unavailable => Code::JournalUnavailable,
            Self::InUse => Code::JournalInUse,
            Self::Damaged => Code::JournalDamaged,
            Self::TooNew => Code::JournalTooNew,
            Self::EtcdFull => Code::JournalEtcdFull,
            Self::NotLeader => Code::JournalNotLeader,
            // A client looks for what became of its change, as after a lost answer.
            Self::OutcomeUnknown => Code::ApiOutcomeUnknown,
        }
    }
}

/// A journal operation failed and changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} the agent's journal `{place}`")]
pub struct JournalError {
    /// The kind of failure.
    pub kind: JournalErrorKind,
    /// The failed operation: `append to`, `read`, `open`.
    pub operation: &'static str,
    /// Where the journal is: see [`Journal::place`].
    pub place: String,
    /// The underlying error.
    #[source]
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

/// What the next snapshot has to contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextSnapshot {
    /// Everything.
    Complete,
    /// What changed since this one, or everything.
    Changes,
}

/// Stores events and snapshots.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns where the journal is, for messages: the path of its file, or the address of its database.
    fn place(&self) -> String;

    /// Reads the whole journal.
    ///
    /// # Errors
    /// Fails if any part is torn, damaged, missing or of a later version. Returns no partial content.
    async fn load(&self) -> Result<Replay, JournalError>;

    /// Appends all events or none; the first has index `first`. On success they survive a power
    /// failure.
    ///
    /// A journal of one process replaces existing events from `first` on. Those were never acknowledged: an
    /// earlier append wrote them and then returned an error. If the process exits before the next append, the next
    /// load returns them completely. A journal that several servers read returns no error after which the events may be
    /// stored, except [`OutcomeUnknown`](JournalErrorKind::OutcomeUnknown), and accepts nothing after that.
    ///
    /// # Errors
    /// Fails if `first` does not follow the last event.
    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError>;

    /// Returns up to `limit` events after this index, with their indexes, in order. Those that a snapshot
    /// replaced may be gone: then the first one that is left is the first.
    ///
    /// # Errors
    /// Fails if an event cannot be read.
    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError>;

    /// Writes a snapshot of acknowledged events and deletes the events that it replaces, except the
    /// newest of them. It has
    /// everything, or every change since the last snapshot that was written without an error. Appends
    /// may run at the same time, and each waits for a small part of it at most. After a crash the
    /// journal has either the old snapshot and its events, or the new one. Later snapshots remove
    /// leftovers. Returns what the next one has to contain.
    ///
    /// # Errors
    /// After an error the old snapshot or the new one is valid. The next snapshot must contain these
    /// changes too.
    async fn write_snapshot(&self, changes: SnapshotChanges) -> Result<NextSnapshot, JournalError>;

    /// Returns whether the disk is full, as far as the journal knows. Events that grow the state are then refused, and
    /// others are recorded with space that was kept for them.
    fn is_full(&self) -> bool {
        false
    }

    /// Returns whether a snapshot would free space that is short. It is then written before it is due.
    fn wants_snapshot(&self) -> bool {
        false
    }

    /// Finishes the current operation and closes the file, so that another process can open it. The
    /// next call opens the file again.
    ///
    /// # Errors
    /// Acknowledged events are durable even after an error.
    async fn close(&self) -> Result<(), JournalError>;
}

/// What a journal has after an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Followed {
    /// Nothing yet.
    Current,
    /// The next events.
    Events(Vec<Event>),
    /// Not the next event, or not even that one: everything must be read again.
    Gone,
}

/// The journal of a server that leads, as another one reads it.
#[async_trait]
pub trait FollowedJournal: Journal {
    /// Returns the index of the last event. Every event that was acknowledged before this call is up to there.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn head(&self) -> Result<u64, JournalError>;

    /// Returns what is after this index, which is that of the last event of [`Journal::load`] or of an earlier answer.
    ///
    /// # Errors
    /// If it cannot be read.
    async fn read_after(&self, after: u64) -> Result<Followed, JournalError>;
}
