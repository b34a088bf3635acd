//! Group commit: changes that wait at the same moment share one durable transaction.
//!
//! A caller queues its change. If nothing is being written, it writes every change that waits, its
//! own included. Callers that arrive in the meantime wait for the next write. So a single caller writes on
//! its own thread, and many callers share the syncs of one transaction.
//!
//! A change is answered when its transaction is on the disk. If the transaction fails, all its
//! changes fail. If one change cannot be applied, each of them is tried alone.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::WriteTransaction;

use super::store::{CatalogError, Store, damaged};
use nomad_csi_database::begin;

/// A change that waits for its transaction.
trait Change: Send {
    /// Makes the change in a transaction. It may run again in another one.
    fn apply(&mut self, transaction: &WriteTransaction) -> Result<(), CatalogError>;

    /// Answers the caller after the transaction.
    fn answer(self: Box<Self>, written: Result<(), CatalogError>);
}

struct PendingChange<T, F> {
    change: F,
    value: Option<T>,
    caller: SyncSender<Result<T, CatalogError>>,
}

impl<T, F> Change for PendingChange<T, F>
where
    T: Send,
    F: Fn(&WriteTransaction) -> Result<T, CatalogError> + Send,
{
    fn apply(&mut self, transaction: &WriteTransaction) -> Result<(), CatalogError> {
        self.value = Some((self.change)(transaction)?);
        Ok(())
    }

    fn answer(self: Box<Self>, written: Result<(), CatalogError>) {
        let value = self.value.ok_or_else(|| damaged("a change has no result"));
        // The caller of a change that nothing waits for is gone.
        self.caller.send(written.and(value)).ok();
    }
}

struct QueuedChange {
    change: Box<dyn Change>,
    /// The directory that must be on the disk before the transaction is.
    directory: Option<Arc<OwnedFd>>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<QueuedChange>,
    is_writing: bool,
}

/// The changes that wait for a transaction.
#[derive(Default)]
pub(super) struct WriteQueue {
    queue: Mutex<Queue>,
    written: Condvar,
}

impl WriteQueue {
    /// Writes a change, together with the changes that wait. Returns when the change is on the disk.
    pub(super) fn write<T: Send + 'static>(
        &self,
        store: &Store,
        change: impl Fn(&WriteTransaction) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        let answer = self.add(None, change);
        let mut queue = self.lock();
        loop {
            match answer.try_recv() {
                Ok(result) => return result,
                Err(TryRecvError::Disconnected) => return Err(damaged("a change was dropped")),
                Err(TryRecvError::Empty) => {}
            }
            if queue.is_writing {
                self.written.wait(&mut queue);
                continue;
            }
            queue.is_writing = true;
            let batch = std::mem::take(&mut queue.waiting);
            drop(queue);
            let turn = WriteTurn(self);
            write_together(store, batch);
            drop(turn);
            queue = self.lock();
        }
    }

    /// Queues a change for the next transaction, which another change begins. Syncs `directory` before.
    pub(super) fn add<T: Send + 'static>(
        &self,
        directory: Option<Arc<OwnedFd>>,
        change: impl Fn(&WriteTransaction) -> Result<T, CatalogError> + Send + 'static,
    ) -> Receiver<Result<T, CatalogError>> {
        let (caller, answer) = sync_channel(1);
        let change = Box::new(PendingChange { change, value: None, caller });
        self.lock().waiting.push(QueuedChange { change, directory });
        answer
    }

    /// Writes the changes that still wait.
    pub(super) fn flush(&self, store: &Store) {
        let batch = std::mem::take(&mut self.lock().waiting);
        if !batch.is_empty() {
            write_together(store, batch);
        }
    }

    /// Returns how many changes wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.lock().waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

/// The turn of the caller that writes. It ends when this guard is dropped, also by a panic.
struct WriteTurn<'a>(&'a WriteQueue);

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        self.0.lock().is_writing = false;
        self.0.written.notify_all();
    }
}

/// Writes changes in one transaction and answers them.
fn write_together(store: &Store, mut batch: Vec<QueuedChange>) {
    let mut is_applied = false;
    let written = store.with_database(|database| {
        is_applied = false;
        let transaction = begin(database)?;
        for queued in &mut batch {
            queued.change.apply(&transaction)?;
        }
        is_applied = true;
        sync_directories(&batch)?;
        Ok(transaction.commit()?)
    });
    if written.is_err() && !is_applied && batch.len() > 1 {
        for queued in batch {
            write_together(store, vec![queued]);
        }
        return;
    }
    for queued in batch {
        queued.change.answer(written.clone());
    }
}

/// Syncs each directory of the changes once.
fn sync_directories(batch: &[QueuedChange]) -> Result<(), CatalogError> {
    let mut synced: Vec<&Arc<OwnedFd>> = vec![];
    for directory in batch.iter().filter_map(|queued| queued.directory.as_ref()) {
        if !synced.iter().any(|done| Arc::ptr_eq(done, directory)) {
            rustix::fs::fsync(directory).map_err(std::io::Error::from)?;
            synced.push(directory);
        }
    }
    Ok(())
}
