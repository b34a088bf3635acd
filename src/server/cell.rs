//! [`StateCell`]: the only way to change the agent's state.
//!
//! A change is an [`Event`] with what its author [`Expected`] to find. One writer takes events from a
//! bounded queue, compares each with the state, appends those that fit to the journal in one durable
//! write, applies them, publishes the new index and answers. So everything that can be read is
//! durable, and an answered change survives a power failure. If the journal fails, all events of that
//! write fail, the state does not change, and the next change is tried normally.
//!
//! Two events about one volume or variable are never in one write. An event about neither is written
//! alone. Each event is therefore checked against exactly the state that it is applied to.
//!
//! Snapshots are written in the background once the journal is as long as the state is large. A
//! restart then replays about as much as it loads.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::{NamespacedId, VariableKey};
use crate::ports::{Journal, JournalError, JournalErrorKind};
use crate::state::{
    Event, EventConflict, Phase, ReplayError, State, StateSnapshot, apply, check, replay,
};

/// The state that a commit relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state that the event fits.
    Any,
    /// No record of that volume, in any phase.
    VolumeAbsent(NamespacedId),
    /// The record of that volume was last changed at this index.
    VolumeAt(NamespacedId, u64),
    /// That variable was last changed at this index; `None` if it does not exist.
    VariableAt(VariableKey, Option<u64>),
}

/// Why an event was not committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Another change came first. Read and decide again.
    #[error("volume {volume} has changed in the meantime")]
    Conflict {
        /// The volume.
        volume: NamespacedId,
        /// Its phase and the index of its last change; `None` without a record.
        found: Option<(Phase, u64)>,
    },
    /// Another change came first. Read and decide again.
    #[error("variable {variable} has changed in the meantime")]
    VariableConflict {
        /// The variable.
        variable: VariableKey,
    },
    /// The event does not fit the current volume or variable.
    #[error(transparent)]
    InvalidEvent(#[from] EventConflict),
    /// The journal could not store the event.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

impl CommitError {
    /// Returns the error with its cause, for a log.
    pub fn detail(&self) -> String {
        match self {
            Self::Journal(error) => format!("{error}: {}", error.source),
            Self::Conflict { .. }
            | Self::VariableConflict { .. }
            | Self::InvalidEvent(_)
            | Self::Stopping => self.to_string(),
        }
    }
}

/// Sizes of the cell. The defaults are for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellOptions {
    /// How many commits the queue holds.
    pub queue: usize,
    /// The largest number of events in one durable write.
    pub batch: usize,
    /// The number of events after which a snapshot is written. The number of volumes and variables
    /// applies if it is larger.
    pub snapshot_every: u64,
}

impl Default for CellOptions {
    fn default() -> Self {
        Self {
            queue: 1024,
            batch: 256,
            snapshot_every: 4096,
        }
    }
}

