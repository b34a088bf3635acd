//! The queue between the steps of an apply and the ledger, which takes one write after the other.
//!
//! Everything that is queued goes out with one write. A step waits until its record is written, and the
//! result of a step does not wait: the queue keeps the order, so the next step of a run that starts after
//! a result waits for both. Results that could not be written are returned at the end.
//!
//! A write costs as much as the shards that it changes. So with many volumes a write waits until as many
//! steps wait for it as are worked on at the same time, or no update has come for a moment.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::ledger::SetLedger;
use crate::ports::{LedgerError, LedgerFailure};
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_plan::LedgerSet;

/// The largest number of queued updates, and of those in one write.
const QUEUE_SIZE: usize = 256;
/// How long a write of many volumes waits for another update.
const PAUSE: Duration = Duration::from_millis(5);

/// A change of a set.
pub(super) type Change = Box<dyn Fn(&mut LedgerSet) + Send + Sync>;

/// An update that waits to be written.
#[derive(Debug)]
pub(super) struct LedgerUpdate(QueuedChange, Written);

struct QueuedChange(Change);

impl std::fmt::Debug for QueuedChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QueuedChange")
    }
}

/// The place where the result of a write goes.
#[derive(Debug)]
enum Written {
    /// The step that waits for it.
    Step(oneshot::Sender<Result<(), LedgerError>>),
    /// The list of results that could not be written.
    Result(NamespacedId),
}

/// The result of a volume that is not in the ledger, and why.
pub(super) type UnwrittenResult = (NamespacedId, LedgerError);

/// Queues updates of a set.
#[derive(Debug)]
pub(super) struct LedgerQueue(mpsc::Sender<LedgerUpdate>);

/// The updates that are queued.
#[derive(Debug)]
pub(super) struct QueuedUpdates {
    updates: mpsc::Receiver<LedgerUpdate>,
    burst: Burst,
}

/// How the updates of a plan come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burst {
    /// One by one, because the volumes are few.
    Few,
    /// Close together, from at most so many steps at the same time.
    Many(usize),
}

impl Burst {
    /// Returns whether a write waits for more updates than it has.
    fn waits_for_more(self, batch: &[LedgerUpdate]) -> bool {
        let is_step = |update: &&LedgerUpdate| matches!(update.1, Written::Step(_));
        match self {
            Self::Few => false,
            Self::Many(steps) => batch.iter().filter(is_step).count() < steps,
        }
    }
}

/// Returns a queue for updates that come so.
pub(super) fn ledger_queue(burst: Burst) -> (LedgerQueue, QueuedUpdates) {
    let (sender, updates) = mpsc::channel(QUEUE_SIZE);
    (LedgerQueue(sender), QueuedUpdates { updates, burst })
}

impl LedgerQueue {
    /// Makes a change, and waits until it is written.
    pub(super) async fn write(&self, change: Change) -> Result<(), LedgerError> {
        let (written, answer) = oneshot::channel();
        self.send(change, Written::Step(written)).await?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Makes a change that records the result of a volume. It is written before any later change.
    pub(super) async fn write_later(
        &self,
        volume: NamespacedId,
        change: Change,
    ) -> Result<(), LedgerError> {
        self.send(change, Written::Result(volume)).await
    }

    async fn send(&self, change: Change, written: Written) -> Result<(), LedgerError> {
        let update = LedgerUpdate(QueuedChange(change), written);
        self.0.send(update).await.map_err(|_| closed())
    }
}

impl QueuedUpdates {
    /// Receives the updates of one write. Returns `false` after the last one.
    async fn receive(&mut self, batch: &mut Vec<LedgerUpdate>) -> bool {
        if self.updates.recv_many(batch, QUEUE_SIZE).await == 0 {
            return false;
        }
        while batch.len() < QUEUE_SIZE && self.burst.waits_for_more(batch) {
            let room = QUEUE_SIZE - batch.len();
            match timeout(PAUSE, self.updates.recv_many(batch, room)).await {
                Ok(0) | Err(_) => break,
                Ok(_) => {}
            }
        }
        true
    }
}

/// Writes queued updates into the set until the queue is dropped. Returns the results that could not be
/// written.
pub(super) async fn write_updates(
    set: &mut SetLedger,
    mut queued: QueuedUpdates,
) -> Vec<UnwrittenResult> {
    let mut unwritten = vec![];
    let mut batch = vec![];
    while queued.receive(&mut batch).await {
        let written = set.update(|set| batch.iter().for_each(|update| (update.0.0)(set))).await;
        for LedgerUpdate(_, waiting) in batch.drain(..) {
            match (waiting, &written) {
                // A receiver that is gone was interrupted.
                (Written::Step(step), written) => drop(step.send(written.clone())),
                (Written::Result(volume), Err(error)) => unwritten.push((volume, error.clone())),
                (Written::Result(_), Ok(())) => {}
            }
        }
    }
    unwritten
}

fn closed() -> LedgerError {
    let message = "the ledger is no longer written".to_owned();
    LedgerError::new(LedgerFailure::Unavailable, Code::Internal, message)
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use nomad_csi_model::{Namespace, VolumeId};

    /// Returns how many writes three results need that come one after the other.
    async fn writes(burst: Burst) -> usize {
        let (queue, mut queued) = ledger_queue(burst);
        let writing = async {
            let (mut writes, mut batch) = (0, vec![]);
            while queued.receive(&mut batch).await {
                batch.clear();
                writes += 1;
            }
            writes
        };
        let queuing = async move {
            for _ in 0..3 {
                let volume = NamespacedId::new(Namespace::default(), VolumeId::new("db"));
                queue.write_later(volume, Box::new(|_| ())).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(writing, queuing).0
    }

    #[tokio::test(start_paused = true)]
    async fn updates_of_many_volumes_share_a_write() {
        assert_eq!(writes(Burst::Many(3)).await, 1);
        assert_ne!(writes(Burst::Few).await, 1);
    }

    /// The clock stands still unless everything waits for it.
    #[tokio::test(start_paused = true)]
    async fn a_write_does_not_pause_when_every_step_waits_for_it() {
        let pause = async |steps: usize| {
            let (queue, mut queued) = ledger_queue(Burst::Many(2));
            let (start, mut batch) = (Instant::now(), vec![]);
            let waiting = (0..steps).map(|_| queue.write(Box::new(|_| ())));
            let receiving = async {
                queued.receive(&mut batch).await;
                let paused = start.elapsed();
                batch.clear();
                paused
            };
            tokio::join!(receiving, futures_util::future::join_all(waiting)).0
        };
        assert_eq!(pause(2).await, Duration::ZERO);
        assert!(pause(1).await >= PAUSE);
    }
}
