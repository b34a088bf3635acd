//! Records survive a restart, and a catalogue that cannot be opened reports the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, mpsc};

use super::database::{Catalog, catalog_file};
use super::records::{
    Attachment, Backing, CatalogVolume, Content, ContentSource, DeviceNumber, GroupRecord,
    PathRecord, RecordState, RequestedVolume, SnapshotRecord,
};
use super::store::{CatalogError, FORMAT, damaged, encode, open_database};
use super::tables::{META, NAMES, VOLUMES};
use super::volumes::CatalogLimits;
use crate::volume_capability::{AccessMode, VolumeCapability};
use nomad_csi_database::{FailureKind, begin};
use nomad_csi_ports::FileSystem;

fn volume_capability() -> VolumeCapability {
    let mut capability = VolumeCapability::plain(AccessMode::SingleNodeWriter);
    capability.flags.no_exec = true;
    capability
}

fn record(id: &str, name: &str, state: RecordState) -> CatalogVolume {
    CatalogVolume {
        id: id.to_owned(),
        name: name.to_owned(),
        state,
        requested: RequestedVolume {
            required_bytes: 1,
            limit_bytes: 2,
            capabilities: [volume_capability()].into(),
            ..RequestedVolume::default()
        },
        content: Content::default(),
        mutable: BTreeMap::new(),
        attachment: None,
    }
}

fn target() -> PathRecord {
    PathRecord::Target {
        capability: volume_capability(),
        read_only: true,
        staging_path: "/staging".to_owned(),
        device: None,
        made_directory: true,
    }
}

fn ids(records: &[CatalogVolume]) -> Vec<&str> {
    records.iter().map(|record| record.id.as_str()).collect()
}

/// A record of an earlier version has no device, and says what it was: a loop device.
#[test]
fn a_target_knows_its_device_node_whatever_is_behind_it() {
    let earlier = target();
    let text = serde_json::to_value(&earlier).unwrap();
    assert!(text["target"].get("device").is_none(), "{text}");
    assert_eq!(serde_json::from_value::<PathRecord>(text).unwrap(), earlier);
    let number = |major, minor| DeviceNumber { major, minor };
    let mut recorded = target();
    if let PathRecord::Target { device, .. } = &mut recorded {
        *device = Some(number(7, 3));
    }
    let text = serde_json::to_value(&recorded).unwrap();
    assert_eq!(serde_json::from_value::<PathRecord>(text).unwrap(), recorded);
    for (found, is_of_earlier, is_of_recorded) in
        [(number(7, 3), true, true), (number(7, 4), true, false), (number(8, 3), false, false)]
    {
        assert_eq!(found.is_of(&earlier), is_of_earlier, "{found:?}");
        assert_eq!(found.is_of(&recorded), is_of_recorded, "{found:?}");
    }
    assert_eq!(DeviceNumber::at(Path::new("/")).unwrap(), None);
    assert_eq!(DeviceNumber::at(Path::new("/does/not/exist")).unwrap(), None);
}

#[test]
fn records_survive_a_reopening() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    let catalog = Catalog::open(&file).unwrap();
    let volume = record("1", "a", RecordState::Creating);
    catalog.put_volume(&volume).unwrap();
    assert_eq!(ids(&catalog.unfinished_volumes().unwrap()), ["1"]);
    let volume = CatalogVolume { state: RecordState::Ready, ..volume };
    catalog.put_volume(&volume).unwrap();
    let staging = PathRecord::Staging { capability: volume_capability() };
    catalog.put_path("1", "/staging", &staging, None).unwrap();
    catalog.put_path("1", "/target", &target(), None).unwrap();
    catalog.put_path("10", "/other", &staging, None).unwrap();
    drop(catalog);
    let catalog = Catalog::open(&file).unwrap();
    assert_eq!(catalog.unfinished_volumes().unwrap(), []);
    assert_eq!(catalog.volume("1").unwrap(), Some(volume.clone()));
    assert_eq!(catalog.volume_by_name("a").unwrap(), Some(volume.clone()));
    let paths = catalog.paths("1").unwrap();
    let expected = [("/staging".to_owned(), staging), ("/target".to_owned(), target())];
    assert_eq!(paths, BTreeMap::from(expected));
    catalog.remove_path("1", "/target").unwrap();
    catalog.remove_volume(&volume).unwrap();
    assert_eq!(catalog.volume("1").unwrap(), None);
    assert_eq!(catalog.volume_by_name("a").unwrap(), None);
    assert_eq!(catalog.paths("1").unwrap(), BTreeMap::new());
    assert_eq!(catalog.paths("10").unwrap().len(), 1, "the other volume keeps its path");
}

