use super::*;
use crate::model::Volume;
use crate::plan::ledger::{Actor, Intent, IntentStep, LedgerKey, Ownership, SetName, StoredValue};
use crate::plan::samples::{existing, observed, plugin, spec, wanted};
use crate::plan::volume_version::VolumeVersion;
use crate::spec::VolumeSpec;

fn set() -> LedgerSet {
    LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]))
}

fn unchanged(spec: Option<VolumeSpec>) -> Plan {
    Plan {
        volumes: vec![PlannedVolume {
            key: existing().key(),
            spec,
            action: Action::Unchanged,
            expected_version: VolumeVersion::of(Some(&existing())),
            impact: None,
            protection: None,
            depends_on: vec![],
            warnings: vec![],
        }],
        remarks: vec![],
    }
}

#[test]
fn changes_are_differences_from_the_ledger() {
    let protecting = |protect| {
        Some(VolumeSpec {
            protect,
            ..spec(wanted())
        })
    };
    for (spec, owned, expected) in [
        (protecting(None), None, vec![OwnershipChange::Adopted]),
        (
            protecting(Some(true)),
            None,
            vec![OwnershipChange::Adopted, OwnershipChange::Protected],
        ),
        (protecting(Some(true)), Some(true), vec![]),
        (protecting(None), Some(true), vec![]),
        (
            protecting(Some(false)),
            Some(true),
            vec![OwnershipChange::Unprotected],
        ),
        (None, Some(false), vec![OwnershipChange::Gone]),
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
        let found = ownership_changes(&unchanged(spec.clone()), &set);
        let found: Vec<_> = found.into_iter().map(|(_, finding)| finding).collect();
        assert_eq!(found, expected, "{spec:?} {owned:?}");
    }
}

/// The current state closes an interrupted step; hidden values become unknown.
#[test]
fn the_intent_of_an_unplanned_volume_is_closed_without_ownership() {
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
        set.record_cleared(&key, crate::model::HiddenField::Secrets);
        set.record_intent(key.clone(), Intent { step, since: 5, by });
        let observed = ObservedState::default();
        assert_eq!(interrupted_step_warnings(&set, &observed).len(), 1);
        record_observations(&mut set, &Plan::default(), &observed, 9, None);
        assert_eq!(set.intents().count(), 0);
        assert_eq!(set.secrets(&key), secrets, "{step:?}");
    }
}

/// The note of a verification is recorded again if it says something else, or is a day old.
#[test]
fn an_unchanged_volume_is_recorded_once_a_day() {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    let key = existing().key();
    let plan = unchanged(Some(spec(wanted())));
    let mut set = set();
    let mut record = |at, spec_index| {
        let volume = Volume {
            spec_index,
            ..existing()
        };
        let observed = observed(Some(volume), plugin(|_| {}));
        record_observations(&mut set, &plan, &observed, at, None);
        set.ownership(&key).unwrap().last_verified.unwrap().at
    };
    for (at, spec_index, expected) in [
        (5, 7, 5),
        (5 + DAY - 1, 7, 5),
        (5 + DAY, 7, 5 + DAY),
        (6 + DAY, 8, 6 + DAY),
        // The clock of another machine is behind.
        (9, 8, 9),
    ] {
        assert_eq!(record(at, spec_index), expected, "{at} {spec_index}");
    }
}
