use super::*;
use crate::action::Update;
use crate::inputs::{OwnedSet, PlanInputs, PlanOptions};
use crate::ledger::{Actor, Intent, IntentStep, LedgerKey, Ownership, SetName, StoredValue};
use crate::rules::MergeRules;
use crate::samples::{desired, existing, observed, plugin, spec};
use crate::volume_version::VolumeVersion;
use nomad_csi_model::{Namespace, SecretRefs, UnresolvedRequest, Volume, VolumeId};
use nomad_csi_spec::VolumeSpec;

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
        undeclared: vec![],
    }
}

#[test]
fn changes_are_differences_from_the_ledger() {
    let protecting = |protect| Some(VolumeSpec { protect, ..spec(desired()) });
    for (spec, owned, expected) in [
        (protecting(None), None, vec![OwnershipChange::Adopted]),
        (protecting(Some(true)), None, vec![OwnershipChange::Adopted, OwnershipChange::Protected]),
        (protecting(Some(true)), Some(true), vec![]),
        (protecting(None), Some(true), vec![]),
        (protecting(Some(false)), Some(true), vec![OwnershipChange::Unprotected]),
        (None, Some(false), vec![OwnershipChange::Gone]),
        (None, None, vec![]),
    ] {
        let mut set = set();
        if let Some(protect) = owned {
            let ownership = Ownership { protect, ..Ownership::default() };
            set.own(existing().key(), ownership);
        }
        let found = ownership_changes(&unchanged(spec.clone()), &set);
        let found: Vec<_> = found.into_iter().map(|(_, finding)| finding).collect();
        assert_eq!(found, expected, "{spec:?} {owned:?}");
    }
}

fn intent(step: IntentStep) -> Intent {
    let by =
        Actor { user: "ada".into(), host: "build-7".into(), process: 7, command: "apply".into() };
    Intent { step, since: 5, by }
}

/// The current state closes an interrupted step; hidden values become unknown.
#[test]
fn the_intent_of_an_unplanned_volume_is_closed_without_ownership() {
    let key = existing().key();
    for (step, secrets) in
        [(IntentStep::Register, StoredValue::Unknown), (IntentStep::Deregister, StoredValue::Empty)]
    {
        let mut set = set();
        set.own(key.clone(), Ownership::default());
        set.record_cleared(&key, nomad_csi_model::HiddenField::Secrets);
        set.record_intent(key.clone(), intent(step));
        let observed = ObservedState::default();
        assert_eq!(interrupted_step_warnings(&set, &observed).len(), 1);
        record_observations(&mut set, &Plan::default(), &observed, &BTreeMap::new(), 9, None);
        assert_eq!(set.intents().count(), 0);
        let owned = set.ownership(&key).unwrap();
        let recorded = set.applied_values(&key, owned).secrets();
        assert_eq!(recorded, secrets, "{step:?}");
    }
}

fn secrets(value: &str) -> Secrets {
    Secrets::from_iter([("key", value)])
}

fn file_with(secrets: &Secrets) -> VolumeSpec {
    spec(UnresolvedRequest { secrets: Some(SecretRefs::from(secrets)), ..desired() })
}

/// Plans the file for the set.
fn plan_of(set: &LedgerSet, value: &str) -> Plan {
    let desired = vec![file_with(&secrets(value))];
    let owned = OwnedSet::of(set, &desired, |_| Some(secrets(value)));
    crate::build::build_plan(PlanInputs {
        desired,
        purpose: nomad_csi_spec::Purpose::ByExternalId,
        observed: &observed(Some(existing()), plugin(|_| {})),
        rules: MergeRules::AGENT,
        owned: Some(&owned),
        options: &PlanOptions::default(),
    })
}

