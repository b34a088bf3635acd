use super::*;
use crate::Ownership;
use crate::provider_list::UnlistedReason;
use crate::rules::MergeRules;
use crate::samples::{bytes, desired, existing, listed, spec};
use nomad_csi_model::{
    CapacityRange, ExternalId, MountOptions, Secret, SecretRef, SecretRefs, SetName, VolumeRequest,
};

fn sent(request: &UnresolvedRequest) -> VolumeRequest {
    request
        .resolve(|_, secret| Ok::<_, ()>(Secret::new(secret.literal().unwrap().into())))
        .expect("it has a value")
}

/// Returns a set that last applied this request.
fn applied(request: &UnresolvedRequest) -> LedgerSet {
    let name = SetName::parse("web").unwrap();
    let mut set = LedgerSet::new(name, LedgerKey::new([7; 32]));
    set.record_applied(&sent(request));
    set
}

struct Case {
    set: Option<LedgerSet>,
    desired: Vec<VolumeSpec>,
    found: Option<Volume>,
    ignore: BTreeSet<String>,
    rules: MergeRules,
    provided: BTreeMap<PluginId, ProviderList>,
}

impl Case {
    /// A volume and a file as last applied.
    fn new() -> Self {
        Self {
            set: Some(applied(&desired())),
            desired: vec![spec(desired())],
            found: Some(existing()),
            ignore: BTreeSet::new(),
            rules: MergeRules::NOMAD,
            provided: BTreeMap::new(),
        }
    }

    fn found(mut self, change: impl FnOnce(&mut Volume)) -> Self {
        change(self.found.as_mut().unwrap());
        self
    }

    fn all(&self) -> Vec<VolumeDrift> {
        let volumes = self.found.iter().map(|volume| (volume.key(), volume.clone()));
        detect_drift(&DriftInputs {
            desired: &self.desired,
            set: self.set.as_ref(),
            volumes: &volumes.collect(),
            rules: self.rules,
            provided: &self.provided,
            ignore: &self.ignore,
        })
    }

    fn one(&self) -> VolumeDrift {
        let mut all = self.all();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    fn fields(&self) -> Vec<FieldDrift> {
        match self.one().state {
            DriftState::Changed(fields) => fields,
            other => panic!("it is {other:?}"),
        }
    }
}

fn size(count: u64) -> FieldValue {
    FieldValue::Size(bytes(count))
}

/// Capabilities and topologies compare as sets. Fields that the file omits never drift, such as the
/// external ID and the size that the provider chose.
#[test]
fn an_unchanged_volume_has_not_drifted() {
    let found = Case::new().one();
    assert_eq!((found.state, found.baseline), (DriftState::Unchanged, Baseline::Applied));
    assert!(found.pending.is_empty() && found.not_comparable.is_empty());
}

#[test]
fn a_changed_field_has_drifted_and_the_file_has_its_value_before() {
    let case = Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
    let expected = FieldDrift {
        field: "capacity_max",
        before: Some(size(2000)),
        now: size(5000),
        file: FileState::MatchesBefore,
    };
    assert_eq!(case.fields(), [expected]);
    assert!(case.one().has_drifted() && case.one().pending.is_empty());
}

#[test]
fn a_change_in_the_file_only_is_pending_and_not_drift() {
    let mut case = Case::new();
    case.desired[0].request.capacity.max = bytes(9000);
    case.desired[0].request.context = Some([("a".into(), "b".into())].into());
    case.desired[0].request.external_id = Some(ExternalId::new("vol-1"));
    let found = case.one();
    assert_eq!(found.state, DriftState::Unchanged);
    assert_eq!(found.pending, ["capacity_max", "external_id", "context"]);
}

#[test]
fn a_field_changed_on_both_sides_is_compared_with_the_file() {
    for (file, expected) in [
        (bytes(5000), FileState::MatchesNow),
        (bytes(9000), FileState::Differs),
        (bytes(0), FileState::Omitted),
    ] {
        let mut case = Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
        case.desired[0].request.capacity.max = file;
        let fields = case.fields();
        assert_eq!(fields[0].file, expected);
        assert_eq!(fields[0].before, None, "only its hash is known");
    }
}

#[test]
fn ignored_drift_is_not_reported() {
    let moved = || Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
    let mut by_file = moved();
    by_file.desired[0].ignore = vec!["capacity_max".into()];
    let mut by_flag = moved();
    by_flag.ignore.insert("capacity_max".into());
    for case in [by_file, by_flag] {
        let found = case.one();
        assert_eq!(found.ignored, ["capacity_max"]);
        assert!(!found.has_drifted());
    }
}

#[test]
fn a_missing_volume_is_gone_only_if_it_was_applied() {
    let gone = |set| {
        let case = Case { set, found: None, ..Case::new() };
        case.one().state
    };
    assert_eq!(gone(Some(applied(&desired()))), DriftState::Gone);
    let empty = LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]));
    assert_eq!(gone(Some(empty)), DriftState::NotApplied);
    assert_eq!(gone(None), DriftState::Gone, "no ledger");
}

#[test]
fn an_owned_volume_without_a_file_is_checked() {
    let mut case = Case::new().found(|volume| volume.name = "other".into());
    case.desired.clear();
    let fields = case.fields();
    assert_eq!(fields[0].file, FileState::Omitted);
    assert_eq!(case.one().span, None);
}

