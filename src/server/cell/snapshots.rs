//! Snapshots in the background: what changed since the last one is written when enough events have
//! followed it.
//!
//! A snapshot that fails is not lost: the next one contains its changes too. The first snapshot of a
//! journal, or after one of an earlier format, contains everything, and so does one that the journal asks for.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use tokio_util::task::TaskTracker;

use crate::journal::{Journal, NextSnapshot};
use nomad_csi_claims::state::{SnapshotChanges, State, Subject};

/// The objects that changed since a snapshot; `None` is all.
type Changed = Option<HashSet<Subject>>;

pub(super) struct Snapshots {
    pub journal: Arc<dyn Journal>,
    pub tasks: TaskTracker,
    /// The number of events after which a snapshot is written.
    pub every: u64,
    /// The number of events since the last snapshot.
    pub events: u64,
    /// The objects that changed since the last snapshot.
    pub changed: Changed,
    pub running: Option<RunningSnapshot>,
}

/// A snapshot that is being written.
pub(super) struct RunningSnapshot {
    changed: Changed,
    /// Receives what the next one has to contain; nothing if it was not written.
    written: oneshot::Receiver<NextSnapshot>,
}

impl Snapshots {
    /// Records changes.
    pub(super) fn note(&mut self, changed: HashSet<Subject>, events: u64) {
        self.events += events;
        if let Some(all) = &mut self.changed {
            all.extend(changed);
        }
    }

    /// Starts a snapshot if one is due and none is being written.
    pub(super) fn write_if_due(&mut self, state: &RwLock<State>) {
        let is_due = self.events >= self.every || self.events > 0 && self.journal.wants_snapshot();
        if !is_due || self.is_running() {
            return;
        }
        self.events = 0;
        let changed = self.changed.replace(HashSet::new());
        let changes = {
            let state = state.read();
            match changed.clone() {
                None => SnapshotChanges::complete(&state),
                Some(changed) => SnapshotChanges::of(&state, changed),
            }
        };
        let (done, written) = oneshot::channel();
        self.running = Some(RunningSnapshot { changed, written });
        let journal = self.journal.clone();
        self.tasks.spawn(async move {
            let index = changes.numbers.index;
            let result = journal.write_snapshot(changes).await;
            if let Err(error) = &result {
                tracing::warn!(index, error = %error, reason = %error.source, "the snapshot was not written; the journal grows until the next one");
            }
            if let Ok(next) = result {
                done.send(next).ok();
            }
        });
    }

    fn is_running(&mut self) -> bool {
        let Some(mut running) = self.running.take() else {
            return false;
        };
        match running.written.try_recv() {
            Err(TryRecvError::Empty) => {
                self.running = Some(running);
                return true;
            }
            Ok(NextSnapshot::Changes) => {}
            Ok(NextSnapshot::Complete) => self.changed = None,
            Err(TryRecvError::Closed) => self.changed = self.with(running.changed),
        }
        false
    }

    /// Returns what changed since the last snapshot or since the failed one before.
    fn with(&mut self, failed: Changed) -> Changed {
        let (mut all, failed) = (self.changed.take()?, failed?);
        all.extend(failed);
        Some(all)
    }
}
