//! Durability, error messages, and recovery after failures. `tests/suite/crash.rs` tests power failures.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use redb::{ReadableTableMetadata as _, StorageBackend};

use super::*;
use crate::journal::JournalErrorKind;
use crate::store::codec::tests::enclosed;
use crate::store::codec::{EVENT_VERSION, RowKey};
use nomad_csi_claims::state::samples::{History, key, registered, started};
use nomad_csi_claims::state::{EventKind, Subject, replay};

/// How many replaced events the journals of some tests keep, so that snapshots remove others.
const HISTORY: u64 = 10;

fn events(seed: u64, count: usize) -> Vec<Event> {
    History::new(seed).take(count).collect()
}

fn state(events: &[Event]) -> State {
    replay(None, events.to_vec()).unwrap()
}

async fn loaded(journal: &impl Journal) -> State {
    let content = journal.load().await.unwrap();
    replay(content.snapshot, content.events).unwrap()
}

#[tokio::test]
async fn appended_events_survive_reopening_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal.redb");
    let events = events(1, 100);
    {
        let journal = EmbeddedJournal::open(&path).await.unwrap();
        for (at, batch) in events.chunks(7).enumerate() {
            let first = 2 + 7 * u64::try_from(at).unwrap();
            journal.append(first, batch.into()).await.unwrap();
        }
        journal.close().await.unwrap();
    }
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    let content = journal.load().await.unwrap();
    assert_eq!((content.snapshot, content.events), (None, events));
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only the agent's user may read it");
}

#[tokio::test]
async fn an_append_replaces_unacknowledged_events_and_refuses_a_gap() {
    let directory = tempfile::tempdir().unwrap();
    let journal = EmbeddedJournal::open(directory.path().join("j")).await.unwrap();
    let (one, other) = (events(1, 10), events(2, 10));
    journal.append(2, one[..].into()).await.unwrap();
    journal.append(2, other[..4].into()).await.unwrap();
    assert_eq!(journal.load().await.unwrap().events, other[..4]);
    let gap = journal.append(7, other[5..].into()).await.unwrap_err();
    assert_eq!(
        (gap.kind, gap.source.to_string().as_str()),
        (JournalErrorKind::Damaged, "event 6 is missing")
    );
    assert_eq!(journal.load().await.unwrap().events, other[..4]);
}

#[tokio::test]
async fn a_snapshot_replaces_its_events_and_keeps_later_ones() {
    let directory = tempfile::tempdir().unwrap();
    let journal = EmbeddedJournal::open(directory.path().join("j")).await.unwrap();
    let events = events(3, 90);
    journal.append(2, events[..60].into()).await.unwrap();
    for end in [20, 60] {
        let changes = SnapshotChanges::complete(&state(&events[..end]));
        journal.write_snapshot(changes).await.unwrap();
        let content = journal.load().await.unwrap();
        assert_eq!(content.events, events[end..60]);
        assert_eq!(content.snapshot.map(State::from), Some(state(&events[..end])));
    }
    let older = SnapshotChanges::complete(&state(&events[..40]));
    journal.write_snapshot(older).await.unwrap();
    journal.append(62, events[60..].into()).await.unwrap();
    assert_eq!(loaded(&journal).await, state(&events));
}

#[tokio::test]
async fn the_newest_of_the_replaced_events_stay_as_history() {
    let directory = tempfile::tempdir().unwrap();
    let storage = FileStorage::new(directory.path().join("j"));
    let journal = EmbeddedJournal::with_storage(storage, HISTORY).await;
    let journal = journal.unwrap();
    let events = events(3, 90);
    let read = async |after, limit| journal.read_events(after, limit).await.unwrap();
    let indexed = |from: u64, to: u64| {
        (2..).zip(events.clone()).filter(move |(index, _)| (from..=to).contains(index))
    };
    journal.append(2, events[..].into()).await.unwrap();
    assert!(read(0, 200).await.into_iter().eq(indexed(2, 91)));
    for (end, first) in [(60, 52), (90, 82)] {
        let changes = SnapshotChanges::complete(&state(&events[..end]));
        journal.write_snapshot(changes).await.unwrap();
        assert_eq!(journal.load().await.unwrap().events, events[end..]);
        assert!(read(0, 200).await.into_iter().eq(indexed(first, 91)));
        assert!(read(first, 5).await.into_iter().eq(indexed(first + 1, first + 5)));
    }
    assert_eq!(read(91, 5).await, []);
    assert_eq!(read(u64::MAX, 5).await, []);
}

