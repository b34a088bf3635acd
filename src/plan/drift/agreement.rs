//! Plans and drift agree: if the files are as they were applied, whatever a plan would change is drift.
//!
//! Every field, with every form of the file, of the ledger's hash and of the server's value, under the
//! rules of every server.

use super::*;
use crate::model::SetName;
use crate::model::{CapacityRange, ExternalId, MountOptions, ServerVersion, TopologyRequest};
use crate::plan::action::{Action, PlannedVolume};
use crate::plan::build::build_plan;
use crate::plan::inputs::{PlanInputs, PlanOptions};
use crate::plan::ledger::FieldHash;
use crate::plan::samples::{
    READERS, WRITER, bytes, existing, observed, place, plugin, spec, wanted,
};

/// The form of a value in a file, in a ledger's hash or on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Absent,
    Empty,
    Given,
    /// A value that neither the file nor the ledger has.
    Other,
}

const WRITTEN: [Form; 3] = [Form::Absent, Form::Empty, Form::Given];
const SHOWN: [Form; 4] = [Form::Absent, Form::Empty, Form::Given, Form::Other];

/// A field, how a file gives it, and how a server shows it.
struct Field {
    key: &'static str,
    write: fn(&mut UnresolvedRequest, Form),
    show: fn(&mut Volume, Form),
}

fn text(form: Form) -> Option<String> {
    match form {
        Form::Absent => None,
        Form::Empty => Some(String::new()),
        Form::Given => Some("given".into()),
        Form::Other => Some("other".into()),
    }
}

fn map(form: Form) -> Option<BTreeMap<String, String>> {
    let pair = |value: &str| [("key".to_owned(), value.to_owned())].into();
    match form {
        Form::Absent => None,
        Form::Empty => Some(BTreeMap::new()),
        Form::Given => Some(pair("given")),
        Form::Other => Some(pair("other")),
    }
}

fn size(form: Form, given: u64) -> crate::model::Bytes {
    match form {
        Form::Absent | Form::Empty => bytes(0),
        Form::Given => bytes(given),
        Form::Other => bytes(given + 500),
    }
}

fn options(form: Form, value: fn(&mut MountOptions, &str)) -> Option<MountOptions> {
    let mut options = MountOptions::default();
    match form {
        Form::Absent => return None,
        Form::Empty => {}
        Form::Given => value(&mut options, "given"),
        Form::Other => value(&mut options, "other"),
    }
    Some(options)
}

fn fs_type(options: &mut MountOptions, value: &str) {
    options.fs_type = value.to_owned();
}

fn flags(options: &mut MountOptions, value: &str) {
    options.mount_flags = vec![value.to_owned()];
}

fn topology(form: Form, into: fn(&mut TopologyRequest, &str)) -> Option<TopologyRequest> {
    let mut request = TopologyRequest::default();
    match form {
        Form::Absent => return None,
        Form::Empty => {}
        Form::Given => into(&mut request, "given"),
        Form::Other => into(&mut request, "other"),
    }
    Some(request)
}

fn required(request: &mut TopologyRequest, zone: &str) {
    request.required = vec![place(zone)];
}

fn preferred(request: &mut TopologyRequest, zone: &str) {
    request.preferred = vec![place(zone)];
}

