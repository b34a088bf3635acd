//! The memory that outlives the process.
//!
//! A journal holds events in the order in which they were committed, each under its index, and at
//! most one snapshot that stands for all events up to its own index. It knows nothing of what events
//! mean. There is one writer, `server::cell`; a second one is kept away by `store::lock`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::diagnostic::Code;
use crate::state::{Event, StateSnapshot};

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replay {
    /// Stands for all events up to its index.
    pub snapshot: Option<StateSnapshot>,
    /// The events after it, in order and without a gap.
    pub events: Vec<Event>,
}

/// What kind of failure, as far as a person would act differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JournalErrorKind {
    /// There is no room left. It works again as soon as there is.
    DiskFull,
    /// The operating system failed, or the file cannot be opened.
    Unavailable,
    /// Another process holds it.
    InUse,
    /// What is there was not written by this program, or has changed since.
    Damaged,
    /// What is there was written by a later version of this program.
    TooNew,
}

impl JournalErrorKind {
    /// The code that stands for it.
    pub const fn code(self) -> Code {
        match self {
            Self::DiskFull => Code::JournalDiskFull,
            Self::Unavailable => Code::JournalUnavailable,
            Self::InUse => Code::JournalInUse,
            Self::Damaged => Code::JournalDamaged,
            Self::TooNew => Code::JournalTooNew,
        }
    }
}

/// A journal could not do what it was asked. Nothing of it was done in part.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {operation} the agent's journal {}", path.display())]
pub struct JournalError {
    /// What kind of failure.
    pub kind: JournalErrorKind,
    /// What was tried: `append to`, `read`, `open`.
    pub operation: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The reason, in the words of whatever failed.
    #[source]
    pub source: Arc<dyn std::error::Error + Send + Sync>,
}

/// Keeps events and snapshots.
#[async_trait]
pub trait Journal: Send + Sync {
    /// Where it is, for people.
    fn path(&self) -> &Path;

    /// All of it.
    ///
    /// # Errors
    /// Also if anything in it is torn, damaged, missing in between or of a later version: what
    /// cannot be read for certain is not read at all.
    async fn load(&self) -> Result<Replay, JournalError>;

    /// Adds events, the first of which has index `first`. When this returns they survive the loss of
    /// power. All are added or none.
    ///
    /// What stands at `first` and behind it is replaced: that was never acknowledged, so nobody
    /// relies on it. It can be there after an earlier error, if the failure came between writing and
    /// knowing; if the process ends before the next append, it turns up at the next load, whole.
    ///
    /// # Errors
    /// Also if `first` does not follow the last event.
    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError>;

    /// Takes a snapshot of a state that consists of acknowledged events, and drops the events that it
    /// stands for. Appends may go on meanwhile. Interrupted at any point, it leaves the earlier
    /// snapshot and its events, or the new one; what is left over is dropped by the next one.
    ///
    /// # Errors
    /// The journal is as good as before then.
    async fn write_snapshot(&self, snapshot: StateSnapshot) -> Result<(), JournalError>;

    /// Lets go of the file, so that another process may open it; what is under way is finished first.
    /// Another call opens it again.
    ///
    /// # Errors
    /// What was acknowledged is durable all the same.
    async fn close(&self) -> Result<(), JournalError>;
}
