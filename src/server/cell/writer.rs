//! The writer of the journal: takes waiting commits, decides, writes them durably, applies, wakes readers
//! and answers.
//!
//! Every answer waits for the write, a refusal too: it may say what an earlier commit of the same write
//! changed. If the journal fails, every commit of the write fails that was not refused by the state
//! without them.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::commit::{Commit, CommitError, decide};
use super::options::CellOptions;
use super::snapshots::Snapshots;
use super::state_limits::StateSizes;
use super::watch::Watches;
use crate::journal::{Journal, JournalError};
use nomad_csi_claims::state::{Event, Overlay, State, Subject, apply, is_growth};

pub(super) struct Writer {
    pub state: Arc<RwLock<State>>,
    pub watches: Watches,
    pub journal: Arc<dyn Journal>,
    pub options: CellOptions,
    pub commits: mpsc::Receiver<Vec<Commit>>,
    pub snapshots: Snapshots,
    pub sizes: StateSizes,
    /// Counts the begins and ends of writes.
    pub writing: watch::Sender<u64>,
}

/// The commits of one write.
struct DecidedBatch {
    /// The index of the first event.
    first: u64,
    /// The events of the accepted commits.
    events: Vec<Event>,
    /// The subjects of the events.
    changed: HashSet<Subject>,
    commits: Vec<DecidedCommit>,
}

/// A commit with its result if the write succeeds. Only a refused one still has its events.
type DecidedCommit = (Commit, Result<u64, CommitError>);

/// A write that is under way, until its events are applied.
struct Writing(watch::Sender<u64>);

impl Writing {
    fn begin(writes: &watch::Sender<u64>) -> Self {
        writes.send_modify(|count| *count += 1);
        Self(writes.clone())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count += 1);
    }
}

/// Readers learn that nothing changes any more, also after a panic.
impl Drop for Writer {
    fn drop(&mut self) {
        self.watches.close();
    }
}

impl Writer {
    pub(super) async fn run(mut self, stop: CancellationToken) {
        while let Some(first) = self.next(&stop).await {
            let batch = self.batch(first);
            // On a full disk, what may be refused must not take what is recorded in any case with it.
            let (growing, others) = match self.journal.is_full() {
                true => batch.into_iter().partition(|commit| is_growth(&commit.events)),
                false => (vec![], batch),
            };
            self.write(others).await;
            self.write(growing).await;
            self.snapshots.write_if_due(&self.state);
        }
    }

    /// Returns the next commits; `None` once the cell has stopped. Commits that waited at the stop are
    /// still written.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Vec<Commit>> {
        tokio::select! {
            biased;
            () = stop.cancelled(), if !self.commits.is_closed() => {
                self.commits.close();
                self.commits.recv().await
            }
            commits = self.commits.recv() => commits,
        }
    }

    /// Returns `batch` and the waiting commits that share its write, in the order of arrival.
    fn batch(&mut self, mut batch: Vec<Commit>) -> Vec<Commit> {
        let count = |commits: &[Commit]| commits.iter().map(|commit| commit.events.len()).sum();
        let mut events: usize = count(&batch);
        while events < self.options.batch && batch.len() < self.options.batch {
            let Ok(commits) = self.commits.try_recv() else {
                break;
            };
            events += count(&commits);
            batch.extend(commits);
        }
        batch
    }

    async fn write(&mut self, batch: Vec<Commit>) {
        let DecidedBatch { first, events, changed, commits } = self.decide_batch(batch);
        if !events.is_empty() {
            let events: Arc<[Event]> = events.into();
            let _writing = Writing::begin(&self.writing);
            if let Err(error) = self.journal.append(first, events.clone()).await {
                tracing::error!(error = %error, reason = %error.source, "the journal failed: the changes are refused, and unknown is whether they are stored");
                self.sizes.undo();
                self.refuse_batch(commits, &error);
                return;
            }
            let last = self.apply(&events);
            self.measure(&changed);
            self.watches.wake(&changed);
            self.snapshots.note(changed, last + 1 - first);
        }
        for (commit, result) in commits {
            commit.reply.send(result).ok();
        }
    }

    /// Decides about each commit after those before it.
    fn decide_batch(&mut self, batch: Vec<Commit>) -> DecidedBatch {
        let state = self.state.read();
        let mut overlay = Overlay::new(&state);
        let (mut events, mut changed) = (vec![], HashSet::new());
        let (sizes, limits) = (&mut self.sizes, &self.options.limits);
        let decide = |mut commit: Commit| {
            let result = decide(&mut overlay, sizes, limits, &commit);
            if result.is_ok() {
                for event in &commit.events {
                    changed.extend(overlay.subjects_of(&event.kind));
                }
                events.append(&mut commit.events);
            }
            (commit, result)
        };
        let commits = batch.into_iter().map(decide).collect();
        DecidedBatch { first: state.index() + 1, events, changed, commits }
    }

    /// Answers the commits of a failed write.
    fn refuse_batch(&mut self, commits: Vec<DecidedCommit>, error: &JournalError) {
        let state = self.state.read();
        for (commit, result) in commits {
            let refused_alone = match result {
                Ok(_) => None,
                Err(_) => {
                    let limits = &self.options.limits;
                    let mut overlay = Overlay::new(&state);
                    decide(&mut overlay, &mut self.sizes, limits, &commit).err()
                }
            };
            self.sizes.undo();
            let refusal = refused_alone.unwrap_or_else(|| error.clone().into());
            commit.reply.send(Err(refusal)).ok();
        }
    }

    fn measure(&mut self, changed: &HashSet<Subject>) {
        let state = self.state.read();
        self.sizes.note(&state, changed.iter().cloned());
    }

    fn apply(&self, events: &[Event]) -> u64 {
        let mut state = self.state.write();
        for event in events {
            apply(&mut state, event);
        }
        state.index()
    }
}
