//! Equal parts are one part, and unused parts go.

use super::*;
use crate::state::samples::{key, registered, state_of};
use crate::state::{EventKind, State};

fn register(count: usize) -> Vec<EventKind> {
    let volume = |n| registered(&key("default", &format!("v{n}")), &format!("ext-{n}"));
    (0..count).map(volume).collect()
}

#[test]
fn equal_parts_of_records_are_the_same_memory() {
    let state = state_of(register(2));
    let records: Vec<_> = state.records().collect();
    let [one, other] = records[..] else { panic!("{records:?}") };
    let (a, b) = (&one.definition, &other.definition);
    assert!(Arc::ptr_eq(&a.parameters.0, &b.parameters.0));
    assert!(Arc::ptr_eq(&a.capabilities.0, &b.capabilities.0));
    assert!(is_same(a.plugin_id.as_str(), b.plugin_id.as_str()));
    assert!(is_same(a.key.namespace.as_str(), b.key.namespace.as_str()));
    let (a, b) = (&one.provided, &other.provided);
    assert!(Arc::ptr_eq(&a.topologies.0, &b.topologies.0));
    assert!(is_same(&a.context.0[0].0, &b.context.0[0].0));
    assert!(is_same(&a.provider, &b.provider));
}

/// Otherwise the agent would keep every parameter that it has ever seen.
#[test]
fn parts_that_no_record_has_are_removed() {
    let mut state = State::default();
    for number in 0..5000 {
        let mut record = (**state_of(register(1)).records().next().unwrap()).clone();
        let unique = [("number".to_owned(), number.to_string())];
        record.definition.parameters = TextMap::from(unique);
        state.put_new(record);
    }
    assert!(state.interner.len() < 2 * FIRST_LIMIT, "{}", state.interner.len());
}
