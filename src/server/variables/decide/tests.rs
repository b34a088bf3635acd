//! Every write of missing, unlocked and locked variables.

use super::*;
use nomad_csi_claims::state::LockTerms;
use nomad_csi_model::{SealedSecrets, VariablePath};

const NOW: i64 = 1_000 * SECOND;

fn key(path: &str) -> VariableKey {
    VariableKey::new(Namespace::default(), VariablePath::new(path))
}

/// A variable at index 7.
fn free() -> VariableRecord {
    VariableRecord {
        key: key("app"),
        items: SealedSecrets::default(),
        lock: None,
        create_index: 5,
        modify_index: 7,
        create_time: 1,
        modify_time: 1,
    }
}

/// The same variable, locked as `mine`, with seconds since the last renewal.
fn held(since: i64) -> VariableRecord {
    let terms = LockTerms { id: "mine".into(), ttl: 10 * SECOND, delay: 5 * SECOND };
    VariableRecord {
        lock: Some(VariableLock { terms, renewed_at: NOW - since * SECOND }),
        ..free()
    }
}

fn set(check: Option<u64>, holder: Option<&str>) -> VariableWrite {
    VariableWrite::Set {
        items: Secrets::from_iter([("a", "1")]),
        cas: check,
        lock_id: holder.map(ToOwned::to_owned),
    }
}

fn delete(check: Option<u64>) -> VariableWrite {
    VariableWrite::Delete { check }
}

fn acquire(id: Option<&str>, ttl: i64, delay: i64) -> VariableWrite {
    VariableWrite::Acquire {
        items: Secrets::default(),
        id: id.map(ToOwned::to_owned),
        ttl: ttl * SECOND,
        delay: delay * SECOND,
    }
}

#[test]
fn a_write_checks_the_index_first_and_then_the_lock() {
    use Decision::{Conflict, Locked, Write};
    let (free, held) = (free(), held(0));
    for (record, check, holder, expected) in [
        (None, None, None, Write),
        (None, Some(0), None, Write),
        (None, Some(7), None, Conflict),
        (None, None, Some("mine"), Conflict),
        (Some(&free), None, None, Write),
        (Some(&free), Some(7), None, Write),
        (Some(&free), Some(0), None, Conflict),
        (Some(&free), Some(6), None, Conflict),
        (Some(&free), None, Some("mine"), Conflict),
        (Some(&held), None, None, Locked),
        (Some(&held), Some(7), None, Locked),
        (Some(&held), Some(6), None, Conflict),
        (Some(&held), None, Some("other"), Locked),
        (Some(&held), None, Some("mine"), Write),
        (Some(&held), Some(7), Some("mine"), Write),
        (Some(&held), Some(6), Some("mine"), Conflict),
    ] {
        let decision = decide(record, &set(check, holder), NOW);
        assert_eq!(decision, Ok(expected), "{record:?} {check:?} {holder:?}");
    }
}

/// Deleting a missing variable succeeds; deleting a locked one fails.
#[test]
fn a_delete_respects_locks_and_accepts_missing_variables() {
    use Decision::{Conflict, Delete, Locked, Unchanged};
    let (free, held) = (free(), held(0));
    for (record, check, expected) in [
        (None, None, Unchanged),
        (None, Some(0), Unchanged),
        (None, Some(7), Conflict),
        (Some(&free), None, Delete),
        (Some(&free), Some(7), Delete),
        (Some(&free), Some(0), Conflict),
        (Some(&held), None, Locked),
        (Some(&held), Some(7), Locked),
        (Some(&held), Some(6), Conflict),
    ] {
        let decision = decide(record, &delete(check), NOW);
        assert_eq!(decision, Ok(expected), "{record:?} {check:?}");
    }
}

