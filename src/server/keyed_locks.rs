//! One lock per key.
//!
//! A volume takes one CSI operation at a time (CSI section "Concurrency"). Operations wait for a lock in a bounded first-come,
//! first-served queue. A dropped future leaves the queue immediately. Unused locks take no memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The queue of a key is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} operations are already waiting")]
pub struct QueueFull {
    /// How many operations wait.
    pub waiting: usize,
}

/// Serializes operations per key. A clone shares the locks.
pub struct KeyedLocks<K: Clone + Eq + Hash> {
    locks: Locks<K>,
    max_waiting: usize,
}

type Locks<K> = Arc<Mutex<HashMap<K, Lock>>>;

#[derive(Debug)]
struct Lock {
    /// One permit; first come, first served. Never closed.
    semaphore: Arc<Semaphore>,
    /// Running and waiting operations.
    users: usize,
}

/// The lock of a key, held. Dropping it admits the next operation.
#[derive(Debug)]
pub struct KeyedGuard<K: Clone + Eq + Hash> {
    // Fields drop in this order: the lock is released before its user is counted out, so that a lock is removed
    // only when no operation holds it.
    _permit: Option<OwnedSemaphorePermit>,
    _user: LockUser<K>,
}

/// An operation that waits for a lock or holds it.
#[derive(Debug)]
struct LockUser<K: Clone + Eq + Hash> {
    locks: Locks<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> KeyedLocks<K> {
    /// Admits one operation per key; at most `max_waiting` others wait.
    pub fn new(max_waiting: usize) -> Self {
        Self { locks: Arc::default(), max_waiting }
    }

    /// Waits for the lock of `key`. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// Immediately, if the queue is full.
    pub async fn acquire(&self, key: K) -> Result<KeyedGuard<K>, QueueFull> {
        let (semaphore, user) = self.enqueue(key)?;
        Ok(KeyedGuard { _permit: semaphore.acquire_owned().await.ok(), _user: user })
    }

    /// Returns how many keys are in use.
    #[cfg(test)]
    fn active_keys(&self) -> usize {
        self.locks.lock().len()
    }

    fn enqueue(&self, key: K) -> Result<(Arc<Semaphore>, LockUser<K>), QueueFull> {
        let mut locks = self.locks.lock();
        let lock = locks
            .entry(key.clone())
            .or_insert_with(|| Lock { semaphore: Arc::new(Semaphore::new(1)), users: 0 });
        if lock.users > self.max_waiting {
            let waiting = lock.users - 1;
            return Err(QueueFull { waiting });
        }
        lock.users += 1;
        let semaphore = lock.semaphore.clone();
        Ok((semaphore, LockUser { locks: self.locks.clone(), key }))
    }
}

impl<K: Clone + Eq + Hash> Clone for KeyedLocks<K> {
    fn clone(&self) -> Self {
        Self { locks: self.locks.clone(), max_waiting: self.max_waiting }
    }
}

impl<K: Clone + Eq + Hash> Drop for LockUser<K> {
    fn drop(&mut self) {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get_mut(&self.key) {
            lock.users -= 1;
            if lock.users == 0 {
                locks.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
