use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use nomad_csi_testing::few_or_many;

use super::document::{LedgerVolume, ShardDocument};
use super::entry::Entry;
use super::shard_name::{ShardPath, VolumeShard};
use super::sharding::{LARGEST, ROOM};
use super::*;
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, HiddenField, MountOptions,
    Namespace, NamespacedId, Secrets, VolumeId, VolumeRequest,
};

const KEY: [u8; 32] = [7; 32];
const SECRET: &str = "canary-secret-5c1d";
const FLAG: &str = "password=canary-flag-9f3e";

fn name() -> SetName {
    SetName::parse("web").unwrap()
}

fn set() -> LedgerSet {
    LedgerSet::new(name(), LedgerKey::new(KEY))
}

fn volume(id: impl Into<String>) -> NamespacedId {
    NamespacedId::new(Namespace::default(), VolumeId::new(id))
}

fn request(id: &str) -> VolumeRequest {
    VolumeRequest {
        namespace: Namespace::default(),
        id: id.into(),
        name: Some(id.into()),
        external_id: None,
        plugin_id: "hostpath".into(),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        capacity: CapacityRange { min: Bytes::new(1 << 30).unwrap(), max: Bytes::ZERO },
        topology_request: None,
        clone_id: None,
        snapshot_id: None,
        mount_options: Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec![FLAG.into(), "noatime".into()],
        }),
        secrets: Some(Secrets::from_iter([("token", SECRET)])),
        parameters: Some(BTreeMap::from([("kind".into(), "fast".into())])),
        context: None,
        share: false,
    }
}

/// An expansion sends every other field as stored, whatever its origin.
#[test]
fn an_expansion_records_only_the_size() {
    let (mut set, first) = (set(), request("db"));
    set.record_applied(&first);
    let before = set.ownership(&volume("db")).unwrap().applied.clone();
    let sent = VolumeRequest {
        name: Some("renamed".into()),
        capacity: CapacityRange {
            min: Bytes::new(2 << 30).unwrap(),
            max: Bytes::new(3 << 30).unwrap(),
        },
        secrets: None,
        context: Some(BTreeMap::from([("zone".into(), "a".into())])),
        ..first
    };
    set.record_size(&sent);
    let mut expected = before;
    let sizes = set.key().of_request(&sent).into_iter();
    expected.extend(sizes.filter(|(field, _)| field.starts_with("capacity_")));
    assert_eq!(set.ownership(&volume("db")).unwrap().applied, expected);
    // A volume without recorded fields stays without.
    set.own(volume("bare"), Ownership::default());
    set.record_size(&request("bare"));
    set.record_size(&request("stranger"));
    assert_eq!(set.ownership(&volume("bare")), Some(&Ownership::default()));
    assert_eq!(set.ownership(&volume("stranger")), None);
}

/// Writes changes to a ledger in memory, by check-and-set.
fn write(stored: &mut StoredSet, changes: &[ShardChange], revision: &mut u64) {
    for change in changes {
        let now = stored.shards.get(&change.shard).map(|shard| shard.revision);
        assert_eq!(now, change.expected, "{}", change.shard);
        *revision += 1;
        stored.record(change.clone(), *revision);
    }
}

fn read(stored: &StoredSet) -> LedgerSet {
    LedgerSet::read(name(), stored, LedgerKey::new([1; 32])).unwrap()
}

fn save(set: &LedgerSet, stored: &mut StoredSet) -> Vec<ShardChange> {
    let changes = set.changes(stored, "a-save").unwrap();
    let mut revision = stored.shards.values().map(|s| s.revision).max().unwrap_or(0);
    write(stored, &changes, &mut revision);
    changes
}

fn many(count: usize) -> LedgerSet {
    let mut set = set();
    for at in 0..count {
        set.record_applied(&request(&format!("volume-{at}")));
    }
    set
}