fn fields() -> Vec<Field> {
    let field = |key, write, show| Field { key, write, show };
    vec![
        field(
            "name",
            |file, form| file.name = text(form),
            |volume, form| volume.name = text(form).unwrap_or_default(),
        ),
        field(
            "external_id",
            |file, form| file.external_id = text(form).map(ExternalId::new),
            |volume, form| volume.external_id = text(form).map(ExternalId::new),
        ),
        field(
            "snapshot_id",
            |file, form| file.snapshot_id = text(form),
            |volume, form| volume.snapshot_id = text(form),
        ),
        field(
            "clone_id",
            |file, form| file.clone_id = text(form),
            |volume, form| volume.clone_id = text(form),
        ),
        field(
            "capacity_min",
            |file, form| file.capacity.min = size(form, 1000),
            |volume, form| volume.requested_capacity.min = size(form, 1000),
        ),
        field(
            "capacity_max",
            |file, form| file.capacity.max = size(form, 2000),
            |volume, form| volume.requested_capacity.max = size(form, 2000),
        ),
        field(
            "mount_options.fs_type",
            |file, form| file.mount_options = options(form, fs_type),
            |volume, form| volume.mount_options = options(form, fs_type),
        ),
        field(
            MOUNT_FLAGS,
            |file, form| file.mount_options = options(form, flags),
            |volume, form| volume.mount_options = options(form, flags),
        ),
        // The same flags on a server that redacts them, with another file system than the file has.
        field(
            MOUNT_FLAGS,
            |file, form| file.mount_options = options(form, flags),
            |volume, form| {
                volume.mount_options = options(form, |options, value| {
                    options.mount_flags = vec![MountOptions::REDACTED.into()];
                    if value == "other" {
                        options.fs_type = value.into();
                    }
                });
            },
        ),
        field(
            "topology_request.required",
            |file, form| file.topology_request = topology(form, required),
            |volume, form| volume.topology_request = topology(form, required),
        ),
        field(
            "topology_request.preferred",
            |file, form| file.topology_request = topology(form, preferred),
            |volume, form| volume.topology_request = topology(form, preferred),
        ),
        field(
            "parameters",
            |file, form| file.parameters = map(form),
            |volume, form| volume.parameters = map(form).unwrap_or_default(),
        ),
        field(
            "context",
            |file, form| file.context = map(form),
            |volume, form| volume.context = map(form).unwrap_or_default(),
        ),
        field(
            "capability",
            |file, form| {
                file.capabilities = match form {
                    Form::Absent | Form::Empty => vec![WRITER],
                    Form::Given | Form::Other => vec![WRITER, READERS],
                };
            },
            |volume, form| {
                volume.capabilities = match form {
                    Form::Absent | Form::Empty => vec![WRITER],
                    Form::Given => vec![READERS, WRITER],
                    Form::Other => vec![READERS],
                };
            },
        ),
    ]
}

/// A file with only its required fields.
fn least() -> UnresolvedRequest {
    UnresolvedRequest {
        name: None,
        capacity: CapacityRange::default(),
        topology_request: None,
        ..wanted()
    }
}

/// The volume that [`least`] makes.
fn bare() -> Volume {
    Volume {
        name: String::new(),
        external_id: None,
        requested_capacity: CapacityRange::default(),
        topology_request: None,
        mount_options: None,
        capabilities: least().capabilities,
        ..existing()
    }
}

fn rules() -> Vec<MergeRules> {
    let version = |text: &str| MergeRules::of_nomad(&text.parse::<ServerVersion>().unwrap());
    let versions = [
        "1.1.18", "1.2.0", "1.3.16", "1.6.10", "1.7.7", "1.9.5", "2.0.5",
    ];
    let named = [MergeRules::AGENT, MergeRules::NOMAD, MergeRules::STRICTEST];
    named.into_iter().chain(versions.map(version)).collect()
}

/// Returns the set after an apply of the file, with one hash in another form.
fn ledger(field: &Field, file: &UnresolvedRequest, hash: Form) -> LedgerSet {
    let name = SetName::parse("web").unwrap();
    let mut set = LedgerSet::new(name, LedgerKey::new([7; 32]));
    let mut applied = set.key().of_wanted(file);
    let mut given = least();
    (field.write)(&mut given, Form::Given);
    let form: Option<FieldHash> = match hash {
        Form::Absent | Form::Other => None,
        Form::Empty => set.key().of_empty(&bare()).get(field.key).copied(),
        Form::Given => set.key().of_wanted(&given).get(field.key).copied(),
    };
    applied.remove(field.key);
    applied.extend(form.map(|hash| (field.key.to_owned(), hash)));
    let ownership = Ownership {
        applied,
        ..Ownership::default()
    };
    set.own(file.key(), ownership);
    set
}

