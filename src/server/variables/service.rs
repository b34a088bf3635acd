//! [`VariableService`]: reads and writes variables and expires their locks.
//!
//! One write at a time per variable: acquire, read, decide ([`super::decide`]), record one event. No
//! write calls anything outside the agent, so it is either recorded or did not happen. Each write is
//! its own task, so a client that disconnects cannot let another write run while its event is written.
//! An expired lock is removed before the next write of its variable, and by a background task.
//! Whichever comes first records the one event, by the agent's clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::decide::{Decision, VariableWrite, check, decide};
use crate::acquire::within;
use crate::cell::{CommitError, Expected};
use crate::error::ServerError;
use crate::keyed_locks::{KeyedGuard, KeyedLocks};
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{
    Event, EventKind, LockTerms, Table, Topic, VariableEvent, VariableRecord, expired_locks,
    next_lock_end,
};
use nomad_csi_model::{SealedSecrets, SecretOwner, Secrets, VariableKey};

/// How many writes may wait for one variable.
const MAX_WAITING: usize = 1024;
/// The longest time that a write waits for others.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a failure to expire locks.
const EXPIRY_PAUSE: Duration = Duration::from_secs(5);
/// The longest sleep, because wall time may be changed in the meantime.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableWriteOutcome {
    /// The variable was written.
    Written {
        /// The record after the write.
        record: Arc<VariableRecord>,
        /// The written items, if the write has any.
        items: Option<Secrets>,
    },
    /// The variable does not exist (any more).
    Absent,
    /// The index or lock differs from the expected one; nothing changed.
    Conflict(Option<VariableContents>),
    /// Another client holds the lock; nothing changed.
    Locked,
}

/// A variable with its decrypted items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableContents {
    /// The record.
    pub record: Arc<VariableRecord>,
    /// The items.
    pub items: Secrets,
}

/// Reads and writes variables. Clones share their state.
#[derive(Clone)]
pub struct VariableService {
    ports: ServerPorts,
    /// Lets one write of a variable run at a time.
    writes: KeyedLocks<VariableKey>,
    tasks: TaskTracker,
}

impl VariableService {
    /// A service over these ports.
    pub fn new(ports: ServerPorts) -> Self {
        let tasks = TaskTracker::new();
        tasks.close();
        Self { ports, writes: KeyedLocks::new(MAX_WAITING), tasks }
    }

    /// Ends locks when their time is over, until `stopping`. Needs a running tokio runtime.
    pub fn start_expiry(&self, stopping: CancellationToken) {
        self.tasks.spawn(self.clone().expire_locks(stopping));
    }

    /// Waits until all writes and the expiry of locks have ended.
    pub async fn wait_stopped(&self) {
        self.tasks.wait().await;
    }

    /// Returns a variable with its items.
    ///
    /// # Errors
    /// If the agent's key cannot open the items.
    pub fn read(&self, key: &VariableKey) -> Result<Option<VariableContents>, ServerError> {
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        record.map(|record| self.decrypt(record)).transpose()
    }

    fn decrypt(&self, record: Arc<VariableRecord>) -> Result<VariableContents, ServerError> {
        let owner = SecretOwner::Variable(record.key.clone());
        let items = self.ports.sealer.open(&owner, &record.items);
        let items = items.map_err(|error| ServerError::Secrets { owner, error })?;
        Ok(VariableContents { record, items })
    }

    /// Performs one write. The result is durable when it is returned.
    ///
    /// # Errors
    /// If the write is invalid, if there is no lock to renew or release, or if it cannot be recorded.
    /// Nothing changed then.
    pub async fn write(
        &self,
        key: &VariableKey,
        write: VariableWrite,
    ) -> Result<VariableWriteOutcome, ServerError> {
        check(key, &write)?;
        let (variables, key) = (self.clone(), key.clone());
        let task = self.tasks.spawn(async move { variables.write_exclusively(&key, write).await });
        task.await.unwrap_or_else(|failed| {
            tracing::error!(error = %failed, "a write of a variable panicked");
            Err(ServerError::Internal("a write of a variable panicked".into()))
        })
    }

    async fn write_exclusively(
        &self,
        key: &VariableKey,
        write: VariableWrite,
    ) -> Result<VariableWriteOutcome, ServerError> {
        let _permit = self.acquire(key).await?;
        let now = self.ports.clock.now();
        self.expire_lock_if_due(key, now).await?;
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let decision = decide(record.as_deref(), &write, now)?;
        let event = match decision {
            Decision::Unchanged => return Ok(VariableWriteOutcome::Absent),
            Decision::Locked => return Ok(VariableWriteOutcome::Locked),
            Decision::Conflict => {
                let reading = record.map(|record| self.decrypt(record)).transpose()?;
                return Ok(VariableWriteOutcome::Conflict(reading));
            }
            Decision::Delete => {
                self.commit(key, record.as_deref(), VariableEvent::Deleted).await?;
                return Ok(VariableWriteOutcome::Absent);
            }
            Decision::Write => VariableEvent::Written { items: self.seal(key, &write) },
            Decision::Acquire { id, ttl, delay } => VariableEvent::LockAcquired {
                items: self.seal(key, &write),
                terms: LockTerms { id: id.unwrap_or_else(|| self.ports.ids.uuid()), ttl, delay },
            },
            Decision::Renew { id } => VariableEvent::LockRenewed { id },
            Decision::Release { id } => VariableEvent::LockReleased { id },
        };
        self.commit(key, record.as_deref(), event).await?;
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let record = record.ok_or_else(|| conflict(key))?;
        Ok(VariableWriteOutcome::Written { record, items: items_of(&write).cloned() })
    }