#[test]
fn set_names_are_valid_paths() {
    let long = "x".repeat(49);
    for (text, expected) in [
        ("web", None),
        ("0-web_Prod", None),
        ("", Some(SetNameProblem::Empty)),
        ("-web", Some(SetNameProblem::Start('-'))),
        ("a/b", Some(SetNameProblem::Character('/'))),
        ("a.b", Some(SetNameProblem::Character('.'))),
        ("ä", Some(SetNameProblem::Character('ä'))),
        (&long, Some(SetNameProblem::TooLong(49))),
    ] {
        assert_eq!(SetName::parse(text).err(), expected, "{text:?}");
    }
}

#[test]
fn no_shard_contains_a_secret_or_mount_flag() {
    let mut stored = StoredSet::default();
    save(&many(100), &mut stored);
    for (name, shard) in &stored.shards {
        for canary in [SECRET, FLAG, "noatime", "fast", "ext4"] {
            assert!(!shard.text.contains(canary), "{name}: {canary}");
        }
    }
    let shown = format!("{:?}", read(&stored));
    assert!(!shown.contains("0707") && !shown.contains(SECRET), "{shown}");
}

#[test]
fn applied_hidden_values_are_recognised() {
    let mut set = set();
    let db = volume("db");
    let nothing = Ownership::default();
    let values = |set: &LedgerSet| {
        let owned = set.ownership(&db).unwrap_or(&nothing);
        let applied = set.applied_values(&db, owned);
        (applied.secrets(), applied.mount_flags())
    };
    let owned = |set: &LedgerSet| set.ownership(&db).unwrap().clone();
    assert_eq!(values(&set), (StoredValue::Unknown, StoredValue::Unknown));
    let unknown = set.applied_values(&db, &nothing);
    assert_eq!(unknown.are_secrets(&Secrets::default()), None);
    set.record_applied(&request("db"));
    assert_eq!(values(&set), (StoredValue::Given, StoredValue::Given));
    let recorded = owned(&set);
    let applied = set.applied_values(&db, &recorded);
    let same = Secrets::from_iter([("token", SECRET)]);
    assert_eq!(applied.are_secrets(&same), Some(true));
    let other = Secrets::from_iter([("token", "another")]);
    assert_eq!(applied.are_secrets(&other), Some(false));
    let turned = ["noatime".to_owned(), FLAG.to_owned(), FLAG.to_owned()];
    assert_eq!(applied.are_mount_flags(&turned), Some(true));
    assert_eq!(applied.are_mount_flags(&[]), Some(false));
    let without =
        VolumeRequest { secrets: Some(Secrets::default()), mount_options: None, ..request("db") };
    set.record_applied(&without);
    assert_eq!(values(&set), (StoredValue::Empty, StoredValue::Given));
    set.record_cleared(&db, HiddenField::MountFlags);
    assert_eq!(values(&set), (StoredValue::Empty, StoredValue::Empty));
    set.mark_hidden_unknown(&db);
    assert_eq!(values(&set), (StoredValue::Unknown, StoredValue::Unknown));
}

#[test]
fn equal_values_of_two_volumes_have_different_hashes() {
    let key = LedgerKey::new(KEY);
    let secrets = Secrets::from_iter([("token", SECRET)]);
    let of = |id: &str| key.of_secrets(&volume(id), &secrets);
    assert_ne!(of("a"), of("b"));
    let other = LedgerKey::new([8; 32]);
    assert_ne!(of("a"), other.of_secrets(&volume("a"), &secrets));
}

#[test]
fn an_intent_is_independent_of_ownership() {
    let mut set = set();
    let db = volume("db");
    let intent = Intent {
        step: IntentStep::Register,
        since: 5,
        by: Actor {
            user: "ada".into(),
            host: "build-7".into(),
            process: 4711,
            command: "apply".into(),
        },
    };
    set.record_intent(db.clone(), intent.clone());
    assert_eq!(set.owned().count(), 0);
    set.own(db.clone(), Ownership::default());
    assert!(set.forget(&db) && !set.forget(&db));
    assert_eq!(set.intents().collect::<Vec<_>>(), [(&db, &intent)]);
    assert!(set.clear_intent(&db) && !set.clear_intent(&db));
    assert_eq!((set.owned().count(), set.intents().count()), (0, 0));
}