/// Records the plan of a file with this secret as an apply does.
fn apply_unchanged(set: &mut LedgerSet, value: &str) {
    let plan = plan_of(set, value);
    let taken = plan.volumes.iter().filter(|one| takes_secrets(one, set));
    let taken = taken.map(|one| (one.key.clone(), secrets(value))).collect();
    let observed = observed(Some(existing()), plugin(|_| {}));
    record_observations(set, &plan, &observed, &taken, 9, None);
}

fn changes_of_update(plan: &Plan) -> Vec<&'static str> {
    let update = plan.volumes[0].action.update();
    let changes = update.map(|update: &Update| update.changes.iter());
    changes.into_iter().flatten().map(|change| change.field).collect()
}

/// The interrupted step may have written the secrets that the file had then.
#[test]
fn after_an_interrupted_write_the_secrets_of_the_file_are_written_again() {
    for (is_owned, step) in
        [(false, IntentStep::Create), (false, IntentStep::Register), (true, IntentStep::Register)]
    {
        let mut set = set();
        if is_owned {
            set.own(existing().key(), Ownership::default());
        }
        set.record_intent(existing().key(), intent(step));
        let changes = changes_of_update(&plan_of(&set, "second"));
        assert_eq!(changes, ["secrets"], "{is_owned}, {step:?}");
    }
}

/// For a volume that the set newly owns, and for one that an earlier program took in without its secrets.
#[test]
fn a_secret_that_changes_after_a_volume_was_taken_in_is_sent() {
    for is_owned in [false, true] {
        let mut set = set();
        if is_owned {
            set.own(existing().key(), Ownership::default());
        }
        apply_unchanged(&mut set, "first");
        assert_eq!(changes_of_update(&plan_of(&set, "first")), [""; 0]);
        assert_eq!(changes_of_update(&plan_of(&set, "second")), ["secrets"]);
        // Only the first secrets are taken.
        apply_unchanged(&mut set, "second");
        assert_eq!(changes_of_update(&plan_of(&set, "second")), ["secrets"]);
    }
}

#[test]
fn secrets_are_not_taken_after_an_interrupted_step() {
    let mut set = set();
    set.record_intent(existing().key(), intent(IntentStep::Create));
    let plan = unchanged(Some(file_with(&secrets("first"))));
    assert!(!takes_secrets(&plan.volumes[0], &set));
    set.clear_intent(&existing().key());
    assert!(takes_secrets(&plan.volumes[0], &set));
}

/// The note of a verification is recorded again if it says something else, or is a day old.
#[test]
fn an_unchanged_volume_is_recorded_once_a_day() {
    const DAY: i64 = 24 * 60 * 60 * 1_000_000_000;
    let key = existing().key();
    let plan = unchanged(Some(spec(desired())));
    let mut set = set();
    let mut record = |at, spec_index| {
        let volume = Volume { spec_index, ..existing() };
        let observed = observed(Some(volume), plugin(|_| {}));
        record_observations(&mut set, &plan, &observed, &BTreeMap::new(), at, None);
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

#[test]
fn interrupted_steps_of_one_run_are_one_warning() {
    let mut set = set();
    let volume =
        |at: usize| NamespacedId::new(Namespace::default(), VolumeId::new(format!("v{at:02}")));
    for at in 0..12 {
        set.record_intent(volume(at), intent(IntentStep::Create));
    }
    set.record_intent(volume(20), intent(IntentStep::Delete));
    let exists = Volume { id: volume(3).id, ..existing() };
    let observed =
        ObservedState { volumes: [(exists.key(), exists)].into(), ..ObservedState::default() };
    let warnings = interrupted_step_warnings(&set, &observed);
    let messages: Vec<&str> = warnings.iter().map(|one| one.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "an earlier run did not complete the creation of 12 volumes",
            "an earlier run did not complete the deletion of volume `v20`"
        ]
    );
    assert_eq!(warnings[0].notes[1], "these exist: v03");
    let gone = &warnings[0].notes[2];
    assert!(gone.starts_with("these do not exist: v00, v01, v02, v04"), "{gone}");
    assert!(gone.ends_with("v10 and 1 more"), "{gone}");
}
