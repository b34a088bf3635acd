use super::*;
use crate::plan::ledger::{Actor, Intent, IntentStep, LedgerKey, Ownership, SetName, StoredValue};
use crate::plan::pin::Pin;
use crate::plan::samples::{existing, spec, wanted};
use crate::spec::VolumeSpec;

fn set() -> LedgerSet {
    LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]))
}

fn unchanged(spec: Option<VolumeSpec>) -> Plan {
    Plan {
        volumes: vec![Planned {
            key: existing().key(),
            spec,
            action: Action::Unchanged,
            pin: Pin::of(Some(&existing())),
            stakes: None,
            depends_on: vec![],
            warnings: vec![],
        }],
        remarks: vec![],
    }
}

#[test]
fn news_are_what_the_ledger_does_not_say() {
    let protecting = |protect| {
        Some(VolumeSpec {
            protect,
            ..spec(wanted())
        })
    };
    for (spec, owned, expected) in [
        (protecting(None), None, vec![Finding::TakenIn]),
        (
            protecting(Some(true)),
            None,
            vec![Finding::TakenIn, Finding::Protected],
        ),
        (protecting(Some(true)), Some(true), vec![]),
        (protecting(None), Some(true), vec![]),
        (
            protecting(Some(false)),
            Some(true),
            vec![Finding::Unprotected],
        ),
        (None, Some(false), vec![Finding::Gone]),
        (None, None, vec![]),
    ] {
        let mut set = set();
        if let Some(protect) = owned {
            let ownership = Ownership {
                protect,
                ..Ownership::default()
            };
            set.own(existing().key(), ownership);
        }
        let found = findings(&unchanged(spec.clone()), &set);
        let found: Vec<_> = found.into_iter().map(|(_, finding)| finding).collect();
        assert_eq!(found, expected, "{spec:?} {owned:?}");
    }
}

/// A step that nobody ended is closed by what was read, and hidden values stay doubtful.
#[test]
fn an_intent_of_a_volume_that_nobody_wants_is_closed_and_owns_nothing() {
    let key = existing().key();
    for (step, secrets) in [
        (IntentStep::Register, StoredValue::Unknown),
        (IntentStep::Deregister, StoredValue::Empty),
    ] {
        let mut set = set();
        let by = Actor {
            user: "ada".into(),
            host: "build-7".into(),
            process: 7,
            command: "apply".into(),
        };
        set.own(key.clone(), Ownership::default());
        set.record_none(&key, crate::model::HiddenField::Secrets);
        set.intend(key.clone(), Intent { step, since: 5, by });
        let observed = Observed::default();
        assert_eq!(unfinished(&set, &observed).len(), 1);
        note_findings(&mut set, &Plan::default(), &observed, 9);
        assert_eq!(set.intents().count(), 0);
        assert_eq!(set.secrets(&key), secrets, "{step:?}");
    }
}
