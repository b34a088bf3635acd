//! The names are unique, stable, and valid for every provider.

use super::*;
use crate::state::event::EventKind;
use crate::state::samples::{create_intended, created, key, started, state_of};
use nomad_csi_model::NamespacedId;

/// Nomad sends names that two volumes may share (W13).
#[test]
fn provider_names_differ_between_volumes() {
    let name = |state: &State, key: &NamespacedId| provider_name(state, state.record(key).unwrap());
    let (a, b) = (key("default", "db"), key("prod", "db"));
    let abandoned = EventKind::VolumeCreateAbandoned { key: a.clone(), may_remain: None };
    let first = state_of([started(), create_intended(&a), create_intended(&b)]);
    let again = state_of([started(), create_intended(&a), abandoned, create_intended(&a)]);
    let origin = EventKind::AgentStarted { origin: "another agent".to_owned() };
    let elsewhere = state_of([origin, create_intended(&a)]);
    let done = state_of([started(), create_intended(&a), created(&a, "ext-1")]);
    let all = [name(&first, &a), name(&first, &b), name(&again, &a), name(&elsewhere, &a)];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), 4, "{all:?}");
    assert_eq!(name(&done, &a), all[0], "the name stays after creation");
}

#[test]
fn provider_names_are_valid_for_the_strictest_provider() {
    let long = "x".repeat(128);
    for (id, readable) in [
        ("db", "csi-db-"),
        ("DB_0[1]", "csi-db-0-1-"),
        ("9lives", "csi-9lives-"),
        ("日本", "csi-"),
        ("a\u{0}b", "csi-a-b-"),
        (&*long, "csi-xxxxxxxxxxxxxxxxxxxxxxxx-"),
        ("twenty-three-characters-and-more", "csi-twenty-three-characters-"),
    ] {
        let key = key("default", id);
        let state = state_of([started(), create_intended(&key)]);
        let name = provider_name(&state, state.record(&key).unwrap());
        assert!(name.starts_with(readable) && name.len() == readable.len() + 32, "{name}");
        assert!(name.len() <= 63, "{name}");
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(name.chars().all(fits), "{name}");
    }
}