/// Only the changed objects get new rows, and removed ones leave none.
#[tokio::test]
async fn a_snapshot_of_changes_rewrites_only_what_changed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    let volume = |n: u64| key("default", &format!("v{n}"));
    let mut all = vec![Event::new(0, started())];
    all.extend((0..1000).map(|n| Event::new(1, registered(&volume(n), "ext"))));
    journal.append(2, all[..].into()).await.unwrap();
    let complete = SnapshotChanges::complete(&state(&all));
    journal.write_snapshot(complete).await.unwrap();
    let gone = |n| Event::new(2, EventKind::VolumeDeregistered { key: volume(n) });
    let more = [gone(7), gone(8), Event::new(2, registered(&volume(8), "new"))];
    all.extend(more.clone());
    journal.append(1003, more.into()).await.unwrap();
    let changed = [7, 8].map(volume).map(Subject::Volume);
    let changes = SnapshotChanges::of(&state(&all), changed.into());
    journal.write_snapshot(changes).await.unwrap();
    assert_eq!(loaded(&journal).await, state(&all));
    journal.close().await.unwrap();
    let database = Database::create(&path).unwrap();
    let rows = database.begin_read().unwrap().open_table(RECORDS).unwrap();
    let index = |row: Result<(redb::AccessGuard<'_, _>, redb::AccessGuard<'_, &[u8]>), _>| {
        let (key, _): (redb::AccessGuard<'_, (u8, &str, &str, u64)>, _) = row.unwrap();
        key.value().3
    };
    let indexes: Vec<_> = rows.iter().unwrap().map(index).collect();
    assert_eq!(indexes.len(), 1 + 999, "a header and a row per volume");
    let rewritten = indexes.iter().filter(|index| **index == 1005).count();
    assert_eq!(rewritten, 2, "the header and one volume");
}

#[tokio::test]
async fn changes_without_a_complete_snapshot_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let journal = EmbeddedJournal::open(directory.path().join("j")).await.unwrap();
    let events = events(1, 20);
    journal.append(2, events[..].into()).await.unwrap();
    let changes = SnapshotChanges::of(&state(&events), Default::default());
    let refused = journal.write_snapshot(changes).await.unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::Damaged);
    assert_eq!(loaded(&journal).await, state(&events), "nothing is lost");
}

/// Writes a journal of format 1, as versions up to event version 4 did: a snapshot in parts, then
/// events.
fn write_format_1(path: &Path, version: u16, tail: &[Event]) {
    let head = br#"{"origin":"o","volumes_index":3,"plugins_index":1,"plugins":[],"nodes":[],"volumes":1,"variables_index":1,"variables":0}"#;
    let volume = br#"{"definition":{"key":{"namespace":"default","id":"db"},"name":"","plugin_id":"hostpath","capabilities":[],"capacity":{"min":0,"max":0},"topology_request":null,"clone_id":null,"snapshot_id":null,"mount_options":null,"parameters":{}},"provided":{"provider":"","provider_version":"","external_id":"ext-1","capacity":0,"context":{},"topologies":[]},"secrets":"","phase":"registered","create_index":3,"modify_index":3,"create_time":5,"modify_time":5}"#;
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut meta = transaction.open_table(META).unwrap();
        for (key, value) in [(FORMAT, 1), (SNAPSHOT_INDEX, 3), (SNAPSHOT_PARTS, 2)] {
            meta.insert(key, value).unwrap();
        }
        let mut parts = transaction.open_table(SNAPSHOTS).unwrap();
        for (part, payload) in [(0, &head[..]), (1, volume)] {
            let row = enclosed(&RowKey::SnapshotPart { index: 3, part }, version, payload);
            parts.insert((3, part), row.as_slice()).unwrap();
        }
        let mut events = transaction.open_table(EVENTS).unwrap();
        for (index, event) in (4..).zip(tail) {
            let payload = serde_json::to_vec(event).unwrap();
            let row = enclosed(&RowKey::Event { index }, version, &payload);
            events.insert(index, row.as_slice()).unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_journal_of_every_earlier_version_opens_and_is_rewritten() {
    let db = key("default", "db");
    let deleting =
        EventKind::VolumeDeleteIntended { key: db.clone(), instance: None, request: None };
    for version in 1..=4 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("j");
        write_format_1(&path, version, &[Event::new(9, deleting.clone())]);
        let journal = EmbeddedJournal::open(&path).await.unwrap();
        let held = journal.load().await.unwrap();
        assert!(!held.accepts_changes);
        let before = loaded(&journal).await;
        assert_eq!((before.index(), before.origin()), (4, "o"));
        assert_eq!(before.record(&db).unwrap().modify_index, 4);

        let changes = SnapshotChanges::complete(&before);
        journal.write_snapshot(changes).await.unwrap();
        journal.close().await.unwrap();
        let journal = EmbeddedJournal::open(&path).await.unwrap();
        let held = journal.load().await.unwrap();
        assert_eq!((held.accepts_changes, held.events), (true, vec![]));
        assert_eq!(held.snapshot.map(State::from), Some(before));
        journal.close().await.unwrap();
        let database = Database::create(&path).unwrap();
        let reading = database.begin_read().unwrap();
        let meta = reading.open_table(META).unwrap();
        assert_eq!(value(&meta, FORMAT).unwrap(), Some(2), "earlier versions refuse it");
        assert!(reading.open_table(SNAPSHOTS).unwrap().is_empty().unwrap());
    }
}

#[tokio::test]
async fn a_journal_of_a_later_version_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let deleting = EventKind::VolumeDeleteIntended {
        key: key("default", "db"),
        instance: None,
        request: None,
    };
    write_format_1(&path, EVENT_VERSION + 1, &[Event::new(9, deleting)]);
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    let refused = journal.load().await.unwrap_err();
    assert_eq!(refused.kind, JournalErrorKind::TooNew);
    let later = EVENT_VERSION + 1;
    assert_eq!(
        refused.source.to_string(),
        format!(
            "part 0 of snapshot 3 has version {later}, and this program reads versions up to 4"
        )
    );
}

