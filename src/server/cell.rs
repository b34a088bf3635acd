//! `StateCell`: the only one that changes what the agent remembers.
//!
//! Whoever wants a change commits an [`Event`] together with what he [`Expected`] to find. One writer
//! takes events from a bounded queue, checks each against the state (compare-and-set, W08), appends
//! those that fit to the journal in one durable write for all of them, applies them, publishes the
//! new index, and answers. So whatever can be read is durable, and a change that was answered with
//! an index survives the loss of power. If the journal fails, everyone in that write gets the error,
//! the state stays as it was, and the next change is tried anew.
//!
//! Events about one volume or variable are never in one write together, nor is an event about no
//! single one with any other: each is checked against the state that it will be applied to.
//!
//! Snapshots are taken beside all this, when the journal has become as long as the state is large,
//! so that a restart replays at most about as much as it loads.

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::model::{NamespacedId, VariableKey};
use crate::ports::{Journal, JournalError, JournalErrorKind};
use crate::state::{Event, Misfit, Phase, ReplayError, State, StateSnapshot, apply, check, replay};

/// What the one who commits has seen, and relies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Nothing but that the event fits.
    Any,
    /// There is no record of that volume, in no phase.
    VolumeAbsent(NamespacedId),
    /// The record of that volume was last changed at this index.
    VolumeAt(NamespacedId, u64),
    /// That variable was last changed at this index; `None` if it is not there.
    VariableAt(VariableKey, Option<u64>),
}

/// An event was not committed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// Another change came first: read again and decide again.
    #[error("volume {volume} has changed meanwhile")]
    Conflict {
        /// The volume that was expected otherwise.
        volume: NamespacedId,
        /// Its phase and the index of its last change; `None` if there is none.
        found: Option<(Phase, u64)>,
    },
    /// Another change came first: read again and decide again.
    #[error("variable {variable} has changed meanwhile")]
    VariableConflict {
        /// The variable that was expected otherwise.
        variable: VariableKey,
    },
    /// The event cannot happen to the volume or variable as it is now.
    #[error(transparent)]
    Misfit(#[from] Misfit),
    /// It could not be made durable.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The agent is stopping.
    #[error("the agent is stopping")]
    Stopping,
}

impl CommitError {
    /// What failed and why, for a log.
    pub fn in_full(&self) -> String {
        match self {
            Self::Journal(error) => format!("{error}: {}", error.source),
            Self::Conflict { .. }
            | Self::VariableConflict { .. }
            | Self::Misfit(_)
            | Self::Stopping => self.to_string(),
        }
    }
}

/// Sizes; the defaults are for production.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellOptions {
    /// How many commits wait before the next one has to wait for a place.
    pub queue: usize,
    /// How many events one durable write has at most.
    pub batch: usize,
    /// A snapshot is taken after this many events, or as many as there are volumes and variables if
    /// those are more.
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

/// What the agent remembers. A clone is the same cell.
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
    answer: Answer,
}

type Answer = oneshot::Sender<Result<u64, CommitError>>;

/// What is about to be written: events from index `first` on, and where to answer each.
struct Admitted {
    first: u64,
    events: Vec<Event>,
    answers: Vec<Answer>,
}

impl StateCell {
    /// Loads the journal and starts the writer. Needs a running tokio runtime.
    ///
    /// # Errors
    /// If the journal cannot be read, or contradicts itself.
    pub async fn open(
        journal: Arc<dyn Journal>,
        options: CellOptions,
    ) -> Result<Self, JournalError> {
        let loaded = journal.load().await?;
        let tail = u64::try_from(loaded.events.len()).unwrap_or(u64::MAX);
        let state = replay(loaded.snapshot, loaded.events)
            .map_err(|error| contradiction(journal.path(), error))?;
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

    /// Commits an event and returns its index, which readers see by then. Waits if the queue is full.
    ///
    /// Giving up waiting does not take the event back: it may be committed or not.
    ///
    /// # Errors
    /// If what was expected does not hold, if the event does not fit, if it cannot be made durable,
    /// or if the cell is stopping. Nothing has changed then; after a journal error and the end of the
    /// process the event may still turn up (see [`Journal::append`]).
    pub async fn commit(&self, expected: Expected, event: Event) -> Result<u64, CommitError> {
        let (answer, answered) = oneshot::channel();
        let commit = Commit {
            expected,
            event,
            answer,
        };
        let sent = self.queue.send(commit).await;
        sent.map_err(|_| CommitError::Stopping)?;
        answered.await.unwrap_or(Err(CommitError::Stopping))
    }

    /// Looks at the state. Nothing changes while `look` runs, so it is to be short: take pointers and
    /// make documents of them afterwards.
    pub fn read<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Index of the last event that readers can see.
    pub fn index(&self) -> u64 {
        *self.index.borrow()
    }

    /// Wakes whenever the index moves. A reader who is woken sees at least that index.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.index.clone()
    }

    /// Takes no further commits, ends those that are waiting, and returns when all is done and the
    /// journal is closed. The state can still be read.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
        if let Err(error) = self.journal.close().await {
            tracing::warn!(error = %error, reason = %error.source, "the journal was not closed well; nothing of it is lost");
        }
    }
}

fn contradiction(path: &Path, error: ReplayError) -> JournalError {
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
    /// Arrived, and waiting for a write of their own; older than everything in `commits`.
    postponed: VecDeque<Commit>,
    tasks: TaskTracker,
    /// Ends when the snapshot that is being written is.
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

    /// The next commit; `None` when there will be none any more. After a stop, what is waiting is
    /// still done.
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

    /// `first`, and what is waiting and can go with it, in the order of arrival as far as each volume
    /// and variable is concerned.
    fn batch(&mut self, first: Commit) -> Vec<Commit> {
        let mut subjects = HashSet::new();
        let alone = match first.event.kind.subject() {
            None => true,
            Some(subject) => !subjects.insert(subject),
        };
        let mut batch = vec![first];
        if alone {
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
        let Admitted {
            first,
            events,
            answers,
        } = self.admit(batch);
        if events.is_empty() {
            return;
        }
        let events: Arc<[Event]> = events.into();
        let written = self.journal.append(first, events.clone()).await;
        if let Err(error) = written {
            tracing::error!(error = %error, reason = %error.source, "nothing can be committed");
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

    /// Answers those that do not fit, and numbers the others.
    fn admit(&self, batch: Vec<Commit>) -> Admitted {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let mut admitted = Admitted {
            first: state.index() + 1,
            events: Vec::with_capacity(batch.len()),
            answers: Vec::with_capacity(batch.len()),
        };
        for commit in batch {
            match admissible(&state, &commit) {
                Ok(()) => {
                    admitted.events.push(commit.event);
                    admitted.answers.push(commit.answer);
                }
                Err(refusal) => {
                    commit.answer.send(Err(refusal)).ok();
                }
            }
        }
        admitted
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
                tracing::warn!(index, error = %error, reason = %error.source, "no snapshot was taken; the journal grows until one is");
            }
            done.send(()).ok();
        });
    }
}

fn admissible(state: &State, commit: &Commit) -> Result<(), CommitError> {
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
