//! Plans and drift agree: if the files are as they were applied, whatever a plan would change is drift.
//!
//! Every field, with every form of the file, of the ledger's hash and of the server's value, under the
//! rules of every server.

use super::*;
use crate::action::{Action, PlannedVolume};
use crate::build::build_plan;
use crate::field_forms::{Field, Form, SHOWN, WRITTEN, bare, fields, minimal, rules};
use crate::inputs::{PlanInputs, PlanOptions};
use crate::ledger::FieldHash;
use crate::samples::{bytes, observed, plugin, spec};
use nomad_csi_model::{ExternalId, SetName, VolumeField};

/// Returns the set after an apply of the file, with one hash in another form.
fn ledger(field: &Field, file: &UnresolvedRequest, hash: Form) -> LedgerSet {
    let name = SetName::parse("web").unwrap();
    let mut set = LedgerSet::new(name, LedgerKey::new([7; 32]));
    let mut applied = set.key().of_desired(file);
    let mut given = minimal();
    (field.write)(&mut given, Form::Given);
    let form: Option<FieldHash> = match hash {
        Form::Absent | Form::Other => None,
        Form::Empty => set.key().of_empty(&bare()).get(field.key).copied(),
        Form::Given => set.key().of_desired(&given).get(field.key).copied(),
    };
    applied.remove(field.key);
    applied.extend(form.map(|hash| (field.key.to_owned(), hash)));
    let ownership = Ownership { applied, ..Ownership::default() };
    set.own(file.key(), ownership);
    set
}

fn plan(
    file: &UnresolvedRequest,
    volume: &Volume,
    set: &LedgerSet,
    rules: MergeRules,
) -> PlannedVolume {
    plan_of(spec(file.clone()), volume, set, rules)
}

fn plan_of(spec: VolumeSpec, volume: &Volume, set: &LedgerSet, rules: MergeRules) -> PlannedVolume {
    let desired = vec![spec];
    let owned = OwnedSet::of(set, &desired, |_| None);
    let observed = observed(Some(volume.clone()), plugin(|_| {}));
    let options = PlanOptions::default();
    let inputs = PlanInputs {
        desired,
        purpose: Purpose::ByExternalId,
        observed: &observed,
        rules,
        owned: Some(&owned),
        options: &options,
    };
    build_plan(inputs).volumes.remove(0)
}

fn drift(
    file: &UnresolvedRequest,
    volume: &Volume,
    set: &LedgerSet,
    rules: MergeRules,
) -> VolumeDrift {
    drift_of_spec(spec(file.clone()), volume, set, rules)
}

fn drift_of_spec(
    spec: VolumeSpec,
    volume: &Volume,
    set: &LedgerSet,
    rules: MergeRules,
) -> VolumeDrift {
    let inputs = DriftInputs {
        desired: &[spec],
        set: Some(set),
        volumes: &[(volume.key(), volume.clone())].into(),
        rules,
        provided: &BTreeMap::new(),
        ignore: &BTreeSet::new(),
    };
    detect_drift(&inputs).remove(0)
}

/// Absent and empty are one value.
fn is_same(one: Form, other: Form) -> bool {
    let value = |form| match form {
        Form::Absent | Form::Empty => Form::Empty,
        Form::Given | Form::Other => form,
    };
    value(one) == value(other)
}

/// The plugin has no other form: a volume never changes it.
#[test]
fn every_field_has_forms() {
    let mut keys: Vec<_> = fields().iter().map(|field| field.key).collect();
    keys.push(VolumeField::PluginId.key());
    for field in VolumeField::ALL {
        assert!(keys.contains(&field.key()), "{} has no forms", field.key());
    }
}

