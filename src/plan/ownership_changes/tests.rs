use super::*;
use crate::plan::ledger::{Actor, Intent, IntentStep, LedgerKey, Ownership, SetName, StoredValue};
use crate::plan::samples::{existing, spec, wanted};
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
