//! Whatever a crash leaves behind, the next start brings it to an end.

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::hostpath::catalog::{Catalog, Wanted};
use crate::hostpath::play::Play;
use crate::hostpath::plugin::Host;
use crate::hostpath::recovery;
use crate::hostpath::usage::{AccessMode, Usage};
use crate::ports::fake::{CountingIds, FakeBlockStorage, FakeClock, FakeMounter};

const ID: &str = "00000000-0000-4000-8000-000000000001";

fn wanted() -> Wanted {
    Wanted {
        usages: [Usage::plain(AccessMode::SingleNodeWriter)].into(),
        ..Wanted::default()
    }
}

fn record(stage: Stage) -> VolumeRecord {
    VolumeRecord {
        id: ID.to_owned(),
        name: "a".to_owned(),
        stage,
        wanted: wanted(),
        content: Content::default(),
        mutable: BTreeMap::new(),
        attachment: None,
    }
}

fn request() -> Create {
    Create {
        name: "a".to_owned(),
        wanted: wanted(),
        place: None,
    }
}

fn host() -> Host {
    let mounter = FakeMounter::new();
    Host {
        storage: Arc::new(FakeBlockStorage::without_loop_devices(mounter.clone())),
        mounter: Arc::new(mounter),
        clock: Arc::new(FakeClock::default()),
        ids: Arc::new(CountingIds::from(100)),
    }
}

async fn open(directory: &Path) -> Arc<Plugin> {
    let plugin = Plugin::open(directory, "node".to_owned(), Play::default(), host());
    let plugin = Arc::new(plugin.unwrap());
    recovery::undo(&plugin).await.unwrap();
    plugin
}

/// What a run left that was killed in the middle: the record at a stage, and some data or none.
fn left(directory: &Path, stage: Stage, with_directory: bool, with_data: bool) {
    let catalog = Catalog::open(&directory.join("catalog.redb")).unwrap();
    for passed in [Stage::Creating, Stage::Ready, Stage::Deleting] {
        catalog.put(&record(passed)).unwrap();
        if passed == stage {
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

#[tokio::test]
async fn a_creation_that_was_cut_off_is_undone_and_leaves_the_name_free() {
    for with_directory in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        left(directory.path(), Stage::Creating, with_directory, false);
        let plugin = open(directory.path()).await;
        assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
        assert!(!plugin.directories.exists(ID).unwrap());
        let made = create(plugin.clone(), request()).await.unwrap();
        assert_ne!(made.id, ID);
        assert!(plugin.directories.exists(&made.id).unwrap());
    }
}

#[tokio::test]
async fn a_removal_that_was_cut_off_is_finished() {
    for (with_directory, with_data) in [(false, false), (true, false), (true, true)] {
        let directory = tempfile::tempdir().unwrap();
        left(directory.path(), Stage::Deleting, with_directory, with_data);
        let plugin = open(directory.path()).await;
        assert_eq!(plugin.ready(ID).unwrap(), None, "gone for callers");
        recovery::finish_removals(plugin.clone()).await;
        assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
        assert_eq!(plugin.catalog.unfinished().unwrap(), []);
        assert!(!plugin.directories.exists(ID).unwrap());
    }
}

#[tokio::test]
async fn a_caller_may_finish_a_removal_too() {
    let directory = tempfile::tempdir().unwrap();
    left(directory.path(), Stage::Deleting, true, true);
    let plugin = open(directory.path()).await;
    // The name is free already.
    let made = create(plugin.clone(), request()).await.unwrap();
    delete(plugin.clone(), ID.to_owned()).await.unwrap();
    assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
    assert_eq!(plugin.ready(&made.id).unwrap(), Some(made));
}

/// A creation that failed half-way, and could not be undone then, is undone by the next attempt, also
/// if that asks for something else: nobody was told of the first.
#[tokio::test]
async fn a_creation_that_failed_half_way_may_be_asked_for_differently() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = open(directory.path()).await;
    plugin.catalog.put(&record(Stage::Creating)).unwrap();
    let mut request = request();
    request.wanted.required_bytes = 4096;
    let made = create(plugin.clone(), request).await.unwrap();
    assert_eq!(made.wanted.required_bytes, 4096);
    assert_eq!(plugin.catalog.volume(ID).unwrap(), None);
    assert_eq!(plugin.catalog.unfinished().unwrap(), []);
}

#[tokio::test]
async fn one_operation_at_a_time_about_one_volume() {
    let directory = tempfile::tempdir().unwrap();
    let plugin = open(directory.path()).await;
    let made = create(plugin.clone(), request()).await.unwrap();
    let under_way = plugin.begin(Subject::Volume(made.id.clone())).unwrap();
    let refused = delete(plugin.clone(), made.id.clone()).await;
    assert!(matches!(refused, Err(DeleteVolumeError::Pending(_))));
    drop(under_way);
    delete(plugin, made.id).await.unwrap();
}