/// The lock ID proves ownership. During the delay of an expired lock, other clients are refused.
#[test]
fn a_lock_has_one_holder_until_its_delay_is_over() {
    let (free, held, expired) = (free(), held(0), held(22));
    let lock = |id: Option<&str>, ttl, delay| Decision::Acquire {
        id: id.map(ToOwned::to_owned),
        ttl: ttl * SECOND,
        delay: delay * SECOND,
    };
    for (record, write, expected) in [
        (None, acquire(None, 0, 0), lock(None, 15, 15)),
        (None, acquire(None, 12, 48 * 3600), lock(None, 12, 48 * 3600)),
        (Some(&free), acquire(Some("x"), 0, 1), lock(Some("x"), 15, 1)),
        (Some(&held), acquire(None, 0, 0), Decision::Locked),
        (Some(&held), acquire(Some("x"), 0, 0), Decision::Locked),
        (Some(&held), acquire(Some("mine"), 0, 0), lock(Some("mine"), 15, 15)),
        (Some(&expired), acquire(None, 0, 0), Decision::Locked),
    ] {
        assert_eq!(decide(record, &write, NOW), Ok(expected), "{write:?}");
    }
}

/// An expired lock cannot be renewed, even by its holder.
#[test]
fn a_lock_is_renewed_by_its_holder_before_it_expires() {
    use VariableError::{MissingLockId, NotHeldToRenew, NotLockHolder, NothingToRenew};
    for (record, id, expected) in [
        (Some(held(0)), "mine", Ok(Decision::Renew { id: "mine".into() })),
        (Some(held(19)), "mine", Ok(Decision::Renew { id: "mine".into() })),
        (Some(held(20)), "mine", Err(NotLockHolder)),
        (Some(held(0)), "other", Err(NotLockHolder)),
        (Some(held(0)), "", Err(MissingLockId)),
        (Some(free()), "mine", Err(NotHeldToRenew)),
        (None, "mine", Err(NothingToRenew)),
    ] {
        let write = VariableWrite::Renew { id: id.into() };
        assert_eq!(decide(record.as_ref(), &write, NOW), expected, "{id}");
    }
}

#[test]
fn a_lock_is_released_by_its_holder() {
    use VariableError::{NotHeldToRelease, NothingToRelease};
    for (record, id, expected) in [
        (Some(held(0)), "mine", Ok(Decision::Release { id: "mine".into() })),
        (Some(held(22)), "mine", Ok(Decision::Release { id: "mine".into() })),
        (Some(held(0)), "other", Ok(Decision::Locked)),
        (Some(free()), "mine", Err(NotHeldToRelease)),
        (None, "mine", Err(NothingToRelease)),
    ] {
        let write = VariableWrite::Release { id: id.into() };
        assert_eq!(decide(record.as_ref(), &write, NOW), expected, "{id}");
    }
}

/// Limits are exact to the byte and the nanosecond.
#[test]
fn invalid_writes_are_refused_for_any_record() {
    let items = |bytes: usize| VariableWrite::Set {
        items: Secrets::from_iter([("k", "x".repeat(bytes - 1))]),
        cas: None,
        lock_id: None,
    };
    let invalid = |text: &str| Err(VariableError::Invalid(text.into()));
    let terms = |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Err(VariableError::LockTerms(texts))
    };
    const POSITIVE: &str = "Lock delay and TTL must be positive";
    const BETWEEN: &str = "TTL must be between 10 seconds and 24 hours";
    let release = VariableWrite::Release { id: "x".into() };
    let renew = VariableWrite::Renew { id: "x".into() };
    for (path, write, expected) in [
        ("a", items(65536), Ok(())),
        ("a", items(65537), Err(VariableError::TooLarge)),
        ("a.b", set(None, None), invalid("invalid path \"a.b\"")),
        ("a.b", release, invalid("invalid path \"a.b\"")),
        ("a.b", renew, Ok(())),
        ("a.b", delete(None), Ok(())),
        ("a", acquire(None, 10, 0), Ok(())),
        ("a", acquire(None, 24 * 3600, 0), Ok(())),
        ("a", acquire(None, 9, 0), terms(&[BETWEEN])),
        ("a", acquire(None, 24 * 3600 + 1, 0), terms(&[BETWEEN])),
        ("a", acquire(None, -10, 0), terms(&[POSITIVE, BETWEEN])),
        ("a", acquire(None, 0, -1), terms(&[POSITIVE])),
    ] {
        assert_eq!(check(&key(path), &write), expected, "{path} {write:?}");
    }
    let everywhere = VariableKey::new(Namespace::new("*"), VariablePath::new("a"));
    assert_eq!(
        check(&everywhere, &set(None, None)),
        invalid("can not target wildcard (\"*\")namespace")
    );
}
