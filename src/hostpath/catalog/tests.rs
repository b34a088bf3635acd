//! The catalogue keeps what it was told, and says in words what it cannot open.

use super::*;
use std::collections::BTreeSet;

use crate::hostpath::usage::{AccessMode, Usage};
use crate::ports::FileSystem;

fn usage() -> Usage {
    let mut usage = Usage::plain(AccessMode::SingleNodeWriter);
    usage.flags.no_exec = true;
    usage
}

fn record(id: &str, name: &str, stage: Stage) -> VolumeRecord {
    VolumeRecord {
        id: id.to_owned(),
        name: name.to_owned(),
        stage,
        wanted: Wanted {
            required_bytes: 1,
            limit_bytes: 2,
            usages: [usage()].into(),
            ..Wanted::default()
        },
        content: Content::default(),
        mutable: BTreeMap::new(),
        attachment: None,
    }
}

fn target() -> PlaceRecord {
    PlaceRecord::Target {
        usage: usage(),
        read_only: true,
        staging_path: "/staging".to_owned(),
        made_directory: true,
    }
}

fn ids(records: &[VolumeRecord]) -> Vec<&str> {
    records.iter().map(|record| record.id.as_str()).collect()
}

#[test]
fn what_was_put_is_there_after_opening_again() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    let catalog = Catalog::open(&file).unwrap();
    let volume = record("1", "a", Stage::Creating);
    catalog.put(&volume).unwrap();
    assert_eq!(ids(&catalog.unfinished().unwrap()), ["1"]);
    let volume = VolumeRecord {
        stage: Stage::Ready,
        ..volume
    };
    catalog.put(&volume).unwrap();
    let staging = PlaceRecord::Staging { usage: usage() };
    catalog.put_place("1", "/staging", &staging).unwrap();
    catalog.put_place("1", "/target", &target()).unwrap();
    catalog.put_place("10", "/other", &staging).unwrap();
    drop(catalog);
    let catalog = Catalog::open(&file).unwrap();
    assert_eq!(catalog.unfinished().unwrap(), []);
    assert_eq!(catalog.volume("1").unwrap(), Some(volume.clone()));
    assert_eq!(catalog.named("a").unwrap(), Some(volume.clone()));
    let places = catalog.places("1").unwrap();
    let expected = [
        ("/staging".to_owned(), staging),
        ("/target".to_owned(), target()),
    ];
    assert_eq!(places, BTreeMap::from(expected));
    catalog.forget_place("1", "/target").unwrap();
    catalog.forget(&volume).unwrap();
    assert_eq!(catalog.volume("1").unwrap(), None);
    assert_eq!(catalog.named("a").unwrap(), None);
    assert_eq!(catalog.places("1").unwrap(), BTreeMap::new());
    assert_eq!(catalog.places("10").unwrap().len(), 1, "another volume's");
}

#[test]
fn a_name_belongs_to_its_volume_until_deletion_begins() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    catalog.put(&record("1", "a", Stage::Creating)).unwrap();
    catalog.put(&record("1", "a", Stage::Ready)).unwrap();
    catalog.put(&record("1", "a", Stage::Deleting)).unwrap();
    assert_eq!(catalog.named("a").unwrap(), None);
    catalog.put(&record("2", "a", Stage::Creating)).unwrap();
    // The end of the first volume does not take the name from the second.
    catalog.forget(&record("1", "a", Stage::Deleting)).unwrap();
    assert_eq!(catalog.named("a").unwrap().unwrap().id, "2");
}

#[test]
fn pages_hold_ready_volumes_only_and_say_whether_there_are_more() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    for (id, stage) in [
        ("1", Stage::Ready),
        ("2", Stage::Creating),
        ("3", Stage::Ready),
        ("4", Stage::Ready),
        ("5", Stage::Deleting),
    ] {
        catalog.put(&record(id, id, stage)).unwrap();
    }
    let page = |after, limit| catalog.page(after, limit).unwrap();
    let (first, has_more) = page(None, 2);
    assert_eq!((ids(&first), has_more), (vec!["1", "3"], true));
    let (second, has_more) = page(Some("3"), 2);
    assert_eq!((ids(&second), has_more), (vec!["4"], false));
    assert_eq!(page(Some("4"), 2), (vec![], false));
}

