//! The catalogue keeps what it was told, and says in words what it cannot open.

use super::*;
use crate::hostpath::usage::AccessMode;
use crate::ports::MountFlags;

const USAGE: Usage = Usage {
    access_mode: AccessMode::SingleNodeWriter,
    flags: MountFlags {
        read_only: false,
        no_exec: true,
        no_suid: false,
        no_dev: false,
        no_atime: false,
        no_dir_atime: false,
    },
};

fn record(id: &str, name: &str, stage: Stage) -> VolumeRecord {
    VolumeRecord {
        id: id.to_owned(),
        name: name.to_owned(),
        stage,
        wanted: Wanted {
            required_bytes: 1,
            limit_bytes: 2,
            usages: [USAGE].into(),
        },
    }
}

fn target() -> PlaceRecord {
    PlaceRecord::Target {
        usage: USAGE,
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
    let staging = PlaceRecord::Staging { usage: USAGE };
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
fn the_records_are_spelled_as_format_1_has_them() {
    let spelled = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    assert_eq!(
        spelled(encode(&record("1", "a", Stage::Ready)).unwrap()),
        r#"{"id":"1","name":"a","stage":"ready","wanted":{"required_bytes":1,"limit_bytes":2,"usages":[{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}}]}}"#
    );
    assert_eq!(
        spelled(encode(&target()).unwrap()),
        r#"{"target":{"usage":{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}},"read_only":true,"staging_path":"/staging","made_directory":true}}"#
    );
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
