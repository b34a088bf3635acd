//! What is kept of a variable, and what can happen to it.
//!
//! Items may be secrets, so they are here only sealed. A lock is data, no timer: until when it holds
//! follows from what is on record and from the time that whoever asks has, so a restart, a replay and
//! a second agent come to the same. Renewals are on record too, which Nomad's are not: a lock whose
//! holder died with the agent ends when it would have ended, however often agents come and go, and
//! not one life of an agent later (`nomad-neighbour-apis` 2.6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::tables::State;
use crate::model::{SealedSecrets, VariableKey};

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableRecord {
    /// Namespace and path.
    pub key: VariableKey,
    /// What it holds; a lock may hold a variable that holds nothing.
    pub items: SealedSecrets,
    /// Who holds it, if anybody does.
    pub lock: Option<VariableLock>,
    /// Index of its first write.
    pub create_index: u64,
    /// Index of its last change, a lock's coming and going included, its renewals not.
    pub modify_index: u64,
    /// When it was first written, nanoseconds since the epoch.
    pub create_time: i64,
    /// When it was last written; a lock's end is no write.
    pub modify_time: i64,
}

/// What a holder asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockTerms {
    /// Who names it is the holder.
    pub id: String,
    /// The holder counts on it for so long after a renewal, in nanoseconds.
    pub ttl: i64,
    /// Nobody else gets it for so long after it expired, in nanoseconds.
    pub delay: i64,
}

/// A lock that is held, or that nobody else can have yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableLock {
    /// What its holder asked for.
    pub terms: LockTerms,
    /// When it was acquired or last renewed, nanoseconds since the epoch.
    pub renewed_at: i64,
}

impl VariableLock {
    /// From then on it cannot be renewed. That is twice the time that the holder counts on, so that
    /// he gives up before the server does.
    pub fn expires_at(&self) -> i64 {
        self.renewed_at
            .saturating_add(self.terms.ttl.saturating_mul(2))
    }

    /// From then on nobody holds the variable.
    pub fn ends_at(&self) -> i64 {
        self.expires_at().saturating_add(self.terms.delay)
    }
}

/// What happened to a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VariableEvent {
    /// It was written; if somebody holds it, by him.
    Written {
        /// All of them, sealed.
        items: SealedSecrets,
    },
    /// It was written, and is held from now on; if it was held before, by the same holder.
    LockAcquired {
        /// All of them, sealed.
        items: SealedSecrets,
        /// By whom, and on which terms.
        terms: LockTerms,
    },
    /// Its holder goes on holding it.
    LockRenewed {
        /// The lock's.
        id: String,
    },
    /// Its holder gave it up.
    LockReleased {
        /// The lock's.
        id: String,
    },
    /// Its holder did not renew it, and the time in which nobody else can have it is over.
    LockExpired {
        /// The lock's.
        id: String,
    },
    /// It is gone.
    Deleted,
}

impl VariableEvent {
    /// Its name, for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Written { .. } => "variable written",
            Self::LockAcquired { .. } => "variable lock acquired",
            Self::LockRenewed { .. } => "variable lock renewed",
            Self::LockReleased { .. } => "variable lock released",
            Self::LockExpired { .. } => "variable lock expired",
            Self::Deleted => "variable deleted",
        }
    }

    /// Whether it can happen to that variable, or where there is none.
    pub(super) fn fits(&self, record: Option<&VariableRecord>) -> bool {
        let lock = record.and_then(|record| record.lock.as_ref());
        let holder = lock.map(|lock| &lock.terms.id);
        match self {
            Self::Written { .. } => true,
            Self::LockAcquired { terms, .. } => holder.is_none_or(|id| *id == terms.id),
            Self::LockRenewed { id } | Self::LockReleased { id } | Self::LockExpired { id } => {
                holder == Some(id)
            }
            Self::Deleted => record.is_some() && lock.is_none(),
        }
    }

    /// The variable afterwards, at that index and time; `None` if it is gone. Only of one that fits.
    pub(super) fn applied(
        &self,
        key: &VariableKey,
        before: Option<&VariableRecord>,
        (index, time): (u64, i64),
    ) -> Option<VariableRecord> {
        let new = || VariableRecord {
            key: key.clone(),
            items: SealedSecrets::default(),
            lock: None,
            create_index: index,
            modify_index: index,
            create_time: time,
            modify_time: time,
        };
        let mut record = before.cloned().unwrap_or_else(new);
        match self {
            Self::Deleted => return None,
            Self::LockRenewed { .. } => {
                if let Some(lock) = &mut record.lock {
                    lock.renewed_at = time;
                }
                return Some(record);
            }
            Self::Written { items } => {
                record.items = items.clone();
                record.modify_time = time;
            }
            Self::LockAcquired { items, terms } => {
                record.items = items.clone();
                record.modify_time = time;
                record.lock = Some(VariableLock {
                    terms: terms.clone(),
                    renewed_at: time,
                });
            }
            Self::LockReleased { .. } | Self::LockExpired { .. } => record.lock = None,
        }
        record.modify_index = index;
        Some(record)
    }
}

/// The next state; see [`super::apply::apply`]. Renewals move no index that readers wait for.
pub(super) fn apply(state: &mut State, key: &VariableKey, event: &VariableEvent, time: i64) {
    let index = state.index;
    let before = state.variables.get(key).map(Arc::as_ref);
    let after = event.applied(key, before, (index, time));
    let is_renewal = matches!(event, VariableEvent::LockRenewed { .. });
    match after {
        Some(record) => state.put_variable(Arc::new(record)),
        None => state.remove_variable(key),
    }
    if !is_renewal {
        state.variables_index = index;
    }
}

/// An agent starts at that time: no lock can have been renewed later, so the clock was set back, and
/// counting from a time to come would hold the lock until then.
pub(super) fn agent_started(state: &mut State, time: i64) {
    let held: Vec<_> = state.lock_ends.iter().map(|(_, key)| key.clone()).collect();
    for key in held {
        let Some(record) = state.variables.get(&key) else {
            continue;
        };
        let mut record = VariableRecord::clone(record);
        if let Some(lock) = &mut record.lock
            && lock.renewed_at > time
        {
            lock.renewed_at = time;
            state.put_variable(Arc::new(record));
        }
    }
}

/// What is wrong with a variable, if anything is.
pub(super) fn problem(
    state: &State,
    key: &VariableKey,
    record: &VariableRecord,
) -> Option<&'static str> {
    let order = [
        State::FIRST_INDEX + 1,
        record.create_index,
        record.modify_index,
        state.variables_index,
    ];
    let lock = record.lock.as_ref();
    if record.key != *key {
        Some("stands under another variable's key")
    } else if !order.is_sorted() {
        Some("has indexes out of order")
    } else if lock.is_some_and(|lock| lock.terms.id.is_empty()) {
        Some("is held by nobody")
    } else if lock.is_some_and(|lock| lock.terms.ttl <= 0 || lock.terms.delay < 0) {
        Some("is held for no time")
    } else {
        None
    }
}

#[cfg(test)]
mod tests;
