use super::*;
use crate::model::{
    CapacityRange, ExternalId, MountOptions, Secret, SecretRef, SecretRefs, SetName, VolumeRequest,
};
use crate::plan::Ownership;
use crate::plan::rules::MergeRules;
use crate::plan::samples::{bytes, existing, spec, wanted};

fn sent(request: &WantedRequest) -> VolumeRequest {
    request
        .resolve(|_, secret| Ok::<_, ()>(Secret::new(secret.literal().unwrap().into())))
        .expect("it has a value")
}

/// A set that applied this last.
fn applied(request: &WantedRequest) -> LedgerSet {
    let name = SetName::parse("web").unwrap();
    let mut set = LedgerSet::new(name, LedgerKey::new([7; 32]));
    set.record_applied(&sent(request));
    set
}

struct Case {
    set: Option<LedgerSet>,
    wanted: Vec<VolumeSpec>,
    found: Option<Volume>,
    ignore: BTreeSet<String>,
    unseen: Unseen,
}

impl Case {
    /// As it was applied, and a file that says so still.
    fn new() -> Self {
        Self {
            set: Some(applied(&wanted())),
            wanted: vec![spec(wanted())],
            found: Some(existing()),
            ignore: BTreeSet::new(),
            unseen: MergeRules::NOMAD.unseen,
        }
    }

    fn found(mut self, change: impl FnOnce(&mut Volume)) -> Self {
        change(self.found.as_mut().unwrap());
        self
    }