/// Power failures during a snapshot are in `tests/suite/crash.rs`; here the disk is full.
#[tokio::test]
async fn an_unfinished_snapshot_changes_nothing_and_the_next_one_replaces_it() {
    let disk = SmallDisk::default();
    disk.room.store(u64::MAX, Ordering::SeqCst);
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let volume = |n: u64| key("default", &format!("v{n}"));
    let mut all = vec![Event::new(0, started())];
    all.extend((0..2000).map(|n| Event::new(1, registered(&volume(n), "ext"))));
    journal.append(2, all[..].into()).await.unwrap();
    disk.room.store(disk.bytes().len() as u64, Ordering::SeqCst);
    let unfinished = SnapshotChanges::complete(&state(&all));
    let failed = journal.write_snapshot(unfinished).await.unwrap_err();
    assert_eq!(failed.kind, JournalErrorKind::DiskFull);
    assert_eq!(loaded(&journal).await, state(&all));

    disk.room.store(u64::MAX, Ordering::SeqCst);
    let gone = Event::new(2, EventKind::VolumeDeregistered { key: volume(0) });
    all.push(gone.clone());
    journal.append(2003, [gone].into()).await.unwrap();
    let complete = SnapshotChanges::complete(&state(&all));
    journal.write_snapshot(complete).await.unwrap();
    let held = journal.load().await.unwrap();
    assert_eq!(held.events, []);
    assert_eq!(held.snapshot.map(State::from), Some(state(&all)));
}

#[tokio::test]
async fn appends_continue_while_a_large_snapshot_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let journal = EmbeddedJournal::open(directory.path().join("j")).await.unwrap();
    let register = |n| Event::new(n, registered(&key("default", &format!("v{n}")), "ext"));
    let mut all = vec![Event::new(0, started())];
    all.extend((1..6000).map(register));
    journal.append(2, all[..].into()).await.unwrap();
    let changes = SnapshotChanges::complete(&state(&all));
    let writing = journal.write_snapshot(changes);
    let appending = async {
        for n in 6000..6010 {
            let event = register(n);
            all.push(event.clone());
            let index = u64::try_from(n).unwrap() + 2;
            journal.append(index, [event].into()).await.unwrap();
        }
    };
    let (written, ()) = tokio::join!(writing, appending);
    written.unwrap();
    let content = journal.load().await.unwrap();
    assert_eq!(content.events.len(), 10);
    assert_eq!(loaded(&journal).await, state(&all));
}

