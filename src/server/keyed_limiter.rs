//! Admits one operation at a time per key.
//!
//! A volume takes one CSI operation at a time (CSI section "Concurrency"). Operations wait in a bounded first-come, first-served queue. A dropped future
//! leaves the queue immediately. Permits hold no lock on the state, and unused keys take no memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queue of a key is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} operations are already waiting")]
pub struct QueueFull {
    /// How many operations wait.
    pub waiting: usize,
}

/// Serializes operations per key. A clone shares the queues.
pub struct KeyedLimiter<K: Clone + Eq + Hash> {
    queues: Queues<K>,
    max_waiting: usize,
}

type Queues<K> = Arc<Mutex<HashMap<K, Queue>>>;

#[derive(Debug)]
struct Queue {
    /// First come, first served. Never closed.
    permits: Arc<Semaphore>,
    /// Running and waiting operations.
    users: usize,
}

/// The right to work on a key. Dropping it admits the next operation.
#[derive(Debug)]
pub struct KeyedPermit<K: Clone + Eq + Hash> {
    // Fields drop in this order: the permit is released before the slot, so that a queue is removed
    // only when no operation has a permit of it.
    _permit: Option<OwnedSemaphorePermit>,
    _slot: QueueSlot<K>,
}

#[derive(Debug)]
struct QueueSlot<K: Clone + Eq + Hash> {
    queues: Queues<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> KeyedLimiter<K> {
    /// Admits one operation per key; at most `max_waiting` others wait.
    pub fn new(max_waiting: usize) -> Self {
        Self { queues: Arc::default(), max_waiting }
    }

    /// Waits for a permit on `key`. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// Immediately, if the queue is full.
    pub async fn acquire(&self, key: K) -> Result<KeyedPermit<K>, QueueFull> {
        let (permits, slot) = self.enqueue(key)?;
        Ok(KeyedPermit { _permit: permits.acquire_owned().await.ok(), _slot: slot })
    }

    /// How many keys are in use.
    #[cfg(test)]
    fn active_keys(&self) -> usize {
        locked(&self.queues).len()
    }

    fn enqueue(&self, key: K) -> Result<(Arc<Semaphore>, QueueSlot<K>), QueueFull> {
        let mut queues = locked(&self.queues);
        let queue = queues
            .entry(key.clone())
            .or_insert_with(|| Queue { permits: Arc::new(Semaphore::new(1)), users: 0 });
        if queue.users > self.max_waiting {
            let waiting = queue.users - 1;
            return Err(QueueFull { waiting });
        }
        queue.users += 1;
        let permits = queue.permits.clone();
        let queues = self.queues.clone();
        Ok((permits, QueueSlot { queues, key }))
    }
}

impl<K: Clone + Eq + Hash> Clone for KeyedLimiter<K> {
    fn clone(&self) -> Self {
        Self { queues: self.queues.clone(), max_waiting: self.max_waiting }
    }
}

impl<K: Clone + Eq + Hash> Drop for QueueSlot<K> {
    fn drop(&mut self) {
        let mut queues = locked(&self.queues);
        if let Some(queue) = queues.get_mut(&self.key) {
            queue.users -= 1;
            if queue.users == 0 {
                queues.remove(&self.key);
            }
        }
    }
}

fn locked<K>(queues: &Mutex<HashMap<K, Queue>>) -> MutexGuard<'_, HashMap<K, Queue>> {
    queues.lock()
}

#[cfg(test)]
mod tests;
