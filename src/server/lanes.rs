//! One operation at a time per key, or a few.
//!
//! A volume takes one CSI operation at a time (CSI section "Concurrency"), a controller plugin a
//! bounded number (W30). Who wants in waits in line, first come first served, with a bound; who
//! stops waiting is out of line at once. Nothing is held but a place: no lock over the state, and
//! nothing is kept of keys that nobody uses.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Too many are in line already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} operations are waiting already")]
pub struct LaneFull {
    /// How many.
    pub waiting: usize,
}

/// Lanes by key. A clone has the same lanes.
pub struct Lanes<K: Clone + Eq + Hash> {
    lanes: Table<K>,
    width: usize,
    bound: usize,
}

type Table<K> = Arc<Mutex<HashMap<K, Line>>>;

#[derive(Debug)]
struct Line {
    /// Fair: who asks first gets it first. Never closed.
    turns: Arc<Semaphore>,
    /// Those inside and those in line.
    users: usize,
}

/// The right to work on a key; dropping it lets the next one in.
#[derive(Debug)]
pub struct Lane<K: Clone + Eq + Hash> {
    // Dropped in this order: the turn is passed on before the place is given up, so that a line is
    // removed only when nobody has a turn in it.
    _turn: Option<OwnedSemaphorePermit>,
    _place: Place<K>,
}

#[derive(Debug)]
struct Place<K: Clone + Eq + Hash> {
    lanes: Table<K>,
    key: K,
}

impl<K: Clone + Eq + Hash> Lanes<K> {
    /// Lanes in which at most `bound` wait per key, besides the one who works.
    pub fn new(bound: usize) -> Self {
        Self::wide(1, bound)
    }

    /// Lanes in which up to `width` work at a time per key, and at most `bound` wait besides. A width
    /// of 0 counts as 1.
    pub fn wide(width: usize, bound: usize) -> Self {
        Self {
            lanes: Arc::default(),
            width: width.max(1),
            bound,
        }
    }

    /// Waits for a turn on `key`. Dropping the future gives up the place in line.
    ///
    /// # Errors
    /// At once, if the line is full.
    pub async fn enter(&self, key: K) -> Result<Lane<K>, LaneFull> {
        let (turns, place) = self.join(key)?;
        Ok(Lane {
            _turn: turns.acquire_owned().await.ok(),
            _place: place,
        })
    }

    /// How many keys are in use.
    #[cfg(test)]
    fn in_use(&self) -> usize {
        locked(&self.lanes).len()
    }

    fn join(&self, key: K) -> Result<(Arc<Semaphore>, Place<K>), LaneFull> {
        let mut lanes = locked(&self.lanes);
        let line = lanes.entry(key.clone()).or_insert_with(|| Line {
            turns: Arc::new(Semaphore::new(self.width)),
            users: 0,
        });
        if line.users >= self.width.saturating_add(self.bound) {
            let waiting = line.users - self.width;
            return Err(LaneFull { waiting });
        }
        line.users += 1;
        let turns = line.turns.clone();
        let lanes = self.lanes.clone();
        Ok((turns, Place { lanes, key }))
    }
}

impl<K: Clone + Eq + Hash> Clone for Lanes<K> {
    fn clone(&self) -> Self {
        Self {
            lanes: self.lanes.clone(),
            width: self.width,
            bound: self.bound,
        }
    }
}

impl<K: Clone + Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut lanes = locked(&self.lanes);
        if let Some(line) = lanes.get_mut(&self.key) {
            line.users -= 1;
            if line.users == 0 {
                lanes.remove(&self.key);
            }
        }
    }
}

fn locked<K>(lanes: &Mutex<HashMap<K, Line>>) -> MutexGuard<'_, HashMap<K, Line>> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