#[tokio::test]
async fn a_file_that_is_not_a_journal_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let foreign: TableDefinition<u64, u64> = TableDefinition::new("something else");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(foreign).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = EmbeddedJournal::open(&path).await.err().unwrap();
    assert_eq!(refused.kind, JournalErrorKind::Damaged);
    for text in [&b""[..], &[0; 4096]] {
        std::fs::write(&path, text).unwrap();
        let refused = EmbeddedJournal::open(&path).await.err().unwrap();
        assert_eq!(refused.kind, JournalErrorKind::Damaged, "{:?}", refused.source);
        assert!(std::fs::read(&path).unwrap() == text);
    }
    let text = b"This is a letter, and longer than a header. ".repeat(300);
    std::fs::write(&path, &text).unwrap();
    let refused = EmbeddedJournal::open(&path).await.err().unwrap();
    assert_eq!(refused.kind, JournalErrorKind::Damaged, "{:?}", refused.source);
    assert!(std::fs::read(&path).unwrap() == text);
}

#[tokio::test]
async fn a_later_format_is_refused_with_both_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    journal.close().await.unwrap();
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(META).unwrap().insert(FORMAT, 7).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = EmbeddedJournal::open(&path).await.err().unwrap();
    assert_eq!(refused.kind, JournalErrorKind::TooNew);
    assert_eq!(
        refused.source.to_string(),
        "it has format 7, and this program reads formats up to 2: a later version wrote it"
    );
}

#[tokio::test]
async fn a_changed_or_missing_row_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    journal.append(2, events(1, 10)[..].into()).await.unwrap();
    journal.close().await.unwrap();
    let edit = |edit: fn(&mut Table<'_, u64, &'static [u8]>)| {
        let database = Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        edit(&mut transaction.open_table(EVENTS).unwrap());
        transaction.commit().unwrap();
    };
    edit(|table| drop(table.insert(6, &b"E nonsense"[..]).unwrap()));
    let torn = journal.load().await.unwrap_err();
    assert_eq!(
        (torn.kind, torn.source.to_string().as_str()),
        (JournalErrorKind::Damaged, "event 6 is incomplete or was changed after it was written")
    );
    journal.close().await.unwrap();
    edit(|table| drop(table.remove(6).unwrap()));
    let gap = journal.load().await.unwrap_err();
    assert_eq!(gap.source.to_string(), "event 6 is missing");
}

/// A new agent need not wait until the process of the old one has exited.
#[tokio::test]
async fn a_closed_journal_can_be_opened_by_another_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let first = EmbeddedJournal::open(&path).await.unwrap();
    first.append(2, events(1, 3)[..].into()).await.unwrap();
    first.close().await.unwrap();
    let second = EmbeddedJournal::open(&path).await.unwrap();
    assert_eq!(second.load().await.unwrap().events.len(), 3);
}

#[tokio::test]
async fn a_second_process_is_refused_because_the_file_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    let _first = EmbeddedJournal::open(&path).await.unwrap();
    let refused = EmbeddedJournal::open(&path).await.err().unwrap();
    assert_eq!(refused.kind, JournalErrorKind::InUse);
}

/// A killed first start leaves an unfinished file under another name.
#[tokio::test]
async fn an_interrupted_first_start_is_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("j");
    std::fs::write(directory.path().join("j.new"), [0; 8192]).unwrap();
    let journal = EmbeddedJournal::open(&path).await.unwrap();
    assert_eq!(journal.load().await.unwrap(), Replay::default());
    assert!(!directory.path().join("j.new").exists());
}

#[tokio::test]
async fn a_missing_directory_is_named() {
    let refused = EmbeddedJournal::open("/nonexistent/j").await.err().unwrap();
    assert_eq!(refused.kind, JournalErrorKind::Unavailable);
    assert_eq!(refused.to_string(), "cannot open the agent's journal `/nonexistent/j`");
}

/// A disk of limited size.
#[derive(Clone, Debug, Default)]
struct SmallDisk {
    bytes: Arc<parking_lot::Mutex<Vec<u8>>>,
    room: Arc<AtomicU64>,
    syncs_fail: Arc<std::sync::atomic::AtomicBool>,
    /// How often the file was opened.
    opened: Arc<AtomicU64>,
}

impl SmallDisk {
    fn bytes(&self) -> parking_lot::MutexGuard<'_, Vec<u8>> {
        self.bytes.lock()
    }

    fn range(at: u64, length: usize) -> std::ops::Range<usize> {
        let at = usize::try_from(at).unwrap();
        at..at + length
    }
}

impl StorageBackend for SmallDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes().len() as u64)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> io::Result<()> {
        out.copy_from_slice(&self.bytes()[Self::range(at, out.len())]);
        Ok(())
    }

    /// Behaves like a file system: only writes use space, a length does not.
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.bytes().resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.syncs_fail.load(Ordering::SeqCst) {
            return Err(io::Error::other("the disk is gone"));
        }
        Ok(())
    }

    fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        let range = Self::range(at, data.len());
        let fits = range.end as u64 <= self.room.load(Ordering::SeqCst);
        if !fits {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.bytes()[range].copy_from_slice(data);
        Ok(())
    }
}