/// The state of the agent. A clone is the same cell.
#[derive(Clone)]
pub struct StateCell {
    state: Arc<RwLock<State>>,
    index: watch::Receiver<u64>,
    queue: mpsc::Sender<Commit>,
    journal: Arc<dyn Journal>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

struct Commit {
    expected: Expected,
    event: Event,
    reply: CommitReply,
}

type CommitReply = oneshot::Sender<Result<u64, CommitError>>;

/// Events to write from index `first` on, and the reply channel of each.
struct AcceptedBatch {
    first: u64,
    events: Vec<Event>,
    replies: Vec<CommitReply>,
}

impl StateCell {
    /// Loads the journal and starts the writer. Needs a running tokio runtime.
    ///
    /// # Errors
    /// If the journal cannot be read, or is inconsistent.
    pub async fn open(
        journal: Arc<dyn Journal>,
        options: CellOptions,
    ) -> Result<Self, JournalError> {
        let loaded = journal.load().await?;
        let tail = u64::try_from(loaded.events.len()).unwrap_or(u64::MAX);
        let state = replay(loaded.snapshot, loaded.events)
            .map_err(|error| inconsistent(journal.path(), error))?;
        let (publish, index) = watch::channel(state.index());
        let (queue, commits) = mpsc::channel(options.queue.max(1));
        let cell = Self {
            state: Arc::new(RwLock::new(state)),
            index,
            queue,
            journal: journal.clone(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let writer = Writer {
            state: cell.state.clone(),
            publish,
            journal,
            options,
            commits,
            postponed: VecDeque::new(),
            tasks: cell.tasks.clone(),
            snapshot: None,
            since_snapshot: tail,
        };
        cell.tasks.spawn(writer.run(cell.stop.clone()));
        cell.tasks.close();
        Ok(cell)
    }

    /// Commits an event and returns its index, which readers can see by then. Waits while the queue is
    /// full. A dropped future does not revoke the event: it may still be committed.
    ///
    /// # Errors
    /// If the expectation does not hold, the event does not fit, the journal fails, or the cell is
    /// stopping. The state is then unchanged. After a journal error, the event may still appear when
    /// the process restarts (see [`Journal::append`]).
    pub async fn commit(&self, expected: Expected, event: Event) -> Result<u64, CommitError> {
        let (answer, answered) = oneshot::channel();
        let commit = Commit {
            expected,
            event,
            reply: answer,
        };
        let sent = self.queue.send(commit).await;
        sent.map_err(|_| CommitError::Stopping)?;
        answered.await.unwrap_or(Err(CommitError::Stopping))
    }

    /// Reads the state. `read` blocks all changes, so it must be short: clone pointers, and encode
    /// documents afterwards.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the index of the last event that readers can see.
    pub fn index(&self) -> u64 {
        *self.index.borrow()
    }

    /// Wakes whenever the index changes. A woken reader sees at least that index.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.index.clone()
    }

    /// Refuses further commits, completes the waiting ones and closes the journal. The state can still
    /// be read afterwards.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
        if let Err(error) = self.journal.close().await {
            tracing::warn!(error = %error, reason = %error.source, "the journal was not closed cleanly; no data is lost");
        }
    }
}

fn inconsistent(path: &Path, error: ReplayError) -> JournalError {
    JournalError {
        kind: JournalErrorKind::Damaged,
        operation: "replay",
        path: path.to_owned(),
        source: Arc::new(error),
    }
}

struct Writer {
    state: Arc<RwLock<State>>,
    publish: watch::Sender<u64>,
    journal: Arc<dyn Journal>,
    options: CellOptions,
    commits: mpsc::Receiver<Commit>,
    /// Commits that need another write; older than everything in `commits`.
    postponed: VecDeque<Commit>,
    tasks: TaskTracker,
    /// Closes when the running snapshot is written.
    snapshot: Option<oneshot::Receiver<()>>,
    since_snapshot: u64,
}

impl Writer {
    async fn run(mut self, stop: CancellationToken) {
        while let Some(first) = self.next(&stop).await {
            let batch = self.batch(first);
            self.write(batch).await;
            self.snapshot_if_due();
        }
    }

    /// Returns the next commit; `None` once the cell has stopped. Commits that waited at the stop are
    /// still written.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Commit> {
        if let Some(commit) = self.postponed.pop_front() {
            return Some(commit);
        }
        tokio::select! {
            biased;
            () = stop.cancelled(), if !self.commits.is_closed() => {
                self.commits.close();
                self.commits.recv().await
            }
            commit = self.commits.recv() => commit,
        }
    }