#[test]
fn only_the_latest_hundred_plans_are_kept() {
    let mut set = set();
    for at in 0..150 {
        set.record_plan(format!("plan-{at}"), at);
    }
    assert_eq!(set.applied_plan("plan-49"), None);
    assert_eq!(set.applied_plan("plan-50"), Some(50));
    assert_eq!(set.applied_plan("plan-149"), Some(149));
}

/// The set knows its released volumes by hashes, so that their names do not stay in the ledger.
#[test]
fn only_the_latest_hundred_released_volumes_are_known() {
    let mut set = many(150);
    let mut stored = StoredSet::default();
    save(&set, &mut stored);
    for at in 0..150 {
        set.forget(&volume(format!("volume-{at}")));
    }
    save(&set, &mut stored);
    let set = read(&stored);
    let is_released = |at: usize| set.has_released(&volume(format!("volume-{at}")));
    assert_eq!([49, 50, 149].map(is_released), [false, true, true]);
    assert!(!set.has_released(&volume("another")));
    let head = &stored.shards[&ShardName::Head].text;
    assert!(!head.contains("volume-") && head.len() < 5_000, "{head}");
}

#[test]
fn a_stored_set_is_not_written_again() {
    let mut stored = StoredSet::default();
    let set = many(200);
    assert!(!save(&set, &mut stored).is_empty());
    assert_eq!(save(&set, &mut stored), []);
    assert_eq!(read(&stored), set);
}

#[test]
fn one_changed_volume_rewrites_its_shard_and_the_head() {
    let mut stored = StoredSet::default();
    let mut set = many(2_000);
    save(&set, &mut stored);
    assert!(stored.shards.len() > 10, "{}", stored.shards.len());
    set.ownership_mut(&volume("volume-7")).unwrap().protect = true;
    let changes = save(&set, &mut stored);
    assert_eq!(changes.len(), 2);
    assert_eq!(changes[0].shard, ShardName::Head);
}

#[test]
fn a_lost_head_loses_hashes_but_no_ownership() {
    let mut stored = StoredSet::default();
    save(&many(3), &mut stored);
    stored.shards.remove(&ShardName::Head);
    let left = read(&stored);
    assert_eq!(left.owned().count(), 3);
    let lost = volume("volume-0");
    let owned = left.ownership(&lost).unwrap();
    let recorded = left.applied_values(&lost, owned).secrets();
    assert_eq!(recorded, StoredValue::Unknown);
}

