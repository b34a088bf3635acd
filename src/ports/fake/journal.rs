//! A journal in memory, that can fail in the ways a real one can.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::ports::journal::{Journal, JournalError, JournalErrorKind, Replay};
use crate::state::{Event, State, StateSnapshot};

/// What goes wrong with one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// Nothing is written, and an error is returned.
    Refused(JournalErrorKind),
    /// It is written, and an error is returned all the same: an fsync that failed afterwards.
    WrittenButFailed,
}

/// A journal that lives as long as its value. A clone is the same journal, so that an agent can be
/// started on it again.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    snapshot: Option<StateSnapshot>,
    events: BTreeMap<u64, Event>,
    faults: VecDeque<AppendFault>,
    appends: Vec<usize>,
    snapshots: u64,
}

impl MemoryJournal {
    /// A journal that holds that.
    pub fn holding(replay: Replay) -> Self {
        let start = replay.snapshot.as_ref().map_or(FIRST, |s| s.index + 1);
        Self(Arc::new(Mutex::new(Content {
            events: (start..).zip(replay.events).collect(),
            snapshot: replay.snapshot,
            ..Content::default()
        })))
    }

    /// The next appends go wrong in this way, one each, in order.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = AppendFault>) {
        self.content().faults.extend(faults);
    }

    /// How many appends have yet to go wrong.
    pub fn faults_left(&self) -> usize {
        self.content().faults.len()
    }

    /// What it holds now.
    pub fn replay(&self) -> Replay {
        let content = self.content();
        Replay {
            snapshot: content.snapshot.clone(),
            events: content.events.values().cloned().collect(),
        }
    }

    /// How many events each successful append had, in order.
    pub fn append_sizes(&self) -> Vec<usize> {
        self.content().appends.clone()
    }

    /// How many snapshots were written.
    pub fn snapshot_count(&self) -> u64 {
        self.content().snapshots
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const NAME: &str = "memory";

/// The first event's index.
const FIRST: u64 = State::FIRST_INDEX + 1;

impl Content {
    fn next(&self) -> u64 {
        let after_events = self.events.keys().next_back().map(|last| last + 1);
        let after_snapshot = self.snapshot.as_ref().map(|s| s.index + 1);
        after_events.max(after_snapshot).unwrap_or(FIRST)
    }

    fn write(&mut self, first: u64, events: &[Event]) -> Result<(), JournalError> {
        self.events.split_off(&first);
        if self.next() != first {
            return Err(error(JournalErrorKind::Damaged, "a gap between events"));
        }
        self.events.extend((first..).zip(events.iter().cloned()));
        Ok(())
    }
}

fn error(kind: JournalErrorKind, reason: &'static str) -> JournalError {
    JournalError {
        kind,
        operation: "append to",
        path: PathBuf::from(NAME),
        source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(reason)),
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn path(&self) -> &Path {
        Path::new(NAME)
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        Ok(self.replay())
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        // Others run first, as they do while a disk writes.
        tokio::task::yield_now().await;
        let mut content = self.content();
        match content.faults.pop_front() {
            None => content.write(first, &events)?,
            Some(AppendFault::Refused(kind)) => return Err(error(kind, "as the test asked")),
            Some(AppendFault::WrittenButFailed) => {
                content.write(first, &events)?;
                let kind = JournalErrorKind::Unavailable;
                return Err(error(kind, "written, and failed as the test asked"));
            }
        }
        content.appends.push(events.len());
        Ok(())
    }

    async fn write_snapshot(&self, snapshot: StateSnapshot) -> Result<(), JournalError> {
        tokio::task::yield_now().await;
        let mut content = self.content();
        content.events = content.events.split_off(&(snapshot.index + 1));
        content.snapshot = Some(snapshot);
        content.snapshots += 1;
        Ok(())
    }

    async fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}
