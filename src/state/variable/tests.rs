//! Which event fits where, and what each of them leaves.

use super::super::apply::{Misfit, apply, check};
use super::super::event::{Event, EventKind};
use super::super::invariant::violations;
use super::super::variable_list::{VariableFilter, VariableToken, variables};
use super::*;
use crate::model::{Namespace, VariablePath};

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
        terms: LockTerms {
            id: id.into(),
            ttl: 10 * SECOND,
            delay: 5 * SECOND,
        },
    }
}

fn happens(
    state: &mut State,
    at: i64,
    key: &VariableKey,
    event: VariableEvent,
) -> Result<(), Misfit> {
    let kind = EventKind::Variable {
        key: key.clone(),
        event,
    };
    let event = Event::new(at, kind);
    let fits = check(state, &event);
    apply(state, &event);
    assert_eq!(violations(state), Vec::<String>::new());
    fits
}

/// What an event leaves of no variable, a free one and a held one: whether there is one, and whether
/// it is held; nothing if it does not fit.
#[test]
fn each_event_fits_where_it_can_happen() {
    let id = || "mine".to_owned();
    let (gone, free, held) = (Some(None), Some(Some(false)), Some(Some(true)));
    for (event, expected) in [
        (
            VariableEvent::Written { items: items(9) },
            [free, free, held],
        ),
        (acquired("mine", 9), [held, held, held]),
        (acquired("other", 9), [held, held, None]),
        (VariableEvent::LockRenewed { id: id() }, [None, None, held]),
        (VariableEvent::LockReleased { id: id() }, [None, None, free]),
        (VariableEvent::LockExpired { id: id() }, [None, None, free]),
        (
            VariableEvent::LockExpired { id: "x".into() },
            [None, None, None],
        ),
        (VariableEvent::Deleted, [None, gone, None]),
    ] {
        let befores = [
            vec![],
            vec![VariableEvent::Written { items: items(1) }],
            vec![acquired("mine", 1)],
        ];
        for (before, expected) in befores.into_iter().zip(expected) {
            let (mut state, app) = (State::default(), key("default", "app"));
            let case = format!("{event:?} after {before:?}");
            for event in before {
                happens(&mut state, 1, &app, event).unwrap();
            }
            let untouched = state.clone();
            let fits = happens(&mut state, 2, &app, event.clone());
            let is_held = state.variable(&app).map(|record| record.lock.is_some());
            match expected {
                Some(expected) => {
                    assert_eq!((fits, is_held), (Ok(()), expected), "{case}");
                }
                None => {
                    assert!(fits.is_err(), "{case}");
                    let index = untouched.index;
                    assert_eq!(State { index, ..state }, untouched, "{case}");
                }
            }
        }
    }
}

/// `nomad-neighbour-apis` 2.5, 2.6: the end of a lock changes the variable and is no write of it; a
/// renewal changes nothing that readers see.
#[test]
fn indexes_and_times_move_as_on_nomad() {
    let (mut state, app) = (State::default(), key("default", "app"));
    let mut seen = vec![];
    let id = || "mine".to_owned();
    for (at, event) in [
        (1, VariableEvent::Written { items: items(1) }),
        (2, acquired("mine", 2)),
        (3, VariableEvent::LockRenewed { id: id() }),
        (4, VariableEvent::Written { items: items(3) }),
        (5, VariableEvent::LockReleased { id: id() }),
    ] {
        happens(&mut state, at, &app, event).unwrap();
        let record = state.variable(&app).unwrap();
        assert_eq!((record.create_index, record.create_time), (2, 1));
        seen.push((
            record.modify_index,
            record.modify_time,
            state.variables_index(),
        ));
    }
    assert_eq!(
        seen,
        [(2, 1, 2), (3, 2, 3), (3, 2, 3), (5, 4, 5), (6, 4, 6)]
    );
    assert_eq!(state.variable(&app).unwrap().items, items(3));
}

#[test]
fn a_lock_holds_for_twice_its_time_and_is_nobodys_for_its_delay() {
    let (mut state, app) = (State::default(), key("default", "app"));
    happens(&mut state, 100 * SECOND, &app, acquired("mine", 1)).unwrap();
    let renewed = VariableEvent::LockRenewed { id: "mine".into() };
    happens(&mut state, 107 * SECOND, &app, renewed).unwrap();
    let lock = state.variable(&app).unwrap().lock.clone().unwrap();
    assert_eq!(lock.expires_at(), 127 * SECOND);
    assert_eq!(lock.ends_at(), 132 * SECOND);
}

/// `nomad-neighbour-apis` 0.4, 1.9.
#[test]
fn lists_are_ordered_filtered_and_cut_into_pages() {
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
        happens(&mut state, 1, &key(namespace, path), written).unwrap();
    }
    let list = |namespace: &str, prefix: &str, limit: usize| {
        let filter = VariableFilter {
            namespace: Namespace::new(namespace),
            prefix: prefix.to_owned(),
        };
        let (mut found, mut start) = (vec![], None);
        loop {
            let page = variables(&state, &filter, start.as_ref(), limit);
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
            (
                "default",
                "",
                "default:app/one default:app/two default:apple default:b",
            ),
            ("default", "app/", "default:app/one default:app/two"),
            (
                "default",
                "ap",
                "default:app/one default:app/two default:apple",
            ),
            ("default", "zzz", ""),
            (
                "*",
                "app/",
                "a.b:app/x default:app/one default:app/two prod:app/one",
            ),
            ("nobody", "", ""),
        ] {
            assert_eq!(
                list(namespace, prefix, limit),
                expected,
                "{namespace} {prefix} {limit}"
            );
        }
    }
}