    async fn acquire(&self, key: &VariableKey) -> Result<KeyedGuard<VariableKey>, ServerError> {
        let name = format!("variable {key}");
        within(QUEUE_TIMEOUT, name, self.writes.acquire(key.clone())).await
    }

    fn seal(&self, key: &VariableKey, write: &VariableWrite) -> SealedSecrets {
        let owner = SecretOwner::Variable(key.clone());
        let seal = |items| self.ports.sealer.seal(&owner, items);
        items_of(write).map(seal).unwrap_or_default()
    }

    async fn commit(
        &self,
        key: &VariableKey,
        seen: Option<&VariableRecord>,
        event: VariableEvent,
    ) -> Result<u64, CommitError> {
        let (name, seen) = (event.name(), seen.map(|record| record.modify_index));
        let expected = Expected::VariableAt(key.clone(), seen);
        let key = key.clone();
        let kind = EventKind::Variable { key: key.clone(), event };
        let event = Event::new(self.ports.clock.now(), kind);
        let index = self.ports.cell.commit(expected, event).await?;
        tracing::debug!(variable.path = %key.path, variable.namespace = %key.namespace, index, "{name}");
        Ok(index)
    }

    /// Removes the variable's lock if it has expired. The caller lets no other write run.
    async fn expire_lock_if_due(&self, key: &VariableKey, now: i64) -> Result<(), CommitError> {
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let Some(record) = record else { return Ok(()) };
        let Some(lock) = record.lock.as_ref().filter(|lock| lock.ends_at() <= now) else {
            return Ok(());
        };
        let id = lock.terms.id.clone();
        self.commit(key, Some(&record), VariableEvent::LockExpired { id }).await?;
        info!(variable.path = %key.path, variable.namespace = %key.namespace,
            "a lock expired: it was not renewed in time");
        Ok(())
    }

    async fn expire_locks(self, stopping: CancellationToken) {
        let mut changes = self.ports.cell.watch(vec![Topic::all(Table::Variables)]);
        let mut not_before = Instant::now();
        loop {
            let next = self.ports.cell.read(next_lock_end);
            let due = next.map(|at| (Instant::now() + self.until(at)).max(not_before));
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stopping.cancelled() => return,
                () = sleep => {
                    let all = stopping.run_until_cancelled(self.expire_due_locks()).await;
                    if all == Some(false) {
                        not_before = Instant::now() + EXPIRY_PAUSE;
                    }
                }
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    fn until(&self, at: i64) -> Duration {
        let left = at.saturating_sub(self.ports.clock.now());
        let left = Duration::from_nanos(u64::try_from(left).unwrap_or_default());
        left.min(LONGEST_SLEEP)
    }

    /// Expires all due locks, and returns whether all were expired. A failure does not stop the others.
    async fn expire_due_locks(&self) -> bool {
        let now = self.ports.clock.now();
        let due = self.ports.cell.read(|state| expired_locks(state, now));
        let mut failures = 0_usize;
        for key in due {
            let Err(error) = self.expire_lock(&key, now).await else {
                continue;
            };
            failures += 1;
            if failures == 1 {
                warn!(variable.path = %key.path, variable.namespace = %key.namespace,
                    error = error.text(), again_in = ?EXPIRY_PAUSE,
                    "an expired lock could not be removed, and blocks its variable; \
                     if this persists, check the disk of the agent's data directory");
            }
        }
        failures == 0
    }

    async fn expire_lock(&self, key: &VariableKey, now: i64) -> Result<(), ServerError> {
        let _permit = self.acquire(key).await?;
        Ok(self.expire_lock_if_due(key, now).await?)
    }
}

/// The items of a write, if it has any.
fn items_of(write: &VariableWrite) -> Option<&Secrets> {
    match write {
        VariableWrite::Set { items, .. } | VariableWrite::Acquire { items, .. } => Some(items),
        VariableWrite::Delete { .. }
        | VariableWrite::Renew { .. }
        | VariableWrite::Release { .. } => None,
    }
}

fn conflict(key: &VariableKey) -> ServerError {
    ServerError::Commit(CommitError::VariableConflict { variable: key.clone() })
}

#[cfg(test)]
mod tests;