impl Storage for SmallDisk {
    type Backend = Self;

    fn path(&self) -> &Path {
        Path::new("small-disk")
    }

    fn open(&self) -> io::Result<Option<Self>> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        Ok((!self.bytes().is_empty()).then(|| self.clone()))
    }

    fn unpublished(&self) -> io::Result<Self> {
        Ok(self.clone())
    }

    fn discard(&self) -> io::Result<()> {
        self.bytes().clear();
        Ok(())
    }

    fn publish(&self) -> io::Result<()> {
        Ok(())
    }

    fn replace(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[tokio::test]
async fn a_full_disk_is_reported_loses_nothing_and_recovers() {
    let disk = SmallDisk::default();
    disk.room.store(2 << 20, Ordering::SeqCst);
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let mut acknowledged = vec![];
    let mut history = History::new(5);
    let mut refused = None;
    while refused.is_none() {
        let batch: Vec<_> = history.by_ref().take(50).collect();
        let first = 2 + acknowledged.len() as u64;
        match journal.append(first, batch[..].into()).await {
            Ok(()) => acknowledged.extend(batch),
            Err(error) => refused = Some((error, batch)),
        }
    }
    let (error, batch) = refused.unwrap();
    assert_eq!(error.kind, JournalErrorKind::DiskFull, "{:?}", error.source);
    assert_eq!(error.to_string(), "cannot append to the agent's journal `small-disk`");
    assert!(acknowledged.len() > 500, "the disk had space for only {} events", acknowledged.len());
    let first = 2 + acknowledged.len() as u64;
    for _ in 0..3 {
        let again = journal.append(first, batch[..].into()).await;
        assert_eq!(again.unwrap_err().kind, JournalErrorKind::DiskFull);
        assert_eq!(journal.load().await.unwrap().events, acknowledged);
    }
    disk.room.store(64 << 20, Ordering::SeqCst);
    journal.append(first, batch[..].into()).await.unwrap();
    acknowledged.extend(batch);
    assert_eq!(journal.load().await.unwrap().events, acknowledged);
}

/// Each opening verifies every page: a disk that goes on failing must not be read from end to end for each
/// append.
#[tokio::test(start_paused = true)]
async fn a_disk_that_goes_on_failing_is_opened_less_and_less_often() {
    let disk = SmallDisk::default();
    disk.room.store(u64::MAX, Ordering::SeqCst);
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let events = events(8, 40);
    journal.append(2, events[..20].into()).await.unwrap();
    disk.room.store(0, Ordering::SeqCst);
    let opened = || disk.opened.load(Ordering::SeqCst);
    let before = opened();
    for _ in 0..10_000 {
        tokio::time::advance(std::time::Duration::from_millis(10)).await;
        let failed = journal.append(22, events[20..].into()).await;
        assert_eq!(failed.unwrap_err().kind, JournalErrorKind::DiskFull);
        // Reading may work in between, and ends no pause.
        drop(journal.load().await);
    }
    let times = opened() - before;
    assert!((10..60).contains(&times), "opened {times} times in 100 s");
    disk.room.store(u64::MAX, Ordering::SeqCst);
    tokio::time::advance(std::time::Duration::from_secs(5)).await;
    journal.append(22, events[20..].into()).await.unwrap();
    assert_eq!(journal.load().await.unwrap().events, events);
}

#[tokio::test]
async fn acknowledged_events_survive_a_temporary_disk_failure() {
    let disk = SmallDisk::default();
    disk.room.store(u64::MAX, Ordering::SeqCst);
    let journal = EmbeddedJournal::with_storage(disk.clone(), HISTORY).await.unwrap();
    let events = events(8, 40);
    journal.append(2, events[..20].into()).await.unwrap();
    disk.syncs_fail.store(true, Ordering::SeqCst);
    let failed = journal.append(22, events[20..30].into()).await.unwrap_err();
    assert_eq!(failed.kind, JournalErrorKind::Unavailable);
    disk.syncs_fail.store(false, Ordering::SeqCst);
    journal.append(22, events[30..].into()).await.unwrap();
    let content = journal.load().await.unwrap().events;
    assert_eq!((&content[..20], &content[20..]), (&events[..20], &events[30..]));
}
