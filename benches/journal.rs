//! Durable changes per second, through the cell and with the database alone.
//!
//! The ratio of `cell` to `bare` shows the cost of checking, encoding and applying each change. The disk
//! is that of the target directory, so absolute figures depend on the machine. `restart` measures a
//! start from a snapshot of that many volumes.

#![allow(clippy::unwrap_used, reason = "a failing benchmark panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divan::Bencher;
use divan::counter::ItemsCount;
use futures_util::future::join_all;
use nomad_csi_claims::state::samples::{key, registered, started, state_of};
use nomad_csi_claims::state::{Event, SnapshotChanges};
use nomad_csi_server::store::EmbeddedJournal;
use nomad_csi_server::{CellOptions, Expected, Journal as _, StateCell};
use redb::{Database, TableDefinition};
use tokio::runtime::Runtime;

const PRODUCERS: [u64; 2] = [1, 64];
/// About the length of one registration in the journal.
const ROW: [u8; 1100] = [7; 1100];

fn main() {
    divan::main();
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// One transaction with one row per producer: the upper bound of grouping.
#[divan::bench(args = PRODUCERS, sample_count = 1000)]
fn bare(bencher: Bencher<'_, '_>, producers: u64) {
    const ROWS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("rows");
    let directory = directory();
    let database = Database::create(directory.path().join("bare.redb")).unwrap();
    let mut next = 0;
    bencher.counter(ItemsCount::new(producers)).bench_local(|| {
        let mut transaction = database.begin_write().unwrap();
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
        let mut rows = transaction.open_table(ROWS).unwrap();
        for _ in 0..producers {
            rows.insert(next, &ROW[..]).unwrap();
            next += 1;
        }
        drop(rows);
        transaction.commit().unwrap();
    });
}

/// Each producer registers a volume and waits for the result.
#[divan::bench(args = PRODUCERS, sample_count = 1000)]
fn cell(bencher: Bencher<'_, '_>, producers: u64) {
    let directory = directory();
    let runtime = Runtime::new().unwrap();
    let cell = runtime.block_on(open(directory.path()));
    let next = Arc::new(AtomicU64::new(0));
    bencher.counter(ItemsCount::new(producers)).bench_local(|| {
        let work = (0..producers).map(|_| {
            let (cell, next) = (cell.clone(), next.clone());
            runtime.spawn(async move { register(&cell, &next).await })
        });
        let all: Vec<_> = work.collect();
        runtime.block_on(join_all(all));
    });
    runtime.block_on(cell.stop());
}

#[divan::bench(args = [10_000, 100_000], sample_count = 5)]
fn restart(bencher: Bencher<'_, '_>, volumes: u64) {
    let directory = directory();
    let runtime = Runtime::new().unwrap();
    let all = (0..volumes).map(|number| {
        let key = key("default", &format!("volume-{number}"));
        registered(&key, &format!("ext-{number}"))
    });
    let state = state_of(std::iter::once(started()).chain(all));
    runtime.block_on(async {
        let journal = EmbeddedJournal::open(directory.path().join("journal.redb"));
        let journal = journal.await.unwrap();
        let changes = SnapshotChanges::complete(&state);
        journal.write_snapshot(changes).await.unwrap();
        journal.close().await.unwrap();
    });
    bencher.counter(ItemsCount::new(volumes)).bench_local(|| {
        let cell = runtime.block_on(open_journal(directory.path()));
        assert_eq!(cell.index(), state.index());
        runtime.block_on(cell.stop());
    });
}

async fn open(directory: &std::path::Path) -> StateCell {
    let cell = open_journal(directory).await;
    let event = Event::new(1, started());
    cell.commit(Expected::Any, event).await.unwrap();
    cell
}

async fn open_journal(directory: &std::path::Path) -> StateCell {
    let journal = EmbeddedJournal::open(directory.join("journal.redb"));
    let journal = Arc::new(journal.await.unwrap());
    let cell = StateCell::open(journal, CellOptions::default());
    cell.await.unwrap()
}

async fn register(cell: &StateCell, next: &AtomicU64) {
    let number = next.fetch_add(1, Ordering::Relaxed);
    let key = key("default", &format!("volume-{number}"));
    let event = Event::new(1, registered(&key, &format!("ext-{number}")));
    let expected = Expected::VolumeAbsent(key);
    cell.commit(expected, event).await.unwrap();
}