#[test]
fn a_name_belongs_to_its_volume_until_deletion_begins() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    catalog.put_volume(&record("1", "a", RecordState::Creating)).unwrap();
    catalog.put_volume(&record("1", "a", RecordState::Ready)).unwrap();
    catalog.put_volume(&record("1", "a", RecordState::Deleting)).unwrap();
    assert_eq!(catalog.volume_by_name("a").unwrap(), None);
    catalog.put_volume(&record("2", "a", RecordState::Creating)).unwrap();
    // Removing the first volume does not release the name of the second.
    catalog.remove_volume(&record("1", "a", RecordState::Deleting)).unwrap();
    assert_eq!(catalog.volume_by_name("a").unwrap().unwrap().id, "2");
}

#[test]
fn pages_contain_ready_volumes_and_report_whether_more_follow() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    for (id, state) in [
        ("1", RecordState::Ready),
        ("2", RecordState::Creating),
        ("3", RecordState::Ready),
        ("4", RecordState::Ready),
        ("5", RecordState::Deleting),
    ] {
        catalog.put_volume(&record(id, id, state)).unwrap();
    }
    let page = |after, limit| catalog.volume_page(after, limit).unwrap();
    let (first, has_more) = page(None, 2);
    assert_eq!((ids(&first), has_more), (vec!["1", "3"], true));
    let (second, has_more) = page(Some("3"), 2);
    assert_eq!((ids(&second), has_more), (vec!["4"], false));
    assert_eq!(page(Some("4"), 2), (vec![], false));
}

#[test]
fn a_catalogue_of_a_newer_version_is_refused() {
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
    assert!(error.message.contains("a newer version wrote it"), "{error}");
}

#[test]
fn only_one_process_can_open_a_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c");
    let _first = Catalog::open(&file).unwrap();
    let refused = Catalog::open(&file).map(|_| ()).unwrap_err();
    assert_eq!(refused.kind, FailureKind::InUse);
}

/// Later versions read these bytes: a change here requires a new format.
#[test]
fn records_are_stored_in_format_3() {
    let spelled = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let mut volume = record("1", "a", RecordState::Ready);
    volume.requested.source = Some(ContentSource::Snapshot("s".to_owned()));
    volume.content = Content {
        backing: Backing::Image,
        bytes: 4096,
        file_system: Some(FileSystem::Ext4),
        file_system_bytes: 512,
        is_prepared: true,
        is_blank: true,
    };
    assert_eq!(
        spelled(encode(&volume).unwrap()),
        r#"{"id":"1","name":"a","stage":"ready","wanted":{"required_bytes":1,"limit_bytes":2,"usages":[{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}}],"parameters":{},"mutable":{},"source":{"snapshot":"s"}},"content":{"backing":"image","bytes":4096,"file_system":"ext4","file_system_bytes":512,"is_prepared":true,"is_blank":true},"mutable":{},"attachment":null}"#
    );
    assert_eq!(
        spelled(encode(&target()).unwrap()),
        r#"{"target":{"usage":{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}},"read_only":true,"staging_path":"/staging","made_directory":true}}"#
    );
    assert_eq!(
        spelled(encode(&snapshot("s", "1", RecordState::Ready)).unwrap()),
        r#"{"id":"s","name":"name of s","stage":"ready","source":"1","cut_at":7,"content":{"backing":"directory","bytes":0,"file_system":null,"file_system_bytes":0,"is_prepared":false,"is_blank":false},"group":null}"#
    );
}

/// A catalogue of the first version: every volume is a directory that is open to its users, and every
/// record is kept.
#[test]
fn a_catalogue_of_format_1_is_upgraded() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    let old = r#"{"id":"1","name":"a","stage":"ready","wanted":{"required_bytes":1,"limit_bytes":2,"usages":[{"access_mode":"single-node-writer","flags":{"read_only":false,"no_exec":true,"no_suid":false,"no_dev":false,"no_atime":false,"no_dir_atime":false}}]}}"#;
    let database = open_database(&catalog_file(&file)).unwrap();
    let transaction = begin(&database).unwrap();
    transaction.open_table(META).unwrap().insert("format", 1).unwrap();
    transaction.open_table(VOLUMES).unwrap().insert("1", old.as_bytes()).unwrap();
    transaction.open_table(NAMES).unwrap().insert("a", "1").unwrap();
    transaction.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let catalog = Catalog::open(&file).unwrap();
        let mut expected = record("1", "a", RecordState::Ready);
        expected.content.is_prepared = true;
        assert_eq!(catalog.volume_by_name("a").unwrap(), Some(expected));
        assert_eq!(catalog.provisioned_bytes().unwrap(), 0);
        assert_eq!(catalog.number("format").unwrap(), FORMAT);
    }
}