#[test]
fn an_unapplied_volume_is_compared_with_the_file() {
    let empty = LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]));
    for set in [None, Some(empty)] {
        let case = Case { set, ..Case::new() };
        assert_eq!(case.one().state, DriftState::Unchanged);
        let case = case.found(|volume| volume.requested_capacity.max = bytes(5000));
        assert_eq!(case.one().baseline, Baseline::File);
        assert_eq!(case.fields()[0].before, Some(size(2000)));
    }
}

/// Losing the head loses the hashes; the set still owns the volume.
#[test]
fn without_hashes_and_file_the_state_is_unknown() {
    let mut case = Case::new();
    let key = desired().key();
    case.set.as_mut().unwrap().own(key, Ownership::default());
    case.desired.clear();
    assert_eq!(case.one().state, DriftState::Unknown);
    case.found = None;
    assert_eq!(case.one().state, DriftState::Gone);
}

fn flags(flags: &[&str]) -> MountOptions {
    MountOptions {
        fs_type: String::new(),
        mount_flags: flags.iter().map(ToString::to_string).collect(),
    }
}

/// Redacted flags compare only by presence.
#[test]
fn redacted_flags_drift_only_by_presence() {
    const SEEN: &str = "mount_options.mount_flags";
    for (before, now, drifted, hidden) in [
        (&["ro"][..], &["[REDACTED]"][..], false, true),
        (&["ro"], &[], true, false),
        (&[], &["[REDACTED]"], true, false),
        (&[], &[], false, false),
        (&["ro", "sync"], &["sync", "ro"], false, false),
        (&["ro"], &["rw"], true, false),
    ] {
        let mut request = desired();
        request.mount_options = Some(flags(before));
        let mut case = Case::new().found(|volume| volume.mount_options = Some(flags(now)));
        case.set = Some(applied(&request));
        case.desired = vec![spec(request)];
        let found = case.one();
        assert_eq!(found.has_drifted(), drifted, "{before:?} {now:?}");
        assert_eq!(found.not_comparable.contains(&SEEN), hidden, "{before:?} {now:?}");
        assert!(!format!("{found:?}").contains("\"ro\""), "flags are hidden");
    }
}

#[test]
fn secrets_and_unreported_fields_cannot_be_compared() {
    let mut request = desired();
    let secret = SecretRef::Literal(Secret::new("v".into()));
    request.secrets = Some(SecretRefs::from_iter([("k", secret)]));
    let mut case = Case::new().found(|volume| {
        volume.requested_capacity = CapacityRange::default();
        volume.capabilities.clear();
    });
    case.set = Some(applied(&request));
    case.desired = vec![spec(request)];
    case.rules.unreported.sizes = true;
    let found = case.one();
    assert_eq!(found.state, DriftState::Unchanged);
    assert_eq!(found.not_comparable, ["secrets", "capacity_min", "capacity_max", "capability"]);
}

/// A value marked `unknown` is neither pending nor drift.
#[test]
fn an_unknown_value_is_not_a_difference() {
    let mut case = Case::new().found(|volume| volume.mount_options = Some(flags(&["[REDACTED]"])));
    case.desired[0].request.mount_options = Some(MountOptions::default());
    case.desired[0].unknown = HiddenField::ALL.into();
    for set in [case.set.take(), None] {
        case.set = set;
        let found = case.one();
        assert_eq!(found.state, DriftState::Unchanged);
        assert_eq!(found.not_comparable, ["secrets", "mount_options.mount_flags"]);
        assert!(!found.pending.contains(&"mount_options.mount_flags"));
    }
}

/// A provider that was asked and does not list the data proves that it is gone; one that could not be
/// asked proves nothing.
#[test]
fn data_that_its_provider_does_not_list_is_gone() {
    let failed = ProviderList::Unknown(UnlistedReason::Failed("it timed out".into()));
    for (list, is_gone) in [
        (listed(&["vol-1", "vol-2"]), false),
        (listed(&["vol-2"]), true),
        (listed(&[]), true),
        (failed, false),
    ] {
        let mut case = Case::new();
        case.provided = [(existing().plugin_id, list.clone())].into();
        let found = case.one();
        let expected = match is_gone {
            true => DriftState::DataGone(vec![]),
            false => DriftState::Unchanged,
        };
        assert_eq!(found.state, expected, "{list:?}");
        assert_eq!(found.has_drifted(), is_gone);
        let found = case.found(|volume| volume.requested_capacity.max = bytes(5000)).one();
        let fields = match &found.state {
            DriftState::DataGone(fields) if is_gone => fields,
            DriftState::Changed(fields) if !is_gone => fields,
            other => panic!("it is {other:?}"),
        };
        assert_eq!(fields.len(), 1, "changed fields stay visible");
    }
}

/// A set that took a volume over never applied its flags, and the server hides them. That they are in the
/// file is no change of the file.
#[test]
fn hidden_flags_of_an_adopted_volume_are_not_comparable() {
    let with_flags = UnresolvedRequest { mount_options: Some(flags(&["noatime"])), ..desired() };
    let mut case = Case::new().found(|volume| {
        volume.mount_options = Some(flags(&[MountOptions::REDACTED]));
    });
    case.desired = vec![spec(with_flags.clone())];
    let mut set = applied(&desired());
    set.mark_hidden_unknown(&existing().key());
    set.record_found(&with_flags, case.found.as_ref().unwrap());
    case.set = Some(set);
    let found = case.one();
    assert_eq!(found.state, DriftState::Unchanged);
    assert_eq!((found.pending, found.not_comparable), (vec![], vec![MOUNT_FLAGS]));
}