#[test]
fn a_catalogue_of_a_newer_version_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c");
    let catalog = Catalog::open(&file).unwrap();
    catalog
        .write(|transaction| {
            transaction.open_table(META)?.insert("format", FORMAT + 1)?;
            Ok(())
        })
        .unwrap();
    drop(catalog);
    let error = Catalog::open(&file).map(|_| ()).unwrap_err();
    assert!(
        error.message.contains("a newer version wrote it"),
        "{error}"
    );
}

#[test]
fn only_one_process_holds_a_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c");
    let _first = Catalog::open(&file).unwrap();
    assert!(Catalog::open(&file).map(|_| ()).unwrap_err().is_in_use);
}

/// What stands in the file is read by later versions: a change here needs a new format.
#[test]
fn the_records_are_spelled_as_format_2_has_them() {
    let spelled = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let mut volume = record("1", "a", Stage::Ready);
    volume.wanted.source = Some(Source::Snapshot("s".to_owned()));
    volume.content = Content {
        backing: Backing::Image,
        bytes: 4096,
        file_system: Some(FileSystem::Ext4),
        file_system_bytes: 512,
        is_prepared: true,
    };
    assert_eq!(
        spelled(encode(&volume).unwrap()),
        r#"{"id":"1","name":"a","stage":"ready","wanted":{"required_bytes":1,"limit_bytes":2,"usages":[{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}}],"parameters":{},"mutable":{},"source":{"snapshot":"s"}},"content":{"backing":"image","bytes":4096,"file_system":"ext4","file_system_bytes":512,"is_prepared":true},"mutable":{},"attachment":null}"#
    );
    assert_eq!(
        spelled(encode(&target()).unwrap()),
        r#"{"target":{"usage":{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}},"read_only":true,"staging_path":"/staging","made_directory":true}}"#
    );
    assert_eq!(
        spelled(encode(&snapshot("s", "1", Stage::Ready)).unwrap()),
        r#"{"id":"s","name":"name of s","stage":"ready","source":"1","cut_at":7,"content":{"backing":"directory","bytes":0,"file_system":null,"file_system_bytes":0,"is_prepared":false},"group":null}"#
    );
}

/// A catalogue as the first version wrote it: every volume is a directory, and everything is kept.
#[test]
fn a_catalogue_of_format_1_is_taken_over() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    let old = r#"{"id":"1","name":"a","stage":"ready","wanted":{"required_bytes":1,"limit_bytes":2,"usages":[{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}}]}}"#;
    let database = open_database(&file).unwrap();
    let transaction = begin(&database).unwrap();
    transaction
        .open_table(META)
        .unwrap()
        .insert("format", 1)
        .unwrap();
    transaction
        .open_table(VOLUMES)
        .unwrap()
        .insert("1", old.as_bytes())
        .unwrap();
    transaction
        .open_table(NAMES)
        .unwrap()
        .insert("a", "1")
        .unwrap();
    transaction.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let catalog = Catalog::open(&file).unwrap();
        let expected = record("1", "a", Stage::Ready);
        assert_eq!(catalog.named("a").unwrap(), Some(expected));
        assert_eq!(catalog.promised_bytes().unwrap(), 0);
        assert_eq!(catalog.number("format").unwrap(), FORMAT);
    }
}

fn snapshot(id: &str, source: &str, stage: Stage) -> SnapshotRecord {
    SnapshotRecord {
        id: id.to_owned(),
        name: format!("name of {id}"),
        stage,
        source: source.to_owned(),
        cut_at: 7,
        content: Content::default(),
        group: None,
    }
}