    fn all(&self) -> Vec<VolumeDrift> {
        let volumes = self
            .found
            .iter()
            .map(|volume| (volume.key(), volume.clone()));
        drift(&DriftInputs {
            wanted: &self.wanted,
            set: self.set.as_ref(),
            volumes: &volumes.collect(),
            unseen: self.unseen,
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

fn size(count: u64) -> Shown {
    Shown::Size(bytes(count))
}

/// Capabilities and places are compared as sets, and what nobody said is nobody's drift: the
/// provider's ID of a volume that it made, sizes that it chose.
#[test]
fn what_is_as_it_was_applied_has_not_drifted() {
    let found = Case::new().one();
    assert_eq!(
        (found.state, found.basis),
        (DriftState::Same, Basis::Applied)
    );
    assert!(found.pending.is_empty() && found.hidden.is_empty());
}

#[test]
fn a_field_that_somebody_changed_has_drifted_and_the_file_says_what_it_was() {
    let case = Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
    let expected = FieldDrift {
        field: "capacity_max",
        before: Some(size(2000)),
        now: size(5000),
        file: FileSays::AsBefore,
    };
    assert_eq!(case.fields(), [expected]);
    assert!(case.one().is_drift() && case.one().pending.is_empty());
}

/// `users` 24: drift apart from what is pending.
#[test]
fn what_only_the_file_changed_is_pending_and_no_drift() {
    let mut case = Case::new();
    case.wanted[0].request.capacity.max = bytes(9000);
    case.wanted[0].request.context = Some([("a".into(), "b".into())].into());
    case.wanted[0].request.external_id = Some(ExternalId::new("vol-1"));
    let found = case.one();
    assert_eq!(found.state, DriftState::Same);
    assert_eq!(found.pending, ["capacity_max", "external_id", "context"]);
}

#[test]
fn of_a_field_that_both_changed_it_is_said_whether_they_agree() {
    for (file, expected) in [
        (bytes(5000), FileSays::AsNow),
        (bytes(9000), FileSays::Other),
        (bytes(0), FileSays::Nothing),
    ] {
        let mut case = Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
        case.wanted[0].request.capacity.max = file;
        let fields = case.fields();
        assert_eq!(fields[0].file, expected);
        assert_eq!(fields[0].before, None, "only its hash is known");
    }
}

#[test]
fn drift_that_nobody_wants_to_hear_of_is_not_told() {
    let moved = || Case::new().found(|volume| volume.requested_capacity.max = bytes(5000));
    let mut by_file = moved();
    by_file.wanted[0].ignore = vec!["capacity_max".into()];
    let mut by_flag = moved();
    by_flag.ignore.insert("capacity_max".into());
    for case in [by_file, by_flag] {
        let found = case.one();
        assert_eq!(found.ignored, ["capacity_max"]);
        assert!(!found.is_drift());
    }
}

#[test]
fn a_volume_that_is_not_there_is_gone_only_if_it_ever_was() {
    let gone = |set| {
        let case = Case {
            set,
            found: None,
            ..Case::new()
        };
        case.one().state
    };
    assert_eq!(gone(Some(applied(&wanted()))), DriftState::Gone);
    let empty = LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]));
    assert_eq!(gone(Some(empty)), DriftState::NotYet);
    assert_eq!(gone(None), DriftState::Gone, "nobody knows better");
}

#[test]
fn a_volume_of_the_set_that_no_file_names_is_looked_at_too() {
    let mut case = Case::new().found(|volume| volume.name = "other".into());
    case.wanted.clear();
    let fields = case.fields();
    assert_eq!(fields[0].file, FileSays::Nothing);
    assert_eq!(case.one().span, None);
}

#[test]
fn what_was_never_applied_is_held_against_the_file() {
    let empty = LedgerSet::new(SetName::parse("web").unwrap(), LedgerKey::new([7; 32]));
    for set in [None, Some(empty)] {
        let case = Case { set, ..Case::new() };
        assert_eq!(case.one().state, DriftState::Same);
        let case = case.found(|volume| volume.requested_capacity.max = bytes(5000));
        assert_eq!(case.one().basis, Basis::File);
        assert_eq!(case.fields()[0].before, Some(size(2000)));
    }
}

/// A head that was lost takes the hashes with it; the volume is still the set's.
#[test]
fn without_hashes_and_without_a_file_nothing_is_known() {
    let mut case = Case::new();
    let key = wanted().key();
    case.set.as_mut().unwrap().own(key, Ownership::default());
    case.wanted.clear();
    assert_eq!(case.one().state, DriftState::NotKnown);
    case.found = None;
    assert_eq!(case.one().state, DriftState::Gone);
}

fn flags(flags: &[&str]) -> MountOptions {
    MountOptions {
        fs_type: String::new(),
        mount_flags: flags.iter().map(ToString::to_string).collect(),
    }
}

/// W20: flags are redacted, so only that there are some now, or none any more, can be told.
#[test]
fn of_redacted_flags_only_their_presence_can_be_told() {
    const SEEN: &str = "mount_options.mount_flags";
    for (before, now, drifted, hidden) in [
        (&["ro"][..], &["[REDACTED]"][..], false, true),
        (&["ro"], &[], true, false),
        (&[], &["[REDACTED]"], true, false),
        (&[], &[], false, false),
        (&["ro", "sync"], &["sync", "ro"], false, false),
        (&["ro"], &["rw"], true, false),
    ] {
        let mut request = wanted();
        request.mount_options = Some(flags(before));
        let mut case = Case::new().found(|volume| volume.mount_options = Some(flags(now)));
        case.set = Some(applied(&request));
        case.wanted = vec![spec(request)];
        let found = case.one();
        assert_eq!(found.is_drift(), drifted, "{before:?} {now:?}");
        assert_eq!(found.hidden.contains(&SEEN), hidden, "{before:?} {now:?}");
        assert!(!format!("{found:?}").contains("\"ro\""), "flags are hidden");
    }
}

#[test]
fn secrets_and_what_an_old_server_leaves_out_cannot_be_compared() {
    let mut request = wanted();
    let secret = SecretRef::Literal(Secret::new("v".into()));
    request.secrets = Some(SecretRefs::from_iter([("k", secret)]));
    let mut case = Case::new().found(|volume| {
        volume.requested_capacity = CapacityRange::default();
        volume.capabilities.clear();
    });
    case.set = Some(applied(&request));
    case.wanted = vec![spec(request)];
    case.unseen.sizes = true;
    let found = case.one();
    assert_eq!(found.state, DriftState::Same);
    assert_eq!(
        found.hidden,
        ["secrets", "capacity_min", "capacity_max", "capability"]
    );
}

/// What a file says to be unknown is neither pending nor drift.
#[test]
fn an_unknown_value_is_no_difference() {
    let mut case = Case::new().found(|volume| volume.mount_options = Some(flags(&["[REDACTED]"])));
    case.wanted[0].request.mount_options = Some(MountOptions::default());
    case.wanted[0].unknown = HiddenField::ALL.into();
    for set in [case.set.take(), None] {
        case.set = set;
        let found = case.one();
        assert_eq!(found.state, DriftState::Same);
        assert_eq!(found.hidden, ["secrets", "mount_options.mount_flags"]);
        assert!(!found.pending.contains(&"mount_options.mount_flags"));
    }
}
