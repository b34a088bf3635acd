//! [`StateCell`]: the only way to change the agent's state.
//!
//! A commit is one or more [`Event`]s with what their author [`Expected`] to find. One writer takes
//! commits from a bounded queue, decides about each after those before it, appends the events of those
//! that fit to the journal in one durable write, applies them, wakes the readers of what changed, and answers. So
//! everything that can be read is durable, and an answered change survives a power failure. If the
//! journal fails, all commits of that write fail, the state does not change, and the next commit is
//! tried normally.
//!
//! The events of a commit are always in one write, which a crash keeps or loses completely.
//!
//! Snapshots are written in the background (`snapshots`), which limits the replay of a restart.

use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::commit::{Commit, CommitError, Expected};
use super::options::CellOptions;
use super::snapshots::Snapshots;
use super::state_limits::StateSizes;
use super::watch::{CellStopped, Watch, Watches};
use super::writer::Writer;
use crate::journal::{Journal, JournalError, JournalErrorKind};
use nomad_csi_claims::state::{Event, ReplayError, State, Topic, replay_changes};

/// The state of the agent. Clones share their state.
#[derive(Clone)]
pub struct StateCell {
    pub(super) state: Arc<RwLock<State>>,
    pub(super) watches: Watches,
    queue: mpsc::Sender<Vec<Commit>>,
    journal: Arc<dyn Journal>,
    /// How often a write began or ended: odd while one is under way.
    writes: watch::Receiver<u64>,
    pub(super) stop: CancellationToken,
    pub(super) tasks: TaskTracker,
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
        let (state, changed) = replay_changes(loaded.snapshot, loaded.events)
            .map_err(|error| inconsistent(journal.place(), error))?;
        let sizes = StateSizes::of(&state);
        let (cell, commits, writing) = Self::of(state, journal.clone(), options.queue);
        let writer = Writer {
            state: cell.state.clone(),
            watches: cell.watches.clone(),
            snapshots: Snapshots {
                journal: journal.clone(),
                tasks: cell.tasks.clone(),
                every: options.snapshot_every,
                events: tail,
                changed: loaded.accepts_changes.then_some(changed),
                running: None,
            },
            journal,
            options,
            commits,
            sizes,
            writing,
        };
        cell.tasks.spawn(writer.run(cell.stop.clone()));
        cell.tasks.close();
        Ok(cell)
    }

    /// Returns a cell with this state, the commits to it, and what counts begins and ends of writes.
    pub(super) fn of(
        state: State,
        journal: Arc<dyn Journal>,
        queue: usize,
    ) -> (Self, mpsc::Receiver<Vec<Commit>>, watch::Sender<u64>) {
        let (queue, commits) = mpsc::channel(queue.max(1));
        let (writing, writes) = watch::channel(0);
        let cell = Self {
            state: Arc::new(RwLock::new(state)),
            watches: Watches::default(),
            queue,
            journal,
            writes,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        (cell, commits, writing)
    }

    /// Commits one event: see [`commit_all`](Self::commit_all).
    ///
    /// # Errors
    /// See [`commit_all`](Self::commit_all).
    pub async fn commit(&self, expected: Expected, event: Event) -> Result<u64, CommitError> {
        self.commit_all(vec![expected], vec![event]).await
    }

    /// Commits all events or none, with consecutive indexes, and returns the index of the last one,
    /// which readers can see by then. No reader and no restart sees only some of them. Waits while the
    /// queue is full. A dropped future does not revoke the commit: it may still happen.
    ///
    /// # Errors
    /// If an expectation does not hold, an event does not fit the state that the events before it
    /// left, the journal fails, or the cell is stopping. The state is then unchanged. After a journal
    /// error, all events may still appear when the process restarts (see [`Journal::append`]).
    pub async fn commit_all(
        &self,
        expected: Vec<Expected>,
        events: Vec<Event>,
    ) -> Result<u64, CommitError> {
        let results = self.commit_each(vec![(expected, events)]).await;
        let result = results.into_iter().next();
        result.unwrap_or(Err(CommitError::Stopping))
    }

    /// Writes several commits in one durable write, each decided after those before it, and returns
    /// their results: see [`commit_all`](Self::commit_all). A refused one does not prevent the others.
    pub async fn commit_each(
        &self,
        commits: Vec<(Vec<Expected>, Vec<Event>)>,
    ) -> Vec<Result<u64, CommitError>> {
        let with_reply = |(expected, events)| {
            let (reply, answered) = oneshot::channel();
            let commit = Commit { expected, events, reply };
            (commit, answered)
        };
        let (commits, answers): (Vec<_>, Vec<_>) = commits.into_iter().map(with_reply).unzip();
        // A stopped writer drops the commits, and with them their replies.
        self.queue.send(commits).await.ok();
        let mut results = Vec::with_capacity(answers.len());
        for answered in answers {
            results.push(answered.await.unwrap_or(Err(CommitError::Stopping)));
        }
        results
    }

    /// Reads the state. `read` blocks all changes, so it must be short: clone pointers, and encode
    /// documents afterwards.
    pub fn read<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        read(&self.state.read())
    }

    /// Checks an expectation now. A later commit needs it again.
    ///
    /// # Errors
    /// If it does not hold.
    pub fn check(&self, expected: &Expected) -> Result<(), CommitError> {
        self.read(|state| expected.check(state))
    }

    /// Returns the index of the last event that readers can see.
    pub fn index(&self) -> u64 {
        self.read(State::index)
    }

    /// Waits until a write that is under way now has ended. Other servers may see its changes before this state has them.
    pub async fn settled(&self) {
        let mut writes = self.writes.clone();
        let now = *writes.borrow_and_update();
        if now % 2 == 1 {
            writes.wait_for(|count| *count > now).await.ok();
        }
    }

    /// Waits for changes of these topics from now on. A woken reader sees the change.
    pub fn watch(&self, topics: Vec<Topic>) -> Watch {
        self.watches.watch(topics)
    }

    /// Waits until `is_ready`, which is called again only after a change of one of the topics. They are
    /// computed again with each call, from the same state.
    ///
    /// # Errors
    /// If the cell stops before.
    pub async fn wait_until(
        &self,
        topics: impl Fn(&State) -> Vec<Topic>,
        is_ready: impl Fn(&State) -> bool,
    ) -> Result<(), CellStopped> {
        loop {
            let watch = self.read(|state| (!is_ready(state)).then(|| self.watch(topics(state))));
            let Some(mut watch) = watch else {
                return Ok(());
            };
            watch.changed().await?;
        }
    }

    /// Returns up to `limit` events after this index, with their indexes, in order: see
    /// [`Journal::read_events`].
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        self.journal.read_events(after, limit).await
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

pub(super) fn inconsistent(place: String, error: ReplayError) -> JournalError {
    JournalError {
        kind: JournalErrorKind::Damaged,
        operation: "replay",
        place,
        source: Arc::new(error),
    }
}
