//! The stored data of a variable, and its events.
//!
//! Items may be secrets, so they are sealed. A lock has no timer: its end follows from the record and
//! the current time, so a restart, a replay and a second agent compute the same end. Renewals are
//! events, unlike in Nomad. If the agent and the lock's owner die together, the lock still ends at
//! the same time; restarts do not extend it.

use serde::{Deserialize, Serialize};

use nomad_csi_model::{SealedSecrets, VariableKey};

/// The stored data of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableRecord {
    /// The namespace and path.
    pub key: VariableKey,
    /// The sealed items. A variable with a lock may have no items.
    pub items: SealedSecrets,
    /// The lock, if the variable is locked.
    pub lock: Option<VariableLock>,
    /// The index of the first write.
    pub create_index: u64,
    /// The index of the last change, including acquired and ended locks but not renewals.
    pub modify_index: u64,
    /// The time of the first write, in nanoseconds since the epoch.
    pub create_time: i64,
    /// The time of the last write. The end of a lock is not a write.
    pub modify_time: i64,
}

/// The terms of a lock, which its owner requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockTerms {
    /// The lock's ID. A client that knows it owns the lock.
    pub id: String,
    /// How long the owner relies on the lock after a renewal, in nanoseconds.
    pub ttl: i64,
    /// How long the variable stays locked after the lock expired, in nanoseconds.
    pub delay: i64,
}

/// A lock that is held, or that has expired and still blocks other clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariableLock {
    /// The terms that the owner requested.
    pub terms: LockTerms,
    /// When the lock was acquired or last renewed, in nanoseconds since the epoch.
    pub renewed_at: i64,
}

impl VariableLock {
    /// Returns when the lock can no longer be renewed. That is twice the TTL, so the owner stops
    /// before the server does.
    pub fn expires_at(&self) -> i64 {
        self.renewed_at.saturating_add(self.terms.ttl.saturating_mul(2))
    }

    /// Returns when the variable is no longer locked.
    pub fn ends_at(&self) -> i64 {
        self.expires_at().saturating_add(self.terms.delay)
    }
}

/// The change of a variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VariableEvent {
    /// The variable was written; if it is locked, by the owner of the lock.
    Written {
        /// The complete sealed items.
        items: SealedSecrets,
    },
    /// The variable was written and locked. The owner of its lock may acquire it again.
    LockAcquired {
        /// The complete sealed items.
        items: SealedSecrets,
        /// The ID and the terms of the lock.
        terms: LockTerms,
    },
    /// The owner renewed the lock.
    LockRenewed {
        /// The lock's ID.
        id: String,
    },
    /// The owner released the lock.
    LockReleased {
        /// The lock's ID.
        id: String,
    },
    /// The lock expired and its delay has passed.
    LockExpired {
        /// The lock's ID.
        id: String,
    },
    /// The variable was deleted.
    Deleted,
}

impl VariableEvent {
    /// Returns the event's name for logs and errors.
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

    /// Returns whether the event is valid for this variable, or for a missing one.
    pub(super) fn is_valid(&self, record: Option<&VariableRecord>) -> bool {
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

    /// Returns the variable after a valid event; `None` if it is deleted.
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
                record.lock = Some(VariableLock { terms: terms.clone(), renewed_at: time });
            }
            Self::LockReleased { .. } | Self::LockExpired { .. } => record.lock = None,
        }
        record.modify_index = index;
        Some(record)
    }
}

#[cfg(test)]
mod tests;
