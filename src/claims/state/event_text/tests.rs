//! Every event has words of its own, without secrets.

use std::collections::BTreeMap;

use super::*;
use crate::state::samples::History;

#[test]
fn every_kind_of_event_has_words() {
    let mut texts = BTreeMap::new();
    for event in History::new(3).take(6000) {
        let text = event_text(&event.kind);
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
        let name = match &event.kind {
            EventKind::Claim { event, .. } => event.name(),
            kind => kind.name(),
        };
        texts.entry(name).or_insert(text);
    }
    let expected = [
        ("claim granted", "claimed for "),
        ("claim release requested", "release of the claim of allocation `"),
        ("claim step started", " started, by plugin allocation `task-"),
        ("claim step failed", " failed and is repeated: UNAVAILABLE"),
        ("claim released", " is gone"),
        ("claims orphaned", " by force; "),
        ("node lost", " was lost: fenced by an operator"),
        ("volume create intended", "creation began with plugin `hostpath`, 1GiB to 2GiB"),
        ("volume created", "created as `ext-"),
        ("volume deleted", "deleted at the provider, with its data"),
    ];
    for (name, part) in expected {
        assert!(texts[name].contains(part), "{name}: {}", texts[name]);
    }
}