#[test]
fn damaged_and_newer_documents_are_refused() {
    let mut stored = StoredSet::default();
    save(&many(3), &mut stored);
    let root = ShardName::parse("v").unwrap();
    for (text, later) in [
        (r#"{"format":5,"sequence":9,"volumes":[]}"#, true),
        (r#"{"format":1,"sequence":9,"volumes":[],"more":1}"#, false),
        (r#"{"format":1,"sequence":9,"volumes":[{"namespace":"a","id":"b","more":1}]}"#, false),
        ("", false),
    ] {
        let shard = stored.shards.get_mut(&root).unwrap();
        text.clone_into(&mut shard.text);
        let refused = LedgerSet::read(name(), &stored, LedgerKey::new(KEY)).unwrap_err();
        let is_later = matches!(refused, LedgerProblem::TooNew { format: 5, .. });
        assert_eq!(is_later, later, "{text}: {refused}");
    }
}

fn data(id: &str) -> DataIdentity {
    DataIdentity { plugin_id: "hostpath".into(), external_id: id.into() }
}

/// A ledger of an earlier program does not record the data of its volumes. It is read, and the next
/// write has the new format, which an earlier program refuses.
#[test]
fn a_ledger_of_format_1_is_read_and_written_as_format_4() {
    let old = r#"{"format":1,"sequence":3,"volumes":[{"namespace":"default","id":"db","owned":{"protect":true}}]}"#;
    let head = format!(r#"{{"format":1,"sequence":3,"save":"1","key":"{}"}}"#, "07".repeat(32));
    let shard = |text: &str| StoredShard { revision: 1, text: text.to_owned() };
    let root = ShardName::parse("v").unwrap();
    let mut stored =
        StoredSet { shards: [(ShardName::Head, shard(&head)), (root, shard(old))].into() };
    let mut set = read(&stored);
    let owned = set.ownership(&volume("db")).unwrap();
    assert!(owned.protect);
    assert_eq!(owned.data, RecordedData::Unrecorded);
    assert_eq!(save(&set, &mut stored), [], "reading writes nothing");
    set.fill_in_data(&volume("db"), data("vol-1"));
    save(&set, &mut stored);
    assert_eq!(read(&stored), set);
    for name in [ShardName::Head, root] {
        let text = &stored.shards[&name].text;
        assert!(text.starts_with(r#"{"format":4,"#), "{text}");
    }
}

/// The names in a stored ledger never change.
#[test]
fn the_data_of_a_volume_is_stored_under_these_names() {
    let json = |data: &RecordedData| {
        let owned = Ownership { data: data.clone(), ..Ownership::default() };
        let text = serde_json::to_string(&owned).unwrap();
        assert_eq!(serde_json::from_str::<Ownership>(&text).unwrap(), owned);
        text
    };
    let stored = RecordedData::Stored(data("vol-1"));
    for (data, expected) in [
        (RecordedData::Unrecorded, "{}"),
        (RecordedData::Removed, r#"{"data":"removed"}"#),
        (stored, r#"{"data":{"stored":{"plugin_id":"hostpath","external_id":"vol-1"}}}"#),
    ] {
        assert_eq!(json(&data), expected);
    }
}

#[test]
fn a_read_fills_in_data_and_never_overwrites_it() {
    let (mut set, key) = (set(), volume("db"));
    set.fill_in_data(&key, data("vol-1"));
    assert!(set.ownership(&key).is_none(), "nothing is owned by that");
    let recorded = |set: &LedgerSet| set.ownership(&key).unwrap().data.identity().cloned();
    set.own(key.clone(), Ownership::default());
    set.fill_in_data(&key, data("vol-1"));
    set.fill_in_data(&key, data("vol-2"));
    assert_eq!(recorded(&set), Some(data("vol-1")));
    set.record_applied(&request("db"));
    set.mark_hidden_unknown(&key);
    assert_eq!(recorded(&set), Some(data("vol-1")));
    set.replace_data(&key, RecordedData::Stored(data("vol-2")));
    assert_eq!(recorded(&set), Some(data("vol-2")));
}

#[test]
fn a_volume_too_large_for_a_shard_is_reported() {
    let mut set = many(3);
    let huge = volume("x".repeat(LARGEST));
    set.own(huge.clone(), Ownership::default());
    let refused = set.changes(&StoredSet::default(), "a-save").unwrap_err();
    assert_eq!(refused, LedgerProblem::TooLarge(huge));
}

#[test]
fn a_shard_name_is_head_or_bits() {
    for (text, is_one) in [
        ("head", true),
        ("v", true),
        ("v0110", true),
        ("v2", false),
        ("lock", false),
        ("", false),
        (&format!("v{}", "01".repeat(20)), true),
        (&format!("v{}0", "01".repeat(20)), false),
    ] {
        let shard = ShardName::parse(text);
        let expected = is_one.then(|| text.to_owned());
        assert_eq!(shard.map(|shard| shard.to_string()), expected, "{text}");
    }
}

proptest! {
    /// Shards follow each other as their names do.
    #[test]
    fn shards_are_in_the_order_of_their_names(one in "v[01]{0,8}", other in "v[01]{0,8}") {
        let [first, second] = [&one, &other].map(|text| ShardName::parse(text).unwrap());
        prop_assert_eq!(first.cmp(&second), one.cmp(&other));
        let (ShardName::Volumes(first), ShardName::Volumes(second)) = (first, second) else {
            unreachable!("the names begin with `v`");
        };
        prop_assert_eq!(first.is_below(second), one != other && one.starts_with(&other));
    }
}

/// A change of a set: a volume is added, changed or removed.
#[derive(Clone, Debug)]
enum Step {
    Own(u16, bool),
    Forget(u16),
    ForgetMost,
    Save,
    /// A save of which a crash lets the changes arrive whose bits are set.
    CrashedSave(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        60 => (0..400_u16, any::<bool>()).prop_map(|(id, protect)| Step::Own(id, protect)),
        10 => (0..400_u16).prop_map(Step::Forget),
        1 => Just(Step::ForgetMost),
        6 => Just(Step::Save),
        4 => any::<[u64; 2]>().prop_map(|[one, other]| Step::CrashedSave(one | other)),
    ];
    prop::collection::vec(one, 1..600)
}

/// A volume with so long a name that few fit into a shard, or that it needs one of its own.
fn long_name(id: u16) -> NamespacedId {
    let is_alone = id.is_multiple_of(40);
    let times = if is_alone { ROOM / 6 } else { 110 };
    volume(format!("{}{id}", "volume-".repeat(times)))
}

/// Returns the changes that arrive before a crash. The writes of shards are in no order between that of
/// the head and the removals, which follow each other.
fn arriving(changes: &[ShardChange], bits: u64) -> Vec<ShardChange> {
    let (mut arriving, mut is_complete) = (vec![], true);
    let mut bits = (0..64).map(|bit| bits >> bit & 1 == 1).cycle();
    for change in changes {
        let follows = change.shard == ShardName::Head || change.text.is_none();
        let arrives = bits.next() == Some(true) && (is_complete || !follows);
        is_complete &= arrives;
        if arrives {
            arriving.push(change.clone());
        } else if change.shard == ShardName::Head {
            break;
        }
    }
    arriving
}

fn apply_step(set: &mut LedgerSet, step: &Step, applied: &FieldHashes) {
    match step {
        Step::Own(id, protect) => {
            let owned =
                Ownership { protect: *protect, applied: applied.clone(), ..Ownership::default() };
            set.own(long_name(*id), owned);
        }
        Step::Forget(id) => drop(set.forget(&long_name(*id))),
        Step::ForgetMost => {
            let keys: Vec<NamespacedId> = set.owned().map(|(key, _)| key.clone()).collect();
            for key in keys.iter().filter(|key| !key.id.as_str().ends_with('7')) {
                set.forget(key);
            }
        }
        Step::Save | Step::CrashedSave(_) => {}
    }
}

/// Stores a set at each save, and reads it back.
fn check_saves(steps: &[Step]) -> Result<(), TestCaseError> {
    let mut stored = StoredSet::default();
    let mut revision = 0;
    let mut set = set();
    let applied = set.key().of_request(&request("volume"));
    for step in steps {
        apply_step(&mut set, step, &applied);
        let (Step::Save | Step::CrashedSave(_)) = step else {
            continue;
        };
        let before = if stored.is_empty() { self::set() } else { read(&stored) };
        let changes = set.changes(&stored, "a-save").unwrap();
        let arriving = match step {
            Step::CrashedSave(bits) => arriving(&changes, *bits),
            _ => changes.clone(),
        };
        write(&mut stored, &arriving, &mut revision);
        for (name, shard) in &stored.shards {
            prop_assert!(shard.text.len() <= LARGEST, "{name}");
        }
        if stored.is_empty() {
            continue;
        }
        let after = read(&stored);
        if arriving.len() == changes.len() {
            prop_assert_eq!(&after, &set);
            continue;
        }
        let all = |set: &LedgerSet| -> BTreeSet<NamespacedId> {
            set.owned().map(|(key, _)| key.clone()).collect()
        };
        for key in all(&before).union(&all(&set)).chain(&all(&after)) {
            let now = after.ownership(key);
            prop_assert!(now == before.ownership(key) || now == set.ownership(key), "{key}");
        }
        set = after;
    }
    Ok(())
}

/// The property of a stored set, in this many cases. Counterexamples stay in `tests.regressions`.
fn saves(cases: u32) -> ProptestConfig {
    let persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(persistence)),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(saves(few_or_many(2, 16)))]

    /// Writing and reading a set is the identity, whatever shards exist before, including those of a
    /// crash. No shard exceeds the limit. After a crashed save, every volume is as before or as after,
    /// and the next save succeeds.
    #[test]
    fn a_stored_set_is_read_back(steps in steps()) {
        check_saves(&steps)?;
    }
}

proptest! {
    #![proptest_config(saves(100_000))]

    #[test]
    #[ignore = "100,000 cases take an hour in a release build"]
    fn a_stored_set_is_read_back_in_many_cases(steps in steps()) {
        check_saves(&steps)?;
    }
}

/// A crash left shards of two earlier writes for one volume. Whichever of the two is newer, the next
/// write never makes the older one decide, however far it comes.
#[test]
fn removals_never_uncover_what_an_earlier_crash_left() {
    let key = volume("db");
    let shards: Vec<VolumeShard> = VolumeShard::all_of(ShardPath::of(&key)).take(4).collect();
    let owning = |generation: u32| Ownership { generation, ..Ownership::default() };
    for order in [[1, 2, 3, 4], [4, 3, 2, 1], [2, 4, 1, 3], [3, 1, 4, 2_u32]] {
        let mut stored = StoredSet::default();
        let mut revision = 0;
        save(&set(), &mut stored);
        for (shard, sequence) in shards.iter().zip(order) {
            let entry = Entry { owned: Some(owning(sequence)), intent: None };
            let record = LedgerVolume::new(&key, &entry);
            let text = ShardDocument::text(u64::from(sequence), vec![record]);
            let change = ShardChange::of(&stored, ShardName::Volumes(*shard), Some(text));
            stored.record(change, 1);
        }
        let before = read(&stored);
        assert_eq!(
            before.ownership(&key).map(|owned| owned.generation),
            Some(*order.iter().max().unwrap())
        );
        let mut emptied = before.clone();
        emptied.forget(&key);
        let mut changed = before.clone();
        changed.ownership_mut(&key).unwrap().protect = true;
        for after in [emptied, changed] {
            let changes = after.changes(&stored, "a-save").unwrap();
            for arrived in 0..=changes.len() {
                let mut crashed = stored.clone();
                write(&mut crashed, &changes[..arrived], &mut revision);
                let now = read(&crashed);
                let now = now.ownership(&key);
                let expected = [before.ownership(&key), after.ownership(&key)];
                assert!(
                    expected.contains(&now),
                    "{order:?}, {arrived} of {}: {now:?}",
                    changes.len()
                );
            }
        }
    }
}

/// Writes what changed, as a command does after its first write.
fn save_changed(set: &mut LedgerSet, stored: &mut StoredSet, layout: &mut SetLayout) -> usize {
    let changes = layout.changes(set, stored, "a-save").unwrap();
    let revisions = stored.shards.values().map(|shard| shard.revision);
    let mut revision = revisions.max().unwrap_or_default();
    write(stored, &changes, &mut revision);
    set.settle();
    changes.len()
}

/// The work of a write follows what changes, not the size of the set.
#[test]
fn a_write_lays_out_only_the_shards_that_change() {
    let work = |count: usize| {
        let mut set = many(count);
        let mut stored = StoredSet::default();
        save(&set, &mut stored);
        set.settle();
        let mut layout = SetLayout::of(&set, &stored).unwrap();
        assert_eq!(save_changed(&mut set, &mut stored, &mut layout), 0);
        for at in 0..10 {
            let owned = set.ownership_mut(&volume(format!("volume-{at}")));
            owned.unwrap().generation = 7;
            let written = save_changed(&mut set, &mut stored, &mut layout);
            assert_eq!(written, 2, "the head and one shard");
        }
        assert_eq!(read(&stored), set);
        layout.laid_out()
    };
    let (small, large) = (work(200), work(4_000));
    assert!(small > 0 && large < 2 * small, "{small}, {large}");
}

#[test]
fn the_volumes_of_a_shard_follow_each_other() {
    let (set, mut stored) = (many(1_500), StoredSet::default());
    save(&set, &mut stored);
    let mut volumes: Vec<&NamespacedId> = set.owned().map(|(key, _)| key).collect();
    volumes.sort_by_key(|key| shard_order(key));
    let shard_of = |key: &&NamespacedId| {
        let path = ShardPath::of(key);
        let mut shards = stored.shards.keys().filter_map(|shard| match shard {
            ShardName::Head => None,
            ShardName::Volumes(shard) => Some(*shard),
        });
        shards.find(|shard| shard.covers(path)).unwrap()
    };
    let mut shards: Vec<VolumeShard> = volumes.iter().map(shard_of).collect();
    shards.dedup();
    assert!(shards.len() > 5, "{shards:?}");
    assert_eq!(shards.len(), stored.shards.len() - 1, "all but the head");
}

#[test]
fn a_reverted_change_writes_nothing() {
    let (mut set, mut stored) = (many(50), StoredSet::default());
    save(&set, &mut stored);
    set.settle();
    let mut layout = SetLayout::of(&set, &stored).unwrap();
    let before = set.clone();
    set.record_applied(&request("new"));
    set.forget(&volume("volume-1"));
    set.ownership_mut(&volume("volume-2")).unwrap().protect = true;
    set.record_plan("a-plan", 1);
    assert_ne!(set, before);
    set.revert();
    assert_eq!(set, before);
    assert_eq!(save_changed(&mut set, &mut stored, &mut layout), 0);
    set.record_plan("a-plan", 1);
    let written = save_changed(&mut set, &mut stored, &mut layout);
    assert_eq!(written, 1, "the head");
    assert_eq!(read(&stored), set);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: few_or_many(2, 24), ..ProptestConfig::default() })]

    /// Laying out what changed stores the same shards as laying out the whole set.
    #[test]
    fn a_partial_layout_is_the_whole_layout(steps in steps()) {
        let mut set = set();
        let applied = set.key().of_request(&request("volume"));
        let mut whole = StoredSet::default();
        save(&set, &mut whole);
        let mut stored = whole.clone();
        let mut layout = SetLayout::of(&set, &stored).unwrap();
        let volumes = |stored: &StoredSet| -> BTreeMap<ShardName, String> {
            let text = |text: &str| text.split_once("\"volumes\"").unwrap_or_default().1.to_owned();
            let shards = stored.shards.iter();
            shards.map(|(name, shard)| (*name, text(&shard.text))).collect()
        };
        for step in &steps {
            apply_step(&mut set, step, &applied);
            let (Step::Save | Step::CrashedSave(_)) = step else { continue };
            save(&set, &mut whole);
            save_changed(&mut set, &mut stored, &mut layout);
            prop_assert_eq!(volumes(&stored), volumes(&whole));
            prop_assert_eq!(&read(&stored), &set);
        }
    }
}