#[test]
fn sums_follow_volumes_through_their_lives() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let sized = |id: &str, stage, bytes| {
        let mut volume = record(id, id, stage);
        volume.content.bytes = bytes;
        volume
    };
    catalog.put(&sized("1", Stage::Creating, 100)).unwrap();
    catalog.put(&sized("1", Stage::Ready, 100)).unwrap();
    catalog.put(&sized("2", Stage::Ready, 50)).unwrap();
    assert_eq!(catalog.promised_bytes().unwrap(), 150);
    catalog.put(&sized("2", Stage::Ready, 70)).unwrap();
    assert_eq!(catalog.promised_bytes().unwrap(), 170);
    let attached = |id: &str| VolumeRecord {
        attachment: Some(Attachment {
            usage: usage(),
            read_only: false,
        }),
        ..sized(id, Stage::Ready, 100)
    };
    assert!(catalog.put_attached(&attached("1"), 1).unwrap());
    assert_eq!(catalog.attached().unwrap(), 1);
    assert!(!catalog.put_attached(&attached("2"), 1).unwrap());
    assert_eq!(catalog.volume("2").unwrap().unwrap().attachment, None);
    catalog.put(&sized("1", Stage::Ready, 100)).unwrap();
    assert_eq!(catalog.attached().unwrap(), 0);
    catalog.put(&sized("1", Stage::Deleting, 100)).unwrap();
    catalog.forget(&sized("1", Stage::Deleting, 100)).unwrap();
    assert_eq!(catalog.promised_bytes().unwrap(), 70);
}

#[test]
fn snapshots_are_found_by_id_by_name_and_by_volume() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let put = |id, source, stage| {
        let records = [snapshot(id, source, stage)];
        catalog.put_snapshots(&records, None).unwrap();
    };
    for (id, source) in [("s1", "v"), ("s2", "w"), ("s3", "v"), ("s4", "v")] {
        put(id, source, Stage::Creating);
        put(id, source, Stage::Ready);
    }
    put("s5", "v", Stage::Creating);
    let page = |source, after, limit| {
        let page = catalog.snapshot_page(source, after, limit).unwrap();
        let ids: Vec<_> = page.snapshots.into_iter().map(|found| found.id).collect();
        (ids.join(" "), page.has_more)
    };
    assert_eq!(page(None, None, 9), ("s1 s2 s3 s4".to_owned(), false));
    assert_eq!(page(Some("v"), None, 2), ("s1 s3".to_owned(), true));
    assert_eq!(page(Some("v"), Some("s3"), 2), ("s4".to_owned(), false));
    assert_eq!(page(Some("x"), None, 2), (String::new(), false));
    assert_eq!(catalog.unfinished_snapshots().unwrap().len(), 1);
    let named = catalog.snapshot_named("name of s3").unwrap().unwrap();
    assert_eq!(named.id, "s3");
    put("s3", "v", Stage::Deleting);
    assert_eq!(catalog.snapshot_named("name of s3").unwrap(), None);
    catalog
        .forget_snapshots(&[snapshot("s3", "v", Stage::Deleting)], None)
        .unwrap();
    assert_eq!(catalog.snapshot("s3").unwrap(), None);
    assert_eq!(page(Some("v"), None, 9), ("s1 s4".to_owned(), false));
}

#[test]
fn a_group_and_its_members_change_together() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let member = |id: &str, stage| SnapshotRecord {
        name: String::new(),
        group: Some("g".to_owned()),
        ..snapshot(id, "v", stage)
    };
    let group = |stage| GroupRecord {
        id: "g".to_owned(),
        name: "nightly".to_owned(),
        stage,
        sources: BTreeSet::from(["v".to_owned()]),
        members: vec!["s1".to_owned(), "s2".to_owned()],
        cut_at: 7,
    };
    let members = |stage| [member("s1", stage), member("s2", stage)];
    for stage in [Stage::Creating, Stage::Ready] {
        catalog
            .put_snapshots(&members(stage), Some(&group(stage)))
            .unwrap();
    }
    assert_eq!(
        catalog.group_named("nightly").unwrap(),
        Some(group(Stage::Ready))
    );
    assert_eq!(catalog.unfinished_snapshots().unwrap(), []);
    let stage = Stage::Deleting;
    catalog
        .put_snapshots(&members(stage), Some(&group(stage)))
        .unwrap();
    assert_eq!(catalog.group_named("nightly").unwrap(), None);
    assert_eq!(catalog.unfinished_snapshots().unwrap().len(), 2);
    catalog
        .forget_snapshots(&members(stage), Some(&group(stage)))
        .unwrap();
    assert_eq!(catalog.group("g").unwrap(), None);
    assert_eq!(catalog.unfinished_snapshots().unwrap(), []);
}

#[test]
fn a_first_start_that_was_killed_does_not_stand_in_the_way_of_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    std::fs::write(file.with_extension("new"), [0; 100]).unwrap();
    drop(open_database(&file).unwrap());
    assert!(!file.with_extension("new").exists());
    assert!(open_database(&file).is_ok());
}