    /// Returns `first` and the waiting commits that fit into one write with it. Commits of one volume
    /// or variable keep their order.
    fn batch(&mut self, first: Commit) -> Vec<Commit> {
        let mut subjects = HashSet::new();
        let is_alone = match first.event.kind.subject() {
            None => true,
            Some(subject) => !subjects.insert(subject),
        };
        let mut batch = vec![first];
        if is_alone {
            return batch;
        }
        let mut waiting = std::mem::take(&mut self.postponed);
        while batch.len() < self.options.batch && self.postponed.len() < self.options.batch {
            let Some(commit) = waiting.pop_front().or_else(|| self.commits.try_recv().ok()) else {
                break;
            };
            match commit.event.kind.subject() {
                Some(subject) if subjects.insert(subject.clone()) => batch.push(commit),
                Some(_) => self.postponed.push_back(commit),
                None => {
                    self.postponed.push_back(commit);
                    break;
                }
            }
        }
        self.postponed.append(&mut waiting);
        batch
    }

    async fn write(&mut self, batch: Vec<Commit>) {
        let AcceptedBatch {
            first,
            events,
            replies: answers,
        } = self.validate_batch(batch);
        if events.is_empty() {
            return;
        }
        let events: Arc<[Event]> = events.into();
        let written = self.journal.append(first, events.clone()).await;
        if let Err(error) = written {
            tracing::error!(error = %error, reason = %error.source, "the journal failed; no change was committed");
            for answer in answers {
                answer.send(Err(error.clone().into())).ok();
            }
            return;
        }
        let last = self.apply(&events);
        self.publish.send_replace(last);
        self.since_snapshot += last + 1 - first;
        for (index, answer) in (first..).zip(answers) {
            answer.send(Ok(index)).ok();
        }
    }

    /// Refuses the commits that do not fit, and numbers the others.
    fn validate_batch(&self, batch: Vec<Commit>) -> AcceptedBatch {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut accepted = AcceptedBatch {
            first: state.index() + 1,
            events: Vec::with_capacity(batch.len()),
            replies: Vec::with_capacity(batch.len()),
        };
        for commit in batch {
            match check_commit(&state, &commit) {
                Ok(()) => {
                    accepted.events.push(commit.event);
                    accepted.replies.push(commit.reply);
                }
                Err(refusal) => {
                    commit.reply.send(Err(refusal)).ok();
                }
            }
        }
        accepted
    }

    fn apply(&self, events: &[Event]) -> u64 {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            apply(&mut state, event);
        }
        state.index()
    }

    fn snapshot_if_due(&mut self) {
        if let Some(running) = &mut self.snapshot
            && matches!(running.try_recv(), Err(oneshot::error::TryRecvError::Empty))
        {
            return;
        }
        let snapshot = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let records = state.records().len() + state.variables().len();
            let records = u64::try_from(records).unwrap_or(u64::MAX);
            if self.since_snapshot < self.options.snapshot_every.max(records) {
                return;
            }
            StateSnapshot::from(&*state)
        };
        self.since_snapshot = 0;
        let journal = self.journal.clone();
        let (done, running) = oneshot::channel();
        self.snapshot = Some(running);
        self.tasks.spawn(async move {
            let index = snapshot.index;
            if let Err(error) = journal.write_snapshot(snapshot).await {
                tracing::warn!(index, error = %error, reason = %error.source, "the snapshot was not written; the journal grows until the next one");
            }
            done.send(()).ok();
        });
    }
}

fn check_commit(state: &State, commit: &Commit) -> Result<(), CommitError> {
    let (volume, wanted) = match &commit.expected {
        Expected::Any => return Ok(check(state, &commit.event)?),
        Expected::VolumeAbsent(key) => (key, None),
        Expected::VolumeAt(key, index) => (key, Some(*index)),
        Expected::VariableAt(key, index) => {
            let found = state.variable(key).map(|record| record.modify_index);
            if found == *index {
                return Ok(check(state, &commit.event)?);
            }
            let variable = key.clone();
            return Err(CommitError::VariableConflict { variable });
        }
    };
    let found = state.record(volume);
    let found = found.map(|record| (record.phase, record.modify_index));
    if found.map(|(_, index)| index) != wanted {
        let volume = volume.clone();
        return Err(CommitError::Conflict { volume, found });
    }
    Ok(check(state, &commit.event)?)
}

#[cfg(test)]
mod tests;