fn snapshot(id: &str, source: &str, state: RecordState) -> SnapshotRecord {
    SnapshotRecord {
        id: id.to_owned(),
        name: format!("name of {id}"),
        state,
        source: source.to_owned(),
        created_at: 7,
        content: Content::default(),
        group: None,
    }
}

#[test]
fn totals_follow_the_states_of_volumes() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let sized = |id: &str, state, bytes| {
        let mut volume = record(id, id, state);
        volume.content.bytes = bytes;
        volume
    };
    catalog.put_volume(&sized("1", RecordState::Creating, 100)).unwrap();
    catalog.put_volume(&sized("1", RecordState::Ready, 100)).unwrap();
    catalog.put_volume(&sized("2", RecordState::Ready, 50)).unwrap();
    assert_eq!(catalog.provisioned_bytes().unwrap(), 150);
    catalog.put_volume(&sized("2", RecordState::Ready, 70)).unwrap();
    assert_eq!(catalog.provisioned_bytes().unwrap(), 170);
    let attached = |id: &str| CatalogVolume {
        attachment: Some(Attachment { capability: volume_capability(), read_only: false }),
        ..sized(id, RecordState::Ready, 100)
    };
    let one_attached = CatalogLimits { attached: Some(1), ..CatalogLimits::default() };
    let put_attached = |id| catalog.put_volume_within(&attached(id), one_attached);
    assert!(put_attached("1").unwrap());
    assert_eq!(catalog.attached_count().unwrap(), 1);
    assert!(!put_attached("2").unwrap());
    assert_eq!(catalog.volume("2").unwrap().unwrap().attachment, None);
    catalog.put_volume(&sized("1", RecordState::Ready, 100)).unwrap();
    assert_eq!(catalog.attached_count().unwrap(), 0);
    let with_limit =
        |limit| CatalogLimits { provisioned_bytes: Some(limit), ..CatalogLimits::default() };
    let put_within = |bytes, limit| {
        let volume = sized("2", RecordState::Ready, bytes);
        catalog.put_volume_within(&volume, with_limit(limit)).unwrap()
    };
    assert!(!put_within(171, 270));
    assert!(put_within(170, 270));
    assert!(put_within(70, 0), "a smaller sum needs no limit");
    catalog.put_volume(&sized("1", RecordState::Deleting, 100)).unwrap();
    catalog.remove_volume(&sized("1", RecordState::Deleting, 100)).unwrap();
    assert_eq!(catalog.provisioned_bytes().unwrap(), 70);
}

#[test]
fn snapshots_are_found_by_id_by_name_and_by_volume() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let put = |id, source, state| {
        let records = [snapshot(id, source, state)];
        catalog.put_snapshots(&records, None).unwrap();
    };
    for (id, source) in [("s1", "v"), ("s2", "w"), ("s3", "v"), ("s4", "v")] {
        put(id, source, RecordState::Creating);
        put(id, source, RecordState::Ready);
    }
    put("s5", "v", RecordState::Creating);
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
    let named = catalog.snapshot_by_name("name of s3").unwrap().unwrap();
    assert_eq!(named.id, "s3");
    put("s3", "v", RecordState::Deleting);
    assert_eq!(catalog.snapshot_by_name("name of s3").unwrap(), None);
    catalog.remove_snapshots(&[snapshot("s3", "v", RecordState::Deleting)], None).unwrap();
    assert_eq!(catalog.snapshot("s3").unwrap(), None);
    assert_eq!(page(Some("v"), None, 9), ("s1 s4".to_owned(), false));
}

#[test]
fn a_group_and_its_members_change_together() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let member = |id: &str, state| SnapshotRecord {
        name: String::new(),
        group: Some("g".to_owned()),
        ..snapshot(id, "v", state)
    };
    let group = |state| GroupRecord {
        id: "g".to_owned(),
        name: "nightly".to_owned(),
        state,
        sources: BTreeSet::from(["v".to_owned()]),
        members: vec!["s1".to_owned(), "s2".to_owned()],
        created_at: 7,
    };
    let members = |state| [member("s1", state), member("s2", state)];
    for state in [RecordState::Creating, RecordState::Ready] {
        catalog.put_snapshots(&members(state), Some(&group(state))).unwrap();
    }
    assert_eq!(catalog.group_by_name("nightly").unwrap(), Some(group(RecordState::Ready)));
    assert_eq!(catalog.unfinished_snapshots().unwrap(), []);
    let state = RecordState::Deleting;
    catalog.put_snapshots(&members(state), Some(&group(state))).unwrap();
    assert_eq!(catalog.group_by_name("nightly").unwrap(), None);
    assert_eq!(catalog.unfinished_snapshots().unwrap().len(), 2);
    catalog.remove_snapshots(&members(state), Some(&group(state))).unwrap();
    assert_eq!(catalog.group("g").unwrap(), None);
    assert_eq!(catalog.unfinished_snapshots().unwrap(), []);
}

