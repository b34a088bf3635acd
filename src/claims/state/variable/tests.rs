//! The validity and the effect of each event.

use super::super::apply::{EventConflict, apply, check};
use super::super::event::{Event, EventKind};
use super::super::invariant::violations;
use super::super::tables::State;
use super::super::variable_list::{VariableFilter, VariableToken, variables};
use super::*;
use nomad_csi_model::{Namespace, VariablePath};

const SECOND: i64 = 1_000_000_000;

fn key(namespace: &str, path: &str) -> VariableKey {
    VariableKey::new(Namespace::new(namespace), VariablePath::new(path))
}

fn items(byte: u8) -> SealedSecrets {
    SealedSecrets::new(vec![byte])
}

fn acquired(id: &str, byte: u8) -> VariableEvent {
    VariableEvent::LockAcquired {
        items: items(byte),
        terms: LockTerms { id: id.into(), ttl: 10 * SECOND, delay: 5 * SECOND },
    }
}

fn apply_checked(
    state: &mut State,
    at: i64,
    key: &VariableKey,
    event: VariableEvent,
) -> Result<(), EventConflict> {
    let kind = EventKind::Variable { key: key.clone(), event };
    let event = Event::new(at, kind);
    let result = check(state, &event);
    apply(state, &event);
    assert_eq!(violations(state), Vec::<String>::new());
    result
}

/// The effect of an event on a missing, an unlocked and a locked variable: `None` if the event is not
/// valid, otherwise whether the variable exists and is locked.
#[test]
fn each_event_is_valid_only_for_its_lock_state() {
    let id = || "mine".to_owned();
    let (deleted, unlocked, locked) = (Some(None), Some(Some(false)), Some(Some(true)));
    for (event, expected) in [
        (VariableEvent::Written { items: items(9) }, [unlocked, unlocked, locked]),
        (acquired("mine", 9), [locked, locked, locked]),
        (acquired("other", 9), [locked, locked, None]),
        (VariableEvent::LockRenewed { id: id() }, [None, None, locked]),
        (VariableEvent::LockReleased { id: id() }, [None, None, unlocked]),
        (VariableEvent::LockExpired { id: id() }, [None, None, unlocked]),
        (VariableEvent::LockExpired { id: "x".into() }, [None, None, None]),
        (VariableEvent::Deleted, [None, deleted, None]),
    ] {
        let histories =
            [vec![], vec![VariableEvent::Written { items: items(1) }], vec![acquired("mine", 1)]];
        for (before, expected) in histories.into_iter().zip(expected) {
            let (mut state, app) = (State::default(), key("default", "app"));
            let case = format!("{event:?} after {before:?}");
            for event in before {
                apply_checked(&mut state, 1, &app, event).unwrap();
            }
            let before = state.clone();
            let result = apply_checked(&mut state, 2, &app, event.clone());
            let is_locked = state.variable(&app).map(|record| record.lock.is_some());
            match expected {
                Some(expected) => {
                    assert_eq!((result, is_locked), (Ok(()), expected), "{case}");
                }
                None => {
                    assert!(result.is_err(), "{case}");
                    let index = before.index;
                    assert_eq!(State { index, ..state }, before, "{case}");
                }
            }
        }
    }
}

/// As in Nomad, the end of a lock changes the variable but is not a write, and a renewal is invisible.
#[test]
fn indexes_and_times_change_as_in_nomad() {
    let (mut state, app) = (State::default(), key("default", "app"));
    let mut observed = vec![];
    let id = || "mine".to_owned();
    for (at, event) in [
        (1, VariableEvent::Written { items: items(1) }),
        (2, acquired("mine", 2)),
        (3, VariableEvent::LockRenewed { id: id() }),
        (4, VariableEvent::Written { items: items(3) }),
        (5, VariableEvent::LockReleased { id: id() }),
    ] {
        apply_checked(&mut state, at, &app, event).unwrap();
        let record = state.variable(&app).unwrap();
        assert_eq!((record.create_index, record.create_time), (2, 1));
        observed.push((record.modify_index, record.modify_time, state.variables_index()));
    }
    assert_eq!(observed, [(2, 1, 2), (3, 2, 3), (3, 2, 3), (5, 4, 5), (6, 4, 6)]);
    assert_eq!(state.variable(&app).unwrap().items, items(3));
}

#[test]
fn a_lock_lasts_for_twice_its_ttl_plus_its_delay() {
    let (mut state, app) = (State::default(), key("default", "app"));
    apply_checked(&mut state, 100 * SECOND, &app, acquired("mine", 1)).unwrap();
    let renewed = VariableEvent::LockRenewed { id: "mine".into() };
    apply_checked(&mut state, 107 * SECOND, &app, renewed).unwrap();
    let lock = state.variable(&app).unwrap().lock.clone().unwrap();
    assert_eq!(lock.expires_at(), 127 * SECOND);
    assert_eq!(lock.ends_at(), 132 * SECOND);
}

/// Lists agree with Nomad's List Variables API.
#[test]
fn lists_are_sorted_filtered_and_paged() {
    let mut state = State::default();
    let all = [
        ("prod", "app/one"),
        ("default", "b"),
        ("default", "app/two"),
        ("default", "app/one"),
        ("a.b", "app/x"),
        ("default", "apple"),
    ];
    for (namespace, path) in all {
        let written = VariableEvent::Written { items: items(1) };
        apply_checked(&mut state, 1, &key(namespace, path), written).unwrap();
    }
    let list = |namespace: &str, prefix: &str, limit: usize| {
        let filter =
            VariableFilter { namespace: Namespace::new(namespace), prefix: prefix.to_owned() };
        let (mut found, mut start) = (vec![], None);
        loop {
            let page = variables(&state, &filter, start.as_ref(), limit, |_| true);
            assert!(limit == 0 || page.variables.len() <= limit);
            let names = page.variables.iter().map(|record| {
                let VariableKey { namespace, path } = &record.key;
                format!("{namespace}:{path}")
            });
            found.extend(names);
            match page.next {
                Some(next) => start = Some(VariableToken::parse(&next.to_string()).unwrap()),
                None => return found.join(" "),
            }
        }
    };
    for limit in [0, 1, 2, 5] {
        for (namespace, prefix, expected) in [
            ("default", "", "default:app/one default:app/two default:apple default:b"),
            ("default", "app/", "default:app/one default:app/two"),
            ("default", "ap", "default:app/one default:app/two default:apple"),
            ("default", "zzz", ""),
            ("*", "app/", "a.b:app/x default:app/one default:app/two prod:app/one"),
            ("unknown", "", ""),
        ] {
            assert_eq!(list(namespace, prefix, limit), expected, "{namespace} {prefix} {limit}");
        }
    }
}
