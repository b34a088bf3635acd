//! A start after a crash completes or undoes everything unfinished.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::create::create;
use super::delete::delete;
use crate::catalog::{Catalog, CatalogVolume, Content, RecordState, RequestedVolume};
use crate::error::DeleteVolumeError;
use crate::plugin::{Host, OperationKey, Plugin};
use crate::profile::PluginProfile;
use crate::recovery;
use crate::request::CreateRequest;
use crate::volume_capability::{AccessMode, VolumeCapability};
use nomad_csi_ports::NoMeasurements;
use nomad_csi_testing::{CountingIds, FakeBlockStorage, FakeClock, FakeMounter};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn requested() -> RequestedVolume {
    RequestedVolume {
        capabilities: [VolumeCapability::plain(AccessMode::SingleNodeWriter)].into(),
        ..RequestedVolume::default()
    }
}

fn record(state: RecordState) -> CatalogVolume {
    CatalogVolume {
        id: ID.to_owned(),
        name: "a".to_owned(),
        state,
        requested: requested(),
        content: Content::default(),
        mutable: BTreeMap::new(),
        attachment: None,
    }
}

fn request() -> CreateRequest {
    CreateRequest { name: "a".to_owned(), requested: requested(), topology: None }
}

fn host() -> Host {
    let mounter = FakeMounter::new();
    Host {
        storage: Arc::new(FakeBlockStorage::without_loop_devices(mounter.clone())),
        mounter: Arc::new(mounter),
        clock: Arc::new(FakeClock::default()),
        ids: Arc::new(CountingIds::from(100)),
        measurements: Arc::new(NoMeasurements),
    }
}

fn open(directory: &Path) -> Arc<Plugin> {
    let plugin = Plugin::open(directory, "node".to_owned(), PluginProfile::default(), host());
    let plugin = Arc::new(plugin.unwrap());
    recovery::recover(&plugin).unwrap();
    plugin
}

/// Writes the state after a `kill -9`: a record in this state, with or without data.
fn left(directory: &Path, state: RecordState, with_directory: bool, with_data: bool) {
    let catalog = Catalog::open(&directory.join("catalog.redb")).unwrap();
    for passed in [RecordState::Creating, RecordState::Ready, RecordState::Deleting] {
        catalog.put_volume(&record(passed)).unwrap();
        if passed == state {
            break;
        }
    }
    let data = directory.join("volumes").join(ID);
    if with_directory {
        std::fs::create_dir_all(&data).unwrap();
    }
    if with_data {
        std::fs::write(data.join("file"), "data").unwrap();
    }
}

#[test]
fn an_interrupted_creation_is_undone_and_releases_the_name() {
    for with_directory in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        left(directory.path(), RecordState::Creating, with_directory, false);
        let plugin = open(directory.path());
        assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
        assert!(!plugin.directories.exists(ID).unwrap());
        let made = create(&plugin, request()).unwrap();
        assert_ne!(made.id, ID);
        assert_eq!(plugin.ready_volume(&made.id).unwrap(), Some(made));
    }
}

#[test]
fn an_interrupted_deletion_is_finished() {
    for (with_directory, with_data) in [(false, false), (true, false), (true, true)] {
        let directory = tempfile::tempdir().unwrap();
        left(directory.path(), RecordState::Deleting, with_directory, with_data);
        let plugin = open(directory.path());
        assert_eq!(plugin.ready_volume(ID).unwrap(), None, "the volume does not exist for callers");
        if !with_directory {
            assert_eq!(plugin.catalog.volume(ID).unwrap(), None, "before any call");
        }
        recovery::finish_deletions(&plugin);
        assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
        assert_eq!(plugin.catalog.unfinished_volumes().unwrap(), []);
        assert!(!plugin.directories.exists(ID).unwrap());
    }
}

#[test]
fn a_caller_can_finish_a_deletion_too() {
    let directory = tempfile::tempdir().unwrap();
    left(directory.path(), RecordState::Deleting, true, true);
    let plugin = open(directory.path());
    // The name is already free.
    let made = create(&plugin, request()).unwrap();
    delete(&plugin, ID).unwrap();
    assert_eq!(plugin.ready_volume(ID).unwrap(), None);
    plugin.catalog.flush();
    assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
    assert_eq!(plugin.ready_volume(&made.id).unwrap(), Some(made));
}

/// A failed creation that could not be undone is undone by the next attempt, even if that has other
/// arguments: no caller has the ID of the first.
#[test]
fn a_failed_creation_can_be_repeated_with_other_arguments() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = open(directory.path());
    plugin.catalog.put_volume(&record(RecordState::Creating)).unwrap();
    let mut request = request();
    request.requested.required_bytes = 4096;
    let made = create(&plugin, request).unwrap();
    assert_eq!(made.requested.required_bytes, 4096);
    assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
    assert_eq!(plugin.catalog.unfinished_volumes().unwrap(), []);
}

#[test]
fn only_one_operation_runs_on_a_volume() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = open(directory.path());
    let made = create(&plugin, request()).unwrap();
    let under_way = plugin.begin_operation(OperationKey::Volume(made.id.clone())).unwrap();
    let refused = delete(&plugin, &made.id);
    assert!(matches!(refused, Err(DeleteVolumeError::OperationPending(_))));
    drop(under_way);
    delete(&plugin, &made.id).unwrap();
}

/// Earlier versions created the directory of a volume before its record, so a crash left it empty. One
/// with content stays, because its record may have been lost.
#[test]
fn only_an_empty_directory_without_a_record_is_removed_at_start() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()));
    let volumes = directory.path().join("volumes");
    std::fs::create_dir(volumes.join("empty")).unwrap();
    std::fs::create_dir(volumes.join("full")).unwrap();
    std::fs::write(volumes.join("full/file"), "data").unwrap();
    let unfinished = directory.path().join("images/unfinished-1");
    std::fs::write(&unfinished, "data").unwrap();
    let made = create(&open(directory.path()), request()).unwrap();
    std::fs::create_dir(volumes.join(&made.id)).unwrap();
    let plugin = open(directory.path());
    assert!(!volumes.join("empty").exists() && !unfinished.exists());
    assert!(volumes.join("full/file").exists());
    assert!(plugin.directories.exists(&made.id).unwrap());
}

/// The removal of the record shares the next transaction. A crash before that changes nothing for
/// callers, and the next start repeats it.
#[test]
fn a_deleted_volume_leaves_its_record_to_the_next_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = open(directory.path());
    let made = create(&plugin, request()).unwrap();
    plugin.directories.create(&made.id).unwrap();
    delete(&plugin, &made.id).unwrap();
    assert_eq!(plugin.ready_volume(&made.id).unwrap(), None);
    let left = plugin.catalog.volume(&made.id).unwrap().unwrap();
    assert_eq!(left.state, RecordState::Deleting);
    create(&plugin, request()).unwrap();
    assert_eq!(plugin.catalog.volume(&made.id).unwrap(), None);
}