#[test]
fn what_a_plan_of_unchanged_files_would_change_is_drift() {
    let mut changes = 0;
    for field in fields() {
        for (file_form, hash) in
            WRITTEN.into_iter().flat_map(|form| WRITTEN.map(|hash| (form, hash)))
        {
            // Every file gives a capability, and every apply records it.
            let is_required = field.key == "capability";
            if !is_same(file_form, hash) || is_required && hash != Form::Given {
                continue;
            }
            let mut file = minimal();
            (field.write)(&mut file, file_form);
            let set = ledger(&field, &file, hash);
            for rules in rules() {
                for (shown, has_topology) in
                    SHOWN.into_iter().flat_map(|form| [(form, false), (form, true)])
                {
                    let mut volume = bare();
                    if !has_topology {
                        volume.topologies.clear();
                    }
                    (field.show)(&mut volume, shown);
                    let planned = plan(&file, &volume, &set, rules);
                    let found = drift(&file, &volume, &set, rules);
                    let at = format!("{} {file_form:?} {hash:?} {shown:?} {rules:?}", field.key);
                    if planned.action != Action::Unchanged {
                        changes += 1;
                        assert!(found.has_drifted(), "{at}: {:?}, {found:?}", planned.action);
                    }
                    if is_same(file_form, shown) && file_form != Form::Given {
                        assert!(!found.has_drifted(), "{at}: {found:?}");
                    }
                }
            }
        }
    }
    assert!(changes > 100, "the plans change something: {changes}");
}

/// Whatever the ledger has of it, and whether the file or the server changed.
#[test]
fn an_ignored_field_is_neither_drift_nor_changed_by_a_plan() {
    let mut changed = 0;
    for field in fields() {
        for (file_form, hash) in
            WRITTEN.into_iter().flat_map(|form| WRITTEN.map(|hash| (form, hash)))
        {
            let mut file = minimal();
            (field.write)(&mut file, file_form);
            let set = ledger(&field, &file, hash);
            // A whole block is ignored with its parts.
            let block = field.key.split('.').next().unwrap();
            for ignored in [field.key, block] {
                let mut ignoring = spec(file.clone());
                ignoring.ignore = vec![ignored.to_owned()];
                for (rules, shown) in
                    rules().into_iter().flat_map(|rules| SHOWN.map(|shown| (rules, shown)))
                {
                    let mut volume = bare();
                    (field.show)(&mut volume, shown);
                    let at = format!("{ignored} {file_form:?} {hash:?} {shown:?} {rules:?}");
                    let before = plan(&file, &volume, &set, rules);
                    changed += usize::from(before.action != Action::Unchanged);
                    let planned = plan_of(ignoring.clone(), &volume, &set, rules);
                    let found = drift_of_spec(ignoring.clone(), &volume, &set, rules);
                    // The forms of redacted flags also have another file system than the file.
                    let has_other_field = field.key == MOUNT_FLAGS && ignored == MOUNT_FLAGS;
                    if !has_other_field {
                        assert_eq!(planned.action, Action::Unchanged, "{at}");
                        assert!(!found.has_drifted(), "{at}: {found:?}");
                        assert_eq!(found.pending, [""; 0], "{at}");
                    }
                    let is_changed = planned.action != Action::Unchanged;
                    assert!(
                        !is_changed || found.has_drifted() || !found.pending.is_empty(),
                        "{at} {planned:?} {found:?}"
                    );
                }
            }
        }
    }
    assert!(changed > 100, "without `ignore`, the plans change something: {changed}");
}

/// The other field of the update is sent with the ignored one as the server has it.
#[test]
fn an_update_of_another_field_leaves_an_ignored_one() {
    let mut ignoring = spec(minimal());
    ignoring.request.capacity.min = bytes(1000);
    ignoring.request.context = Some([("a".to_owned(), "b".to_owned())].into());
    ignoring.ignore = vec!["capacity_min".into()];
    let mut volume = bare();
    volume.requested_capacity.min = bytes(500);
    let set = ledger(&fields()[0], &minimal(), Form::Absent);
    let planned = plan_of(ignoring, &volume, &set, MergeRules::AGENT);
    let Action::Update(update) = &planned.action else {
        panic!("{planned:?}");
    };
    let changed: Vec<_> = update.changes.iter().map(|change| change.field).collect();
    assert_eq!(changed, ["context"]);
    assert_eq!(update.request.capacity.min, bytes(500));
}

