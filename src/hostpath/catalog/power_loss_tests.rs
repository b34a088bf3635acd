//! Power failures at every moment of a run of changes, with torn writes: the catalogue opens, holds every
//! answered change, and holds the change under way completely or not at all.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use super::database::Catalog;
use super::records::{CatalogVolume, Content, PathRecord, RecordState, RequestedVolume};
use crate::volume_capability::{AccessMode, VolumeCapability};
use nomad_csi_testing::crash_disk::{CrashDisk, DiskOperation, SeededRng, lose_power_at};
use nomad_csi_testing::few_or_many;

const VOLUMES: usize = 5;
const CHANGES: usize = 40;

/// Every volume with its staging and target paths.
type Contents = BTreeMap<String, (CatalogVolume, BTreeMap<String, PathRecord>)>;

/// A run on a disk: its operations, and the contents after each answered change.
struct Run {
    log: Vec<DiskOperation>,
    contents: Vec<Contents>,
}

fn volume(number: usize, state: RecordState) -> CatalogVolume {
    CatalogVolume {
        id: format!("id-{number}"),
        name: format!("name-{number}"),
        state,
        requested: RequestedVolume::default(),
        content: Content::default(),
        mutable: [("text".to_owned(), "x".repeat(number * 700))].into(),
        attachment: None,
    }
}

fn contents(catalog: &Catalog) -> Contents {
    let (ready, has_more) = catalog.volume_page(None, VOLUMES).unwrap();
    assert!(!has_more);
    let unfinished = catalog.unfinished_volumes().unwrap();
    let volumes = ready.into_iter().chain(unfinished);
    let with_paths = volumes.map(|volume| {
        let paths = catalog.paths(&volume.id).unwrap();
        (volume.id.clone(), (volume, paths))
    });
    with_paths.collect()
}

/// Moves a volume to its next state, or adds a path to it.
fn change(catalog: &Catalog, rng: &mut SeededRng) {
    let number = rng.below(VOLUMES);
    let id = format!("id-{number}");
    let state = catalog.volume(&id).unwrap().map(|volume| volume.state);
    match state {
        None => catalog.put_volume(&volume(number, RecordState::Creating)),
        Some(RecordState::Creating) => catalog.put_volume(&volume(number, RecordState::Ready)),
        Some(RecordState::Ready) if rng.below(2) == 0 => {
            let capability = VolumeCapability::plain(AccessMode::SingleNodeWriter);
            let path = format!("/staging/{}", rng.below(3));
            let staging = PathRecord::Staging { capability };
            catalog.put_path(&id, &path, &staging, None)
        }
        Some(RecordState::Ready) => catalog.put_volume(&volume(number, RecordState::Deleting)),
        Some(RecordState::Deleting) => {
            let gone = volume(number, RecordState::Deleting);
            catalog.remove_volume(&gone)
        }
    }
    .unwrap();
}

fn record(disk: &CrashDisk, seed: u64) -> Run {
    let mut rng = SeededRng(seed);
    let catalog = open(disk).unwrap();
    disk.mark_durable(1);
    let mut all = vec![Contents::new(), contents(&catalog)];
    for _ in 0..CHANGES {
        change(&catalog, &mut rng);
        all.push(contents(&catalog));
        disk.mark_durable(u64::try_from(all.len() - 1).unwrap());
    }
    let log = disk.log();
    Run { log, contents: all }
}

fn open(disk: &CrashDisk) -> Result<Catalog, String> {
    Catalog::in_storage(disk.clone()).map_err(|error| error.to_string())
}

/// Restarts the plugin on the disk. It has the answered changes, and perhaps the next one.
fn restart(disk: &CrashDisk, run: &Run, answered: u64) -> Result<(), String> {
    let found = contents(&open(disk)?);
    let answered = usize::try_from(answered).unwrap();
    let mut possible = run.contents.iter().skip(answered).take(2);
    match possible.any(|contents| *contents == found) {
        true => Ok(()),
        false => Err(format!("after {answered} changes: {found:?}")),
    }
}

/// Fails the power after each operation. Returns the problems.
async fn lose_power(run: &Run, rng: &mut SeededRng) -> Vec<String> {
    let moments = 0..=run.log.len();
    let restarted = async |disk: &CrashDisk, answered| restart(disk, run, answered);
    lose_power_at(&run.log, moments, rng, restarted).await.1
}

#[tokio::test]
async fn answered_changes_survive_a_power_failure_at_any_moment() {
    for seed in 1..=few_or_many(1, 3) {
        let run = record(&CrashDisk::default(), seed);
        let moments = run.log.len();
        assert!(moments > CHANGES * 4, "the run is too short: {moments}");
        let problems = lose_power(&run, &mut SeededRng(seed * 1000)).await;
        assert_eq!(problems, Vec::<String>::new(), "seed {seed}");
    }
}

/// Tests the harness: it must find what is lost on a disk that does not sync. The database may also panic there.
#[tokio::test]
async fn a_disk_that_does_not_sync_is_detected() {
    let found = async {
        let run = record(&CrashDisk::ignoring_syncs(), 1);
        lose_power(&run, &mut SeededRng(1)).await
    };
    let found = AssertUnwindSafe(found).catch_unwind().await;
    assert!(found.is_err() || found.is_ok_and(|problems| !problems.is_empty()));
}
