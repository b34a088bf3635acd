//! [`Variables`]: where writes of variables come in, and what ends locks.
//!
//! One write at a time per variable: a place in its lane, what is on record, a pure decision
//! ([`super::decide`]), one event. Nothing outside is called, so a write is either on record or has
//! not happened; it runs as a task of its own, so that a client who hangs up does not give the lane
//! to the next one while his event is being written. A lock whose time is over is ended on
//! record before the next write of its variable is decided, and by a task that wakes when the next
//! one is due; whoever comes first, there is one event, by the agent's clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::decide::{Decision, VariableWrite, check, decide};
use crate::model::{SealedSecrets, SecretOwner, Secrets, VariableKey};
use crate::ports::{Clock, IdSource, Sealer};
use crate::server::cell::{CommitError, Expected, StateCell};
use crate::server::error::ServerError;
use crate::server::lanes::{Lane, Lanes};
use crate::server::turn::turn;
use crate::state::{
    Event, EventKind, LockTerms, VariableEvent, VariableRecord, ended_locks, next_lock_end,
};

/// How many writes may wait for one variable.
const LINE: usize = 1024;
/// How long a write waits for its turn.
const TURN: Duration = Duration::from_secs(30);
/// After a failure to end locks; and the longest time for which the clock is trusted to go on as the
/// machine's does.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST_SLEEP: Duration = Duration::from_secs(60);

/// The outside world, as far as variables need it.
#[derive(Clone)]
pub struct VariablePorts {
    /// What is remembered.
    pub cell: StateCell,
    /// Seals items.
    pub sealer: Arc<dyn Sealer>,
    /// Wall time, for events and for the ends of locks.
    pub clock: Arc<dyn Clock>,
    /// IDs of locks.
    pub ids: Arc<dyn IdSource>,
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableOutcome {
    /// It is on record.
    Written {
        /// As it is now.
        record: Arc<VariableRecord>,
        /// What the writer gave, if he gave any.
        items: Option<Secrets>,
    },
    /// It is not there any more, or never was.
    Gone,
    /// It is not as the writer said: nothing was changed.
    Differs(Option<VariableReading>),
    /// Somebody else holds it: nothing was changed.
    Held,
}

/// A variable that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableReading {
    /// What is kept of it.
    pub record: Arc<VariableRecord>,
    /// What it holds.
    pub items: Secrets,
}

/// The variables. A clone is the same.
#[derive(Clone)]
pub struct Variables {
    ports: VariablePorts,
    lanes: Lanes<VariableKey>,
    tasks: TaskTracker,
}

impl Variables {
    /// Variables over these ports. Ends locks until `stopping` is cancelled; needs a running tokio
    /// runtime for that.
    pub fn new(ports: VariablePorts, stopping: CancellationToken) -> Self {
        let variables = Self {
            ports,
            lanes: Lanes::new(LINE),
            tasks: TaskTracker::new(),
        };
        let reaper = variables.clone();
        variables.tasks.spawn(reaper.end_locks(stopping));
        variables.tasks.close();
        variables
    }

    /// Returns when locks are ended no more.
    pub async fn stopped(&self) {
        self.tasks.wait().await;
    }

    /// A variable with its items.
    ///
    /// # Errors
    /// If its items do not open with this agent's key.
    pub fn read(&self, key: &VariableKey) -> Result<Option<VariableReading>, ServerError> {
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        record.map(|record| self.opened(record)).transpose()
    }

    fn opened(&self, record: Arc<VariableRecord>) -> Result<VariableReading, ServerError> {
        let owner = SecretOwner::Variable(record.key.clone());
        let items = self.ports.sealer.open(&owner, &record.items);
        let items = items.map_err(|error| ServerError::Secrets { owner, error })?;
        Ok(VariableReading { record, items })
    }

    /// Carries out one write; the answer is on record when it comes.
    ///
    /// # Errors
    /// If it can never be, if there is nothing to renew or release, or if it cannot be recorded.
    /// Nothing has changed then.
    pub async fn write(
        &self,
        key: &VariableKey,
        write: VariableWrite,
    ) -> Result<VariableOutcome, ServerError> {
        check(key, &write)?;
        let (variables, key) = (self.clone(), key.clone());
        let task = self
            .tasks
            .spawn(async move { variables.write_in_turn(&key, write).await });
        task.await.unwrap_or_else(|failed| {
            tracing::error!(error = %failed, "a write of a variable ended in a defect");
            Err(ServerError::Defect("a write of a variable".into()))
        })
    }