fn plan(
    file: &UnresolvedRequest,
    volume: &Volume,
    set: &LedgerSet,
    rules: MergeRules,
) -> PlannedVolume {
    let wanted = vec![spec(file.clone())];
    let owned = OwnedSet::of(set, &wanted, |_| None);
    let observed = observed(Some(volume.clone()), plugin(|_| {}));
    let options = PlanOptions::default();
    let inputs = PlanInputs {
        wanted,
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
    let inputs = DriftInputs {
        wanted: &[spec(file.clone())],
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

#[test]
fn what_a_plan_of_unchanged_files_would_change_is_drift() {
    let mut changes = 0;
    for field in fields() {
        for (file_form, hash) in WRITTEN
            .into_iter()
            .flat_map(|form| WRITTEN.map(|hash| (form, hash)))
        {
            // Every file gives a capability, and every apply records it.
            let is_required = field.key == "capability";
            if !is_same(file_form, hash) || is_required && hash != Form::Given {
                continue;
            }
            let mut file = least();
            (field.write)(&mut file, file_form);
            let set = ledger(&field, &file, hash);
            for rules in rules() {
                for (shown, has_topology) in SHOWN
                    .into_iter()
                    .flat_map(|form| [(form, false), (form, true)])
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

/// The case that was seen: the file never had mount options, and a file system type was registered by
/// hand.
#[test]
fn a_file_system_type_that_no_file_gave_is_drift() {
    for hash in [Form::Absent, Form::Empty] {
        let field = &fields()[6];
        let set = ledger(field, &least(), hash);
        let mut volume = bare();
        (field.show)(&mut volume, Form::Other);
        let planned = plan(&least(), &volume, &set, MergeRules::NOMAD);
        assert!(matches!(planned.action, Action::Update(_)));
        let found = drift(&least(), &volume, &set, MergeRules::NOMAD);
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
    let set = ledger(field, &least(), Form::Given);
    let mut volume = bare();
    (field.show)(&mut volume, Form::Given);
    let found = drift(&least(), &volume, &set, MergeRules::NOMAD);
    assert_eq!(found.state, DriftState::Unchanged);
    assert_eq!(found.pending, ["mount_options.fs_type"]);
}

/// Flags that no apply gave are a difference, and their removal needs no accepted loss.
#[test]
fn flags_of_a_volume_that_was_applied_without_any_are_removed() {
    let field = &fields()[8];
    let mut volume = bare();
    (field.show)(&mut volume, Form::Given);
    let known = ledger(field, &least(), Form::Empty);
    let planned = plan(&least(), &volume, &known, MergeRules::NOMAD);
    let Action::Update(update) = &planned.action else {
        panic!("{planned:?}");
    };
    assert_eq!(update.changes[0].field, MOUNT_FLAGS);
    assert_eq!(update.cleared_fields, []);
    assert!(drift(&least(), &volume, &known, MergeRules::NOMAD).has_drifted());
    let unknown = ledger(field, &least(), Form::Absent);
    let planned = plan(&least(), &volume, &unknown, MergeRules::NOMAD);
    assert_eq!(planned.action, Action::Unchanged);
    assert!(!drift(&least(), &volume, &unknown, MergeRules::NOMAD).has_drifted());
}

/// A volume whose registration names other data than the set recorded has drifted, whatever its fields
/// are.
#[test]
fn other_data_under_the_name_is_drift_of_the_external_id() {
    let field = &fields()[0];
    let mut set = ledger(field, &least(), Form::Absent);
    let mut volume = bare();
    set.fill_in_data(&least().key(), DataIdentity::of(&volume));
    assert!(!drift(&least(), &volume, &set, MergeRules::NOMAD).has_drifted());
    volume.external_id = Some(ExternalId::new("vol-2"));
    let mut named = least();
    named.external_id = Some(ExternalId::new("db"));
    let hash = set.key().of_wanted(&named)["external_id"];
    let with_hash = |mut set: LedgerSet| {
        let owned = set.ownership_mut(&least().key()).unwrap();
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
        let found = drift(&least(), &volume, &set, MergeRules::NOMAD);
        assert_eq!(found.state, DriftState::Changed(vec![expected.clone()]));
    }
}
