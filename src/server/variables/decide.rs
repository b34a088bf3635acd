//! Decides the result of a write from the record, the request and the time. Pure.
//!
//! The index is compared before the lock. A client proves that it holds a lock with the lock's ID.
//! Two deliberate differences from Nomad: a write that names a lock which the variable does not have
//! is a conflict (Nomad stores a lock that never expires), and a write by the lock's holder keeps the
//! lock's TTL and delay.

use crate::error::VariableError;
use nomad_csi_claims::state::{VariableLock, VariableRecord};
use nomad_csi_model::{Namespace, Secrets, VariableKey};

const SECOND: i64 = 1_000_000_000;
/// The default TTL and delay of a lock.
pub(super) const DEFAULT_LOCK_TIME: i64 = 15 * SECOND;
const MIN_TTL: i64 = 10 * SECOND;
const MAX_TTL: i64 = 24 * 3600 * SECOND;

/// A write of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableWrite {
    /// Write the items.
    Set {
        /// All items.
        items: Secrets,
        /// The expected index; 0 if the variable must not exist.
        cas: Option<u64>,
        /// The ID of the lock that the client holds.
        lock_id: Option<String>,
    },
    /// Delete the variable.
    Delete {
        /// The expected index.
        check: Option<u64>,
    },
    /// Write the items and acquire the lock.
    Acquire {
        /// All items, possibly none.
        items: Secrets,
        /// The ID of the lock that the client holds or wants.
        id: Option<String>,
        /// Nanoseconds; 0 is `DEFAULT_LOCK_TIME`.
        ttl: i64,
        /// Nanoseconds; 0 is `DEFAULT_LOCK_TIME`.
        delay: i64,
    },
    /// Renew the lock.
    Renew {
        /// The lock's ID.
        id: String,
    },
    /// Release the lock.
    Release {
        /// The lock's ID.
        id: String,
    },
}

/// The result of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write the items.
    Write,
    /// Write the items and the lock, with a new ID if none is given.
    Acquire {
        id: Option<String>,
        ttl: i64,
        delay: i64,
    },
    Renew {
        id: String,
    },
    Release {
        id: String,
    },
    Delete,
    /// The variable is already absent.
    Unchanged,
    /// The index or lock differs from the expected one; the client may see the variable.
    Conflict,
    /// Another client holds the lock; the client may not see the variable.
    Locked,
}

/// Refuses a write that is invalid for any record.
pub(super) fn check(key: &VariableKey, write: &VariableWrite) -> Result<(), VariableError> {
    let items = match write {
        VariableWrite::Delete { .. } | VariableWrite::Renew { .. } => return Ok(()),
        VariableWrite::Release { .. } => None,
        VariableWrite::Set { items, .. } | VariableWrite::Acquire { items, .. } => Some(items),
    };
    if let Some(problem) = key.path.problem() {
        return Err(VariableError::Invalid(problem.to_string()));
    }
    if key.namespace.as_str() == Namespace::ALL {
        let text = "can not target wildcard (\"*\")namespace";
        return Err(VariableError::Invalid(text.into()));
    }
    if items.is_some_and(|items| items.byte_count() > VariableKey::MAX_BYTES) {
        return Err(VariableError::TooLarge);
    }
    match write {
        VariableWrite::Acquire { ttl, delay, .. } => check_terms(*ttl, *delay),
        VariableWrite::Set { .. }
        | VariableWrite::Delete { .. }
        | VariableWrite::Renew { .. }
        | VariableWrite::Release { .. } => Ok(()),
    }
}

fn check_terms(ttl: i64, delay: i64) -> Result<(), VariableError> {
    let mut problems = vec![];
    if ttl < 0 || delay < 0 {
        problems.push("Lock delay and TTL must be positive".to_owned());
    }
    if ttl != 0 && !(MIN_TTL..=MAX_TTL).contains(&ttl) {
        problems.push("TTL must be between 10 seconds and 24 hours".to_owned());
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(VariableError::LockTerms(problems))
}

/// Decides the result of a write at that time.
pub(super) fn decide(
    record: Option<&VariableRecord>,
    write: &VariableWrite,
    now: i64,
) -> Result<Decision, VariableError> {
    let lock = record.and_then(|record| record.lock.as_ref());
    match write {
        VariableWrite::Set { cas: check, lock_id: holder, .. } => {
            Ok(if is_conflict(record, *check) {
                Decision::Conflict
            } else {
                match (lock, holder) {
                    (None, None) => Decision::Write,
                    (Some(lock), Some(id)) if lock.terms.id == *id => Decision::Write,
                    (None, Some(_)) => Decision::Conflict,
                    (Some(_), _) => Decision::Locked,
                }
            })
        }
        VariableWrite::Delete { check } => Ok(match (record, lock) {
            _ if is_conflict(record, *check) => Decision::Conflict,
            (None, _) => Decision::Unchanged,
            (Some(_), None) => Decision::Delete,
            (Some(_), Some(_)) => Decision::Locked,
        }),
        VariableWrite::Acquire { id, ttl, delay, .. } => {
            Ok(acquire(lock, id.as_deref(), *ttl, *delay))
        }
        VariableWrite::Renew { id } => renew(record, id, now),
        VariableWrite::Release { id } => release(record, id),
    }
}

/// Returns whether the index differs from the expected one.
fn is_conflict(record: Option<&VariableRecord>, check: Option<u64>) -> bool {
    let index = record.map_or(0, |record| record.modify_index);
    check.is_some_and(|expected| expected != index)
}

fn acquire(lock: Option<&VariableLock>, id: Option<&str>, ttl: i64, delay: i64) -> Decision {
    let or_default = |time| if time == 0 { DEFAULT_LOCK_TIME } else { time };
    match lock {
        Some(lock) if id != Some(lock.terms.id.as_str()) => Decision::Locked,
        Some(_) | None => Decision::Acquire {
            id: id.map(ToOwned::to_owned),
            ttl: or_default(ttl),
            delay: or_default(delay),
        },
    }
}

/// An expired lock cannot be renewed, even while its delay still protects it.
fn renew(record: Option<&VariableRecord>, id: &str, now: i64) -> Result<Decision, VariableError> {
    if id.is_empty() {
        return Err(VariableError::MissingLockId);
    }
    let record = record.ok_or(VariableError::NothingToRenew)?;
    match &record.lock {
        None => Err(VariableError::NotHeldToRenew),
        Some(lock) if lock.terms.id != *id || lock.expires_at() <= now => {
            Err(VariableError::NotLockHolder)
        }
        Some(_) => Ok(Decision::Renew { id: id.to_owned() }),
    }
}

fn release(record: Option<&VariableRecord>, id: &str) -> Result<Decision, VariableError> {
    let record = record.ok_or(VariableError::NothingToRelease)?;
    match &record.lock {
        None => Err(VariableError::NotHeldToRelease),
        Some(lock) if lock.terms.id != *id => Ok(Decision::Locked),
        Some(_) => Ok(Decision::Release { id: id.to_owned() }),
    }
}

#[cfg(test)]
mod tests;