    async fn write_in_turn(
        &self,
        key: &VariableKey,
        write: VariableWrite,
    ) -> Result<VariableOutcome, ServerError> {
        let _turn = self.turn(key).await?;
        let now = self.ports.clock.now();
        self.end_if_over(key, now).await?;
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let decision = decide(record.as_deref(), &write, now)?;
        let event = match decision {
            Decision::Nothing => return Ok(VariableOutcome::Gone),
            Decision::Held => return Ok(VariableOutcome::Held),
            Decision::Differs => {
                let reading = record.map(|record| self.opened(record)).transpose()?;
                return Ok(VariableOutcome::Differs(reading));
            }
            Decision::Delete => {
                self.commit(key, record.as_deref(), VariableEvent::Deleted)
                    .await?;
                return Ok(VariableOutcome::Gone);
            }
            Decision::Write => VariableEvent::Written {
                items: self.seal(key, &write),
            },
            Decision::Lock { id, ttl, delay } => VariableEvent::LockAcquired {
                items: self.seal(key, &write),
                terms: LockTerms {
                    id: id.unwrap_or_else(|| self.ports.ids.uuid()),
                    ttl,
                    delay,
                },
            },
            Decision::Renew { id } => VariableEvent::LockRenewed { id },
            Decision::Release { id } => VariableEvent::LockReleased { id },
        };
        self.commit(key, record.as_deref(), event).await?;
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let record = record.ok_or_else(|| conflict(key))?;
        Ok(VariableOutcome::Written {
            record,
            items: items_of(&write).cloned(),
        })
    }

    async fn turn(&self, key: &VariableKey) -> Result<Lane<VariableKey>, ServerError> {
        turn(&self.lanes, key.clone(), format!("variable {key}"), TURN).await
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
        let kind = EventKind::Variable {
            key: key.clone(),
            event,
        };
        let event = Event::new(self.ports.clock.now(), kind);
        let index = self.ports.cell.commit(expected, event).await?;
        tracing::debug!(variable.path = %key.path, variable.namespace = %key.namespace, index, "{name}");
        Ok(index)
    }

    /// The caller has the variable's lane.
    async fn end_if_over(&self, key: &VariableKey, now: i64) -> Result<(), CommitError> {
        let record = self.ports.cell.read(|state| state.variable(key).cloned());
        let Some(record) = record else { return Ok(()) };
        let Some(lock) = record.lock.as_ref().filter(|lock| lock.ends_at() <= now) else {
            return Ok(());
        };
        let id = lock.terms.id.clone();
        self.commit(key, Some(&record), VariableEvent::LockExpired { id })
            .await?;
        info!(variable.path = %key.path, variable.namespace = %key.namespace,
            "a lock was not renewed in time, and has ended");
        Ok(())
    }

    async fn end_locks(self, stopping: CancellationToken) {
        let mut changes = self.ports.cell.subscribe();
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
                    let all = stopping.run_until_cancelled(self.end_what_is_over()).await;
                    if all == Some(false) {
                        not_before = Instant::now() + PAUSE;
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

    /// Ends all locks whose time is over, and says whether it could: what keeps one from it is no
    /// reason to leave the others.
    async fn end_what_is_over(&self) -> bool {
        let now = self.ports.clock.now();
        let over = self.ports.cell.read(|state| ended_locks(state, now));
        let mut failures = 0_usize;
        for key in over {
            let Err(error) = self.end_in_turn(&key, now).await else {
                continue;
            };
            failures += 1;
            if failures == 1 {
                warn!(variable.path = %key.path, variable.namespace = %key.namespace,
                    error = error.text(), again_in = ?PAUSE,
                    "a lock that is over could not be ended, so nobody else gets the variable; \
                     if this goes on, see to the disk under the agent's directory");
            }
        }
        failures == 0
    }

    async fn end_in_turn(&self, key: &VariableKey, now: i64) -> Result<(), ServerError> {
        let _turn = self.turn(key).await?;
        Ok(self.end_if_over(key, now).await?)
    }
}

/// What it writes, if it writes.
fn items_of(write: &VariableWrite) -> Option<&Secrets> {
    match write {
        VariableWrite::Set { items, .. } | VariableWrite::Acquire { items, .. } => Some(items),
        VariableWrite::Delete { .. }
        | VariableWrite::Renew { .. }
        | VariableWrite::Release { .. } => None,
    }
}

fn conflict(key: &VariableKey) -> ServerError {
    ServerError::Commit(CommitError::VariableConflict {
        variable: key.clone(),
    })
}

#[cfg(test)]
mod tests;
