//! The state of 100,000 volumes: memory per volume, and how long appends wait while a snapshot is
//! written.
//!
//! Memory is what the process has more with the state than without, with the system's allocator. The
//! bytes written include the appends. Nothing is asserted.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a failing benchmark panics, and prints its figures"
)]

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nomad_csi_claims::state::samples::{key, registered, started};
use nomad_csi_claims::state::{Event, SnapshotChanges, State, Subject, apply};
use nomad_csi_model::NamespacedId;
use nomad_csi_server::Journal as _;
use nomad_csi_server::store::EmbeddedJournal;

const VOLUMES: u64 = 100_000;

fn main() {
    let empty = resident_bytes();
    let mut state = State::default();
    apply(&mut state, &Event::new(1, started()));
    for number in 0..VOLUMES {
        let external = format!("0b5d6f0a-5a3e-4c0e-9d57-{number:012x}");
        apply(&mut state, &Event::new(1, registered(&volume(number), &external)));
    }
    let full = resident_bytes();
    println!("{VOLUMES} volumes: {} bytes each", (full - empty) / VOLUMES);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(snapshots(&state));
}

fn volume(number: u64) -> NamespacedId {
    key("default", &format!("volume-{number}"))
}

async fn snapshots(state: &State) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = directory.path().join("journal.redb");
    let journal = Arc::new(EmbeddedJournal::open(&path).await.unwrap());
    let mut next = State::FIRST_INDEX + 1;
    report(&journal, &mut next, "appends alone", async {
        tokio::time::sleep(Duration::from_secs(2)).await;
    })
    .await;
    let complete = at(SnapshotChanges::complete(state), next);
    let write = journal.write_snapshot(complete);
    report(&journal, &mut next, "all", async {
        write.await.unwrap();
    })
    .await;
    let some = (0..VOLUMES).step_by(100).map(volume).map(Subject::Volume);
    let changes = at(SnapshotChanges::of(state, some.collect::<HashSet<_>>()), next);
    let write = journal.write_snapshot(changes);
    report(&journal, &mut next, "1 % changed", async {
        write.await.unwrap();
    })
    .await;
    println!("  file {:.0} MB", file_length(&path) as f64 / 1e6);
}

/// The appended events are not part of the state, so the snapshots get their indexes.
fn at(mut changes: SnapshotChanges, next: u64) -> SnapshotChanges {
    changes.numbers.index = next - 1;
    changes
}

/// Appends one event after the other until `work` is done.
async fn report(
    journal: &Arc<EmbeddedJournal>,
    next: &mut u64,
    what: &str,
    work: impl Future<Output = ()>,
) {
    let done = AtomicBool::new(false);
    let (begun, written) = (Instant::now(), written_bytes());
    let appends = async {
        let mut times = vec![];
        while !done.load(Ordering::Relaxed) {
            let sent = Instant::now();
            let event = Event::new(1, registered(&key("other", "v"), "x"));
            journal.append(*next, [event].into()).await.unwrap();
            *next += 1;
            times.push(sent.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        times
    };
    let work = async {
        work.await;
        done.store(true, Ordering::Relaxed);
    };
    let (mut times, ()) = tokio::join!(appends, work);
    times.sort_unstable();
    let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1000.0;
    println!(
        "  {what:14} {:6} ms {:7.1} MB written; {} appends: median {:5.1} ms, 99th {:5.1} ms, longest {:5.1} ms",
        begun.elapsed().as_millis(),
        (written_bytes() - written) as f64 / 1e6,
        times.len(),
        at(50),
        at(99),
        at(100),
    );
}

fn file_length(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

fn written_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.unwrap().parse().unwrap()
}