#[test]
fn an_interrupted_first_start_does_not_block_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("catalog.redb");
    std::fs::write(file.with_extension("new"), [0; 100]).unwrap();
    drop(open_database(&catalog_file(&file)).unwrap());
    assert!(!file.with_extension("new").exists());
    assert!(open_database(&catalog_file(&file)).is_ok());
}

/// Runs the changes while another one holds the database, so that they share the next transaction.
fn write_together(
    catalog: &Catalog,
    changes: Vec<Box<dyn FnOnce() -> Result<(), CatalogError> + Send + '_>>,
) -> Vec<Result<(), CatalogError>> {
    let (release, released) = mpsc::sync_channel::<()>(0);
    let released = parking_lot::Mutex::new(released);
    let count = changes.len();
    std::thread::scope(|scope| {
        let (begun, has_begun) = mpsc::channel();
        scope.spawn(move || {
            catalog
                .write(move |_| {
                    begun.send(()).ok();
                    released.lock().recv().ok();
                    Ok(())
                })
                .unwrap();
        });
        has_begun.recv().unwrap();
        let running: Vec<_> = changes.into_iter().map(|one| scope.spawn(one)).collect();
        while catalog.waiting_changes() < count {
            std::thread::yield_now();
        }
        release.send(()).unwrap();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A socket cannot be synced, so the transaction of its change fails.
fn unsyncable() -> Arc<OwnedFd> {
    Arc::new(UnixStream::pair().unwrap().0.into())
}

#[test]
fn a_failed_transaction_fails_every_change_that_shares_it() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let put = |id: &'static str| {
        let catalog = &catalog;
        move || catalog.put_volume(&record(id, id, RecordState::Ready))
    };
    let fails = || {
        let volume = record("3", "3", RecordState::Deleting);
        catalog.remove_volume_later(volume, unsyncable());
        Ok(())
    };
    let results =
        write_together(&catalog, vec![Box::new(put("1")), Box::new(put("2")), Box::new(fails)]);
    let failed: Vec<_> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [true, true, false], "nothing waits for the last");
    let (page, _) = catalog.volume_page(None, 9).unwrap();
    assert_eq!(ids(&page), [""; 0]);
    put("1")().unwrap();
    let (page, _) = catalog.volume_page(None, 9).unwrap();
    assert_eq!(ids(&page), ["1"]);
}

#[test]
fn a_change_that_cannot_be_applied_fails_alone() {
    let directory = tempfile::tempdir().unwrap();
    let catalog = Catalog::open(&directory.path().join("c")).unwrap();
    let put = |id: &'static str| {
        let catalog = &catalog;
        move || catalog.put_volume(&record(id, id, RecordState::Ready))
    };
    let fails = || catalog.write(|_| Err::<(), _>(damaged("a test")));
    let results =
        write_together(&catalog, vec![Box::new(put("1")), Box::new(fails), Box::new(put("2"))]);
    let failed: Vec<_> = results.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false]);
    let (page, _) = catalog.volume_page(None, 9).unwrap();
    assert_eq!(ids(&page), ["1", "2"]);
}

/// A change that nothing waits for is written with the next one, or when the catalogue is closed.
#[test]
fn a_later_change_shares_the_next_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("c");
    let catalog = Catalog::open(&file).unwrap();
    let data: Arc<OwnedFd> = Arc::new(std::fs::File::open(directory.path()).unwrap().into());
    for id in ["1", "2"] {
        let volume = record(id, id, RecordState::Deleting);
        catalog.put_volume(&volume).unwrap();
        catalog.remove_volume_later(volume, data.clone());
        assert!(catalog.volume(id).unwrap().is_some());
    }
    assert_eq!(catalog.volume("1").unwrap(), None);
    drop(catalog);
    let catalog = Catalog::open(&file).unwrap();
    assert_eq!(catalog.volume("2").unwrap(), None);
}