/// The case that was seen: the file never had mount options, and a file system type was registered by
/// hand.
#[test]
fn a_file_system_type_that_no_file_gave_is_drift() {
    for hash in [Form::Absent, Form::Empty] {
        let field = &fields()[6];
        let set = ledger(field, &minimal(), hash);
        let mut volume = bare();
        (field.show)(&mut volume, Form::Other);
        let planned = plan(&minimal(), &volume, &set, MergeRules::NOMAD);
        assert!(matches!(planned.action, Action::Update(_)));
        let found = drift(&minimal(), &volume, &set, MergeRules::NOMAD);
        let DriftState::Changed(fields) = &found.state else {
            panic!("{found:?}");
        };
        let expected = FieldDrift {
            field: "mount_options.fs_type",
            before: Some(FieldValue::Absent),
            now: FieldValue::Text("other".into()),
            file: FileState::Omitted,
        };
        if hash == Form::Absent {
            assert_eq!(fields[..], [expected]);
        } else {
            assert_eq!(fields[0].field, expected.field);
        }
        assert_eq!(found.pending, [""; 0]);
    }
}

/// A block that was removed from the file is a change of the file.
#[test]
fn a_block_that_the_file_no_longer_has_is_pending() {
    let field = &fields()[6];
    let set = ledger(field, &minimal(), Form::Given);
    let mut volume = bare();
    (field.show)(&mut volume, Form::Given);
    let found = drift(&minimal(), &volume, &set, MergeRules::NOMAD);
    assert_eq!(found.state, DriftState::Unchanged);
    assert_eq!(found.pending, ["mount_options.fs_type"]);
}

/// Flags that no apply gave are a difference, and their removal needs no accepted loss.
#[test]
fn flags_of_a_volume_that_was_applied_without_any_are_removed() {
    let field = &fields()[8];
    let mut volume = bare();
    (field.show)(&mut volume, Form::Given);
    let known = ledger(field, &minimal(), Form::Empty);
    let planned = plan(&minimal(), &volume, &known, MergeRules::NOMAD);
    let Action::Update(update) = &planned.action else {
        panic!("{planned:?}");
    };
    assert_eq!(update.changes[0].field, MOUNT_FLAGS);
    assert_eq!(update.cleared_fields, []);
    assert!(drift(&minimal(), &volume, &known, MergeRules::NOMAD).has_drifted());
    let unknown = ledger(field, &minimal(), Form::Absent);
    let planned = plan(&minimal(), &volume, &unknown, MergeRules::NOMAD);
    assert_eq!(planned.action, Action::Unchanged);
    assert!(!drift(&minimal(), &volume, &unknown, MergeRules::NOMAD).has_drifted());
}

/// A volume whose registration names other data than the set recorded has drifted, whatever its fields
/// are.
#[test]
fn other_data_under_the_name_is_drift_of_the_external_id() {
    let field = &fields()[0];
    let mut set = ledger(field, &minimal(), Form::Absent);
    let mut volume = bare();
    set.fill_in_data(&minimal().key(), DataIdentity::of(&volume));
    assert!(!drift(&minimal(), &volume, &set, MergeRules::NOMAD).has_drifted());
    volume.external_id = Some(ExternalId::new("vol-2"));
    let mut named = minimal();
    named.external_id = Some(ExternalId::new("db"));
    let hash = set.key().of_desired(&named)["external_id"];
    let with_hash = |mut set: LedgerSet| {
        let owned = set.ownership_mut(&minimal().key()).unwrap();
        owned.applied.insert("external_id".into(), hash);
        set
    };
    let expected = FieldDrift {
        field: "external_id",
        before: Some(FieldValue::Text("db".into())),
        now: FieldValue::Text("vol-2".into()),
        file: FileState::Omitted,
    };
    for set in [set.clone(), with_hash(set)] {
        let found = drift(&minimal(), &volume, &set, MergeRules::NOMAD);
        assert_eq!(found.state, DriftState::Changed(vec![expected.clone()]));
        // A plan blocks it, so it stays drift.
        let mut ignoring = spec(minimal());
        ignoring.ignore = vec!["external_id".into()];
        let found = drift_of_spec(ignoring, &volume, &set, MergeRules::NOMAD);
        assert_eq!(found.state, DriftState::Changed(vec![expected.clone()]));
    }
}
