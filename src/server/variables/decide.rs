//! What a write of a variable comes to: one pure function from what is on record, what is asked and
//! the time, to an event or to a refusal (`nomad-neighbour-apis` 1.7, 1.9, 2.3 to 2.6).
//!
//! The index is compared before the lock is looked at. Who names the lock's ID is its holder. Where
//! Nomad is left, it is on purpose: a write that names a lock which nobody holds is refused, where
//! Nomad stores a lock that never ends and lets a holder who has lost it write; and a holder's write
//! leaves his lock's terms as they are.

use crate::model::{Namespace, Secrets, VariableKey};
use crate::server::error::VariableError;
use crate::state::{VariableLock, VariableRecord};

const SECOND: i64 = 1_000_000_000;
/// What a lock's times are if they are not given.
pub(super) const DEFAULT_TIME: i64 = 15 * SECOND;
const SHORTEST: i64 = 10 * SECOND;
const LONGEST: i64 = 24 * 3600 * SECOND;

/// What somebody wants done with a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableWrite {
    /// Write it.
    Set {
        /// All of it.
        items: Secrets,
        /// Only if its index is this; 0 if it must not exist yet.
        check: Option<u64>,
        /// The lock that the writer says he holds.
        holder: Option<String>,
    },
    /// Remove it.
    Delete {
        /// Only if its index is this.
        check: Option<u64>,
    },
    /// Write it and hold it.
    Acquire {
        /// All of it, also if that is nothing.
        items: Secrets,
        /// The lock that he holds already, or the ID that he wants.
        id: Option<String>,
        /// Nanoseconds; 0 is [`DEFAULT_TIME`].
        ttl: i64,
        /// Nanoseconds; 0 is [`DEFAULT_TIME`].
        delay: i64,
    },
    /// Go on holding it.
    Renew {
        /// The lock.
        id: String,
    },
    /// Hold it no more.
    Release {
        /// The lock.
        id: String,
    },
}

/// What a write comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Items, as given.
    Write,
    /// Items, as given, and a lock; without an ID a new one is to be made.
    Lock {
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
    /// It is as it should be.
    Nothing,
    /// It is otherwise than the writer said; he may see how.
    Differs,
    /// Somebody else holds it; who and what is not shown.
    Held,
}

/// Refuses what can never be, whatever is on record.
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
    if items.is_some_and(|items| items.bytes() > VariableKey::MAX_BYTES) {
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
    if ttl != 0 && !(SHORTEST..=LONGEST).contains(&ttl) {
        problems.push("TTL must be between 10 seconds and 24 hours".to_owned());
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(VariableError::LockTerms(problems))
}

/// What the write comes to at that time.
pub(super) fn decide(
    record: Option<&VariableRecord>,
    write: &VariableWrite,
    now: i64,
) -> Result<Decision, VariableError> {
    let lock = record.and_then(|record| record.lock.as_ref());
    match write {
        VariableWrite::Set { check, holder, .. } => Ok(if differs(record, *check) {
            Decision::Differs
        } else {
            match (lock, holder) {
                (None, None) => Decision::Write,
                (Some(lock), Some(id)) if lock.terms.id == *id => Decision::Write,
                (None, Some(_)) => Decision::Differs,
                (Some(_), _) => Decision::Held,
            }
        }),
        VariableWrite::Delete { check } => Ok(match (record, lock) {
            _ if differs(record, *check) => Decision::Differs,
            (None, _) => Decision::Nothing,
            (Some(_), None) => Decision::Delete,
            (Some(_), Some(_)) => Decision::Held,
        }),
        VariableWrite::Acquire { id, ttl, delay, .. } => {
            Ok(acquire(lock, id.as_deref(), *ttl, *delay))
        }
        VariableWrite::Renew { id } => renew(record, id, now),
        VariableWrite::Release { id } => release(record, id),
    }
}

/// Whether the variable is not as the writer says that he has seen it.
fn differs(record: Option<&VariableRecord>, check: Option<u64>) -> bool {
    let index = record.map_or(0, |record| record.modify_index);
    check.is_some_and(|expected| expected != index)
}

fn acquire(lock: Option<&VariableLock>, id: Option<&str>, ttl: i64, delay: i64) -> Decision {
    let or_default = |time| if time == 0 { DEFAULT_TIME } else { time };
    match lock {
        Some(lock) if id != Some(lock.terms.id.as_str()) => Decision::Held,
        Some(_) | None => Decision::Lock {
            id: id.map(ToOwned::to_owned),
            ttl: or_default(ttl),
            delay: or_default(delay),
        },
    }
}

/// A lock that has expired is its holder's no more, although nobody else can have it yet.
fn renew(record: Option<&VariableRecord>, id: &str, now: i64) -> Result<Decision, VariableError> {
    if id.is_empty() {
        return Err(VariableError::MissingLockId);
    }
    let record = record.ok_or(VariableError::NothingToRenew)?;
    match &record.lock {
        None => Err(VariableError::NotHeldToRenew),
        Some(lock) if lock.terms.id != *id || lock.expires_at() <= now => {
            Err(VariableError::NotHolder)
        }
        Some(_) => Ok(Decision::Renew { id: id.to_owned() }),
    }
}

fn release(record: Option<&VariableRecord>, id: &str) -> Result<Decision, VariableError> {
    let record = record.ok_or(VariableError::NothingToRelease)?;
    match &record.lock {
        None => Err(VariableError::NotHeldToRelease),
        Some(lock) if lock.terms.id != *id => Ok(Decision::Held),
        Some(_) => Ok(Decision::Release { id: id.to_owned() }),
    }
}

#[cfg(test)]
mod tests;
