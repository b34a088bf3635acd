//! A journal in memory with injected failures, which another server may follow.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use crate::journal::{
    Followed, FollowedJournal, Journal, JournalError, JournalErrorKind, NextSnapshot, Replay,
};
use nomad_csi_claims::state::{Event, SnapshotChanges, State, StateSnapshot};

/// A fault of one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendFault {
    /// Nothing is written, and an error is returned.
    NotWritten(JournalErrorKind),
    /// The events are written, and an error is returned, like a failed fsync.
    WrittenButFailed,
}

/// A journal in memory. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal(Arc<Mutex<Content>>);

#[derive(Debug)]
struct Content {
    snapshot: Option<StateSnapshot>,
    events: BTreeMap<u64, Event>,
    /// Events that a snapshot replaced.
    history: BTreeMap<u64, Event>,
    faults: VecDeque<AppendFault>,
    appends: Vec<usize>,
    snapshots: Vec<usize>,
    next_snapshot: NextSnapshot,
    wants_snapshot: bool,
    is_silent: bool,
    /// Whether answers to appends arrive.
    answers: watch::Sender<bool>,
}

impl MemoryJournal {
    /// Creates a journal with this content.
    pub fn with_content(replay: Replay) -> Self {
        let start = replay.snapshot.as_ref().map_or(FIRST, |s| s.numbers.index + 1);
        Self(Arc::new(Mutex::new(Content {
            events: (start..).zip(replay.events).collect(),
            snapshot: replay.snapshot,
            ..Content::default()
        })))
    }

    /// Makes the next appends fail, one per fault, in order.
    pub fn fail_next(&self, faults: impl IntoIterator<Item = AppendFault>) {
        self.content().faults.extend(faults);
    }

    /// Answers snapshots from now on with what the next one has to contain, and asks for snapshots before they are due.
    pub fn want_next(&self, next: NextSnapshot, wants_snapshot: bool) {
        let mut content = self.content();
        (content.next_snapshot, content.wants_snapshot) = (next, wants_snapshot);
    }

    /// Holds the answers to appends back, or lets them arrive.
    pub fn hold_answers(&self, are_held: bool) {
        self.content().answers.send_replace(!are_held);
    }

    /// Has what another journal has, as after a restore.
    pub fn become_copy_of(&self, other: &Self) {
        let (snapshot, events) = {
            let other = other.content();
            (other.snapshot.clone(), other.events.clone())
        };
        let mut content = self.content();
        (content.snapshot, content.events) = (snapshot, events);
        content.history.clear();
    }

    /// Does not answer a server that follows, or answers again.
    pub fn set_silent(&self, is_silent: bool) {
        self.content().is_silent = is_silent;
    }

    /// Forgets the faults that have not happened yet.
    pub fn accept(&self) {
        self.content().faults.clear();
    }

    /// Returns the number of faults that have not happened yet.
    pub fn faults_left(&self) -> usize {
        self.content().faults.len()
    }

    /// Returns the current content.
    pub fn replay(&self) -> Replay {
        let content = self.content();
        Replay {
            snapshot: content.snapshot.clone(),
            accepts_changes: content.snapshot.is_some(),
            events: content.events.values().cloned().collect(),
        }
    }

    /// Returns the number of events in each successful append, in order.
    pub fn append_sizes(&self) -> Vec<usize> {
        self.content().appends.clone()
    }

    /// Returns the number of objects in each snapshot that was written, in order.
    pub fn snapshot_sizes(&self) -> Vec<usize> {
        self.content().snapshots.clone()
    }

    /// Drops the events up to this index, as a journal does that keeps a bounded history.
    pub fn forget_events(&self, last: u64) {
        let mut content = self.content();
        content.history.retain(|index, _| *index > last);
        content.events.retain(|index, _| *index > last);
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock()
    }
}

impl Default for Content {
    fn default() -> Self {
        Self {
            snapshot: None,
            events: BTreeMap::new(),
            history: BTreeMap::new(),
            faults: VecDeque::new(),
            appends: vec![],
            snapshots: vec![],
            next_snapshot: NextSnapshot::Changes,
            wants_snapshot: false,
            is_silent: false,
            answers: watch::Sender::new(true),
        }
    }
}

const NAME: &str = "memory";

/// The index of the first event.
const FIRST: u64 = State::FIRST_INDEX + 1;

impl Content {
    fn next(&self) -> u64 {
        let after_events = self.events.keys().next_back().map(|last| last + 1);
        let after_snapshot = self.snapshot.as_ref().map(|s| s.numbers.index + 1);
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
        place: NAME.to_owned(),
        source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(reason)),
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn place(&self) -> String {
        NAME.to_owned()
    }

    fn wants_snapshot(&self) -> bool {
        self.content().wants_snapshot
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        Ok(self.replay())
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        // Lets other tasks run, as a disk write does.
        tokio::task::yield_now().await;
        let mut answers = {
            let mut content = self.content();
            match content.faults.pop_front() {
                None => content.write(first, &events)?,
                Some(AppendFault::NotWritten(kind)) => {
                    return Err(error(kind, "an injected fault"));
                }
                Some(AppendFault::WrittenButFailed) => {
                    content.write(first, &events)?;
                    let kind = JournalErrorKind::Unavailable;
                    return Err(error(kind, "an injected fault after the write"));
                }
            }
            content.appends.push(events.len());
            content.answers.subscribe()
        };
        answers.wait_for(|arrive| *arrive).await.ok();
        Ok(())
    }

    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        let content = self.content();
        let all = content.history.iter().chain(&content.events);
        let later = all.filter(|(index, _)| **index > after);
        let later = later.map(|(index, event)| (*index, event.clone()));
        Ok(later.take(limit).collect())
    }

    async fn write_snapshot(&self, changes: SnapshotChanges) -> Result<NextSnapshot, JournalError> {
        tokio::task::yield_now().await;
        let mut content = self.content();
        let later = content.events.split_off(&(changes.numbers.index + 1));
        let replaced = std::mem::replace(&mut content.events, later);
        content.history.extend(replaced);
        content.snapshots.push(changes.records.len());
        let before = content.snapshot.take();
        content.snapshot = Some(StateSnapshot::changed(before, changes));
        Ok(content.next_snapshot)
    }

    async fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

#[async_trait]
impl FollowedJournal for MemoryJournal {
    async fn head(&self) -> Result<u64, JournalError> {
        let content = self.content();
        match content.is_silent {
            true => Err(error(JournalErrorKind::Unavailable, "an injected silence")),
            false => Ok(content.next() - 1),
        }
    }

    async fn read_after(&self, after: u64) -> Result<Followed, JournalError> {
        match self.head().await? {
            head if head == after => Ok(Followed::Current),
            head if head < after => Ok(Followed::Gone),
            _ => {
                let events = self.read_events(after, usize::MAX).await?;
                let is_next = events.first().is_some_and(|(first, _)| *first == after + 1);
                let events = events.into_iter().map(|(_, event)| event).collect();
                Ok(if is_next { Followed::Events(events) } else { Followed::Gone })
            }
        }
    }
}
