//! [`EmbeddedJournal`]: the journal in one file of an embedded database (redb).
//!
//! A batch of events is one transaction. Commits are in two phases: after a power failure between any two
//! writes, torn at sector size, the next start finds the last acknowledged batch (`tests/suite/crash.rs`
//! tests this), and takes no damage for an unfinished transaction, which it would undo without a word.
//! Opening verifies the checksums of all pages, so a damaged file is refused, and no transaction has to save
//! which pages are free.
//!
//! The database refuses all work after one failed system call. It is then closed and reopened by the
//! next call, or after a pause if it fails again and again ([`ReopenPause`]). A full disk therefore fails
//! only the batches that do not fit.
//!
//! A snapshot is written in many small transactions and becomes active with one (`record_table`). It
//! keeps the newest of the events that it replaces as history.
//! Calls block, so they run on blocking threads, one transaction at a time in the order of the calls:
//! an append waits for one transaction of a snapshot at most.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use redb::{
    Database, ReadOnlyTable, ReadableDatabase as _, ReadableTable as _, StorageError, Table,
    TableDefinition, TableHandle as _,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::codec::{RecordKey, decode_event, encode_event};
use super::failure::{FORMAT_VERSION, Failure, ReopenPause};
use super::parts_codec::decode_parts;
use super::record_codec::SnapshotHeader;
use super::record_table::{
    RECORDS, ROWS_PER_TRANSACTION, RecordTable, load_records, remove_rows, remove_superseded,
    write_header, write_some,
};
use crate::journal::{Journal, JournalError, JournalErrorKind, NextSnapshot, Replay};
use nomad_csi_claims::state::{Event, SnapshotChanges, State, StateSnapshot, is_growth};
use nomad_csi_database::{FileStorage, Storage, begin, contained};

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
/// Snapshots of format 1, keyed by index and number of the part.
const SNAPSHOTS: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("snapshots");

/// Key in `META`: the format of the tables and their keys.
const FORMAT: &str = "format";
/// Key in `META`: index of the active snapshot.
const SNAPSHOT_INDEX: &str = "snapshot";
/// Key in `META`: index of the last complete snapshot. Earlier rows are leftovers.
const SNAPSHOT_BASE: &str = "snapshot base";
/// Key in `META`: number of parts of the active snapshot, in format 1.
const SNAPSHOT_PARTS: &str = "snapshot parts";
/// Key in `META`: whether no row of the file has ever had a secret in clear. Earlier versions do not write it.
const SEALED: &str = "sealed";

/// The cache size; the journal is read only once, at the start.
const CACHE_BYTES: usize = 16 << 20;
/// Limits of one transaction that removes rows.
const PARTS_PER_TRANSACTION: usize = 8;
const EVENTS_PER_TRANSACTION: usize = 1024;

/// How many of the events that a snapshot replaces are kept: some 50 MB.
const HISTORY_EVENTS: u64 = 100_000;

/// The journal in an embedded database. Clones share their state.
pub struct EmbeddedJournal<S: Storage = FileStorage>(Arc<Shared<S>>);

struct Shared<S> {
    storage: S,
    slot: Mutex<Slot>,
    /// How many of the events that a snapshot replaces are kept.
    history: u64,
    /// True if the disk is full: the reserve is used, or could not be kept.
    is_full: AtomicBool,
    /// Snapshot rows that the last load found and that do not belong to the active snapshot.
    leftovers: parking_lot::Mutex<Vec<RecordKey>>,
}

/// The open database.
#[derive(Default)]
struct Slot {
    /// `None` before the first call, and after a failed one.
    database: Option<Database>,
    pause: ReopenPause,
}

impl EmbeddedJournal {
    /// Opens the journal in this file and creates it on first use.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is not a journal, or has a later version.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::with_storage(FileStorage::new(path), HISTORY_EVENTS).await
    }

    /// Opens the journal in this file. Its snapshots keep none of the events that they replace.
    ///
    /// # Errors
    /// See [`EmbeddedJournal::open`].
    pub async fn open_without_history(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::with_storage(FileStorage::new(path), 0).await
    }
}

impl<S: Storage> EmbeddedJournal<S> {
    /// Opens the journal in this storage, and keeps that many of the events that a snapshot replaces.
    ///
    /// # Errors
    /// See [`EmbeddedJournal::open`].
    pub async fn with_storage(storage: S, history: u64) -> Result<Self, JournalError> {
        let slot = Mutex::default();
        let journal = Self(Arc::new(Shared {
            storage,
            slot,
            history,
            is_full: AtomicBool::new(false),
            leftovers: Default::default(),
        }));
        let open = |shared: &Shared<S>| {
            shared.run(|_| Ok(()))?;
            shared.keep_reserve();
            Ok(())
        };
        journal.blocking("open", open).await?;
        Ok(journal)
    }

    /// Returns whether no byte of the file can be a secret in clear that an earlier version has written.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub async fn is_sealed(&self) -> Result<bool, JournalError> {
        let work = |shared: &Shared<S>| {
            shared.run(|database| {
                let meta = database.begin_read()?.open_table(META)?;
                Ok(value(&meta, SEALED)?.is_some())
            })
        };
        self.blocking("read", work).await
    }

    /// Replaces the file by a new one that has this complete snapshot and nothing else, also no byte of a row that
    /// was removed. After a crash, the old file or the new one is the journal.
    ///
    /// # Errors
    /// If the new file cannot be written. The old one is the journal then.
    pub async fn replace(&self, snapshot: SnapshotChanges) -> Result<(), JournalError> {
        let work = move |shared: &Shared<S>| {
            let mut slot = shared.slot.blocking_lock();
            fill_database(&shared.storage, &snapshot)?;
            if let Some(database) = slot.database.take() {
                database.close()?;
            }
            Ok(shared.storage.replace()?)
        };
        self.blocking("replace", work).await
    }

    /// Runs `work` on a blocking thread. It finishes even if the caller stops waiting.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Shared<S>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, JournalError> {
        let shared = self.0.clone();
        let work = move || {
            contained(|| work(&shared)).unwrap_or_else(|panic| Err(Failure::Panicked(panic)))
        };
        let done = tokio::task::spawn_blocking(work).await;
        let result = done.unwrap_or_else(|ended| Err(Failure::Interrupted(ended)));
        result.map_err(|failure| JournalError {
            kind: failure.kind(),
            operation,
            place: self.0.storage.path().display().to_string(),
            source: Arc::new(failure),
        })
    }
}

impl<S: Storage> Clone for EmbeddedJournal<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Storage> Shared<S> {
    /// Runs `work` exclusively with the open database, in the order of the calls.
    fn run<T>(&self, work: impl FnOnce(&Database) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut slot = self.slot.blocking_lock();
        self.run_in(&mut slot, work)
    }

    fn run_in<T>(
        &self,
        slot: &mut Slot,
        work: impl FnOnce(&Database) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let opened = match slot.database.take() {
            Some(database) => Ok(database),
            None => {
                slot.pause.check(Instant::now())?;
                open_database(&self.storage)
            }
        };
        let result = opened.and_then(|database| {
            let done = work(&database)?;
            slot.database = Some(database);
            Ok(done)
        });
        if let Err(failure) = &result {
            slot.pause.failed(failure, Instant::now());
        }
        result
    }

    /// Appends events. Only this ends the pauses of a failing disk: reading may work all the time. On a full disk,
    /// growth is refused, and what else must be recorded gets the space that was kept.
    fn append(&self, first: u64, events: &[Event]) -> Result<(), Failure> {
        let mut slot = self.slot.blocking_lock();
        let grows = is_growth(events);
        if self.is_full.load(Ordering::Relaxed) && grows && !self.keep_reserve() {
            return Err(Failure::Kept);
        }
        let mut appended = self.run_in(&mut slot, |database| append(database, first, events));
        if let Err(failure) = &appended
            && failure.kind() == JournalErrorKind::DiskFull
        {
            self.is_full.store(true, Ordering::Relaxed);
            if !grows && matches!(self.storage.free_reserve(), Ok(true)) {
                tracing::warn!("the disk is full: the journal uses the space that was kept for it");
                slot.pause.ended();
                appended = self.run_in(&mut slot, |database| append(database, first, events));
            }
        }
        appended?;
        slot.pause.ended();
        Ok(())
    }

    /// Keeps space for a full disk. Returns whether it is kept.
    fn keep_reserve(&self) -> bool {
        let is_kept = match self.storage.keep_reserve() {
            Ok(is_kept) => is_kept,
            Err(error) => {
                tracing::debug!(%error, "no space is kept for a full disk");
                false
            }
        };
        self.is_full.store(!is_kept, Ordering::Relaxed);
        is_kept
    }

    fn load(&self) -> Result<Replay, Failure> {
        let (replay, leftovers) = self.run(load)?;
        *self.leftovers.lock() = leftovers;
        Ok(replay)
    }

    fn write_snapshot(&self, changes: &SnapshotChanges) -> Result<(), Failure> {
        let index = changes.numbers.index;
        let active = self.run(active_snapshot)?;
        if active.index.is_some_and(|active| active >= index) {
            return Ok(());
        }
        if !changes.is_complete && !active.has_rows {
            return Err(Failure::NothingToChange);
        }
        self.remove_leftovers()?;
        let mut rest = changes.records.as_slice();
        while !rest.is_empty() {
            let written =
                self.run(|database| in_records(database, |table| write_some(table, index, rest)))?;
            rest = &rest[written..];
        }
        self.run(|database| activate(database, changes))?;
        for part in changes.records.chunks(ROWS_PER_TRANSACTION) {
            self.run(|database| {
                in_records(database, |table| remove_superseded(table, index, part))
            })?;
        }
        self.remove_leftovers()
    }

    fn remove_leftovers(&self) -> Result<(), Failure> {
        let leftovers = || self.leftovers.lock();
        loop {
            let part: Vec<_> = leftovers().iter().take(ROWS_PER_TRANSACTION).cloned().collect();
            if part.is_empty() {
                break;
            }
            self.run(|database| in_records(database, |table| remove_rows(table, &part)))?;
            leftovers().drain(..part.len());
        }
        while self.run(|database| remove_covered(database, self.history))? {}
        Ok(())
    }
}

fn open_database(storage: &impl Storage) -> Result<Database, Failure> {
    let opened = nomad_csi_database::open(storage, CACHE_BYTES, || new_database(storage))?;
    let database = opened.ok_or(Failure::Foreign)?;
    let reading = database.begin_read()?;
    if reading.list_tables()?.all(|table| table.name() != META.name()) {
        return Err(Failure::Foreign);
    }
    match value(&reading.open_table(META)?, FORMAT)? {
        Some(1..=FORMAT_VERSION) => Ok(database),
        Some(found) if found > FORMAT_VERSION => Err(Failure::FormatTooNew { found }),
        Some(_) | None => Err(Failure::Foreign),
    }
}

/// Creates a database that has this snapshot, and closes it. It is not published.
fn fill_database(storage: &impl Storage, snapshot: &SnapshotChanges) -> Result<(), Failure> {
    let database = new_database(storage)?;
    let index = snapshot.numbers.index;
    let mut rest = snapshot.records.as_slice();
    while !rest.is_empty() {
        let written = in_records(&database, |table| write_some(table, index, rest))?;
        rest = &rest[written..];
    }
    activate(&database, snapshot)?;
    Ok(database.close()?)
}

fn new_database(storage: &impl Storage) -> Result<Database, Failure> {
    let database = nomad_csi_database::create(storage, CACHE_BYTES)?;
    let transaction = begin(&database)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT, FORMAT_VERSION)?;
        meta.insert(SEALED, 1)?;
    }
    transaction.open_table(EVENTS)?;
    transaction.open_table(RECORDS)?;
    transaction.commit()?;
    Ok(database)
}

#[async_trait]
impl<S: Storage> Journal for EmbeddedJournal<S> {
    fn place(&self) -> String {
        self.0.storage.path().display().to_string()
    }

    fn is_full(&self) -> bool {
        self.0.is_full.load(Ordering::Relaxed)
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        self.blocking("read", Shared::load).await
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        let work = move |shared: &Shared<S>| shared.append(first, &events);
        self.blocking("append to", work).await
    }

    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        let work = move |shared: &Shared<S>| shared.run(|db| read_events(db, after, limit));
        self.blocking("read", work).await
    }

    async fn write_snapshot(
        &self,
        mut changes: SnapshotChanges,
    ) -> Result<NextSnapshot, JournalError> {
        let work = move |shared: &Shared<S>| {
            // Neighbours share pages of the table, so fewer pages are written.
            let records = &mut changes.records;
            records.sort_unstable_by(|(one, _), (other, _)| one.place().cmp(&other.place()));
            shared.write_snapshot(&changes)?;
            Ok(NextSnapshot::Changes)
        };
        self.blocking("write a snapshot to", work).await
    }

    async fn close(&self) -> Result<(), JournalError> {
        let close = |shared: &Shared<S>| match shared.slot.blocking_lock().database.take() {
            Some(database) => Ok(database.close()?),
            None => Ok(()),
        };
        self.blocking("close", close).await
    }
}

/// Reads everything. Returns the rows too that do not belong to the active snapshot.
fn load(database: &Database) -> Result<(Replay, Vec<RecordKey>), Failure> {
    let reading = database.begin_read()?;
    let meta = reading.open_table(META)?;
    let index = value(&meta, SNAPSHOT_INDEX)?;
    let (mut snapshot, mut leftovers) = (None, vec![]);
    let parts = value(&meta, SNAPSHOT_PARTS)?;
    match (index, parts) {
        (None, _) => {}
        (Some(index), Some(count)) => {
            let table = reading.open_table(SNAPSHOTS)?;
            snapshot = Some(load_parts(&table, index, count)?);
        }
        (Some(index), None) => {
            let base = value(&meta, SNAPSHOT_BASE)?.unwrap_or_default();
            let loaded = load_records(&reading.open_table(RECORDS)?, base, index)?;
            (snapshot, leftovers) = (Some(loaded.snapshot), loaded.leftovers);
        }
    }
    let first = index.unwrap_or(State::FIRST_INDEX) + 1;
    let mut events = vec![];
    for (expected, row) in (first..).zip(reading.open_table(EVENTS)?.range(first..)?) {
        let (index, row) = row?;
        if index.value() != expected {
            return Err(Failure::Gap { expected });
        }
        events.push(decode_event(expected, row.value())?);
    }
    let replay =
        Replay { accepts_changes: snapshot.is_some() && parts.is_none(), snapshot, events };
    Ok((replay, leftovers))
}

fn read_events(
    database: &Database,
    after: u64,
    limit: usize,
) -> Result<Vec<(u64, Event)>, Failure> {
    let table = database.begin_read()?.open_table(EVENTS)?;
    let mut events = vec![];
    for row in table.range(after.saturating_add(1)..)?.take(limit) {
        let (index, row) = row?;
        let index = index.value();
        events.push((index, decode_event(index, row.value())?));
    }
    Ok(events)
}

fn load_parts(
    table: &ReadOnlyTable<(u64, u64), &'static [u8]>,
    index: u64,
    count: u64,
) -> Result<StateSnapshot, Failure> {
    let mut parts = vec![];
    for row in table.range((index, 0)..(index, count))? {
        parts.push(row?.1.value().to_vec());
    }
    Ok(decode_parts(index, parts)?)
}

fn append(database: &Database, first: u64, events: &[Event]) -> Result<(), Failure> {
    let transaction = begin(database)?;
    {
        let mut table = transaction.open_table(EVENTS)?;
        if last_key(&table)?.is_some_and(|last| last >= first) {
            table.retain_in(first.., |_, _| false)?;
        }
        let snapshot = value(&transaction.open_table(META)?, SNAPSHOT_INDEX)?;
        let last = last_key(&table)?.max(snapshot);
        let expected = last.unwrap_or(State::FIRST_INDEX) + 1;
        if expected != first {
            return Err(Failure::Gap { expected });
        }
        for (index, event) in (first..).zip(events) {
            let row = encode_event(index, event)?;
            table.insert(index, row.as_slice())?;
        }
    }
    transaction.commit()?;
    Ok(())
}

fn last_key(table: &Table<'_, u64, &'static [u8]>) -> Result<Option<u64>, StorageError> {
    Ok(table.last()?.map(|(index, _)| index.value()))
}

fn value(
    meta: &impl redb::ReadableTable<&'static str, u64>,
    key: &str,
) -> Result<Option<u64>, StorageError> {
    Ok(meta.get(key)?.map(|row| row.value()))
}

struct ActiveSnapshot {
    /// `None` if there is none.
    index: Option<u64>,
    /// True if it has one row per object.
    has_rows: bool,
}

fn active_snapshot(database: &Database) -> Result<ActiveSnapshot, Failure> {
    let meta = database.begin_read()?.open_table(META)?;
    let index = value(&meta, SNAPSHOT_INDEX)?;
    let has_rows = index.is_some() && value(&meta, SNAPSHOT_PARTS)?.is_none();
    Ok(ActiveSnapshot { index, has_rows })
}

/// Changes snapshot rows in one transaction.
fn in_records<T>(
    database: &Database,
    work: impl FnOnce(&mut RecordTable<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let transaction = begin(database)?;
    let done = work(&mut transaction.open_table(RECORDS)?)?;
    transaction.commit()?;
    Ok(done)
}

/// Makes a written snapshot the active one.
fn activate(database: &Database, changes: &SnapshotChanges) -> Result<(), Failure> {
    let index = changes.numbers.index;
    let header =
        SnapshotHeader { numbers: changes.numbers.clone(), objects: changes.objects.clone() };
    let transaction = begin(database)?;
    write_header(&mut transaction.open_table(RECORDS)?, &header)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT, FORMAT_VERSION)?;
        meta.insert(SNAPSHOT_INDEX, index)?;
        meta.remove(SNAPSHOT_PARTS)?;
        if changes.is_complete {
            meta.insert(SNAPSHOT_BASE, index)?;
        }
    }
    transaction.commit()?;
    Ok(())
}

/// Removes some of the events that the active snapshot contains, except the newest `history` of them, and
/// parts of snapshots of format 1. Returns whether there may be more.
fn remove_covered(database: &Database, history: u64) -> Result<bool, Failure> {
    let transaction = begin(database)?;
    let mut removed = 0;
    {
        let meta = transaction.open_table(META)?;
        let snapshot = value(&meta, SNAPSHOT_INDEX)?.unwrap_or_default();
        let covered = snapshot.saturating_sub(history);
        if value(&meta, SNAPSHOT_PARTS)?.is_none() {
            let mut parts = transaction.open_table(SNAPSHOTS)?;
            let all = parts.extract_from_if((0, 0).., |_, _| true)?;
            removed += remove_first(all, PARTS_PER_TRANSACTION)?;
        }
        let mut events = transaction.open_table(EVENTS)?;
        let covered = events.extract_from_if(..=covered, |_, _| true)?;
        removed += remove_first(covered, EVENTS_PER_TRANSACTION)?;
    }
    if removed == 0 {
        transaction.abort()?;
        return Ok(false);
    }
    transaction.commit()?;
    Ok(true)
}

/// Removes up to `limit` rows by reading them. Returns their number.
fn remove_first<T>(
    rows: impl Iterator<Item = Result<T, StorageError>>,
    limit: usize,
) -> Result<usize, StorageError> {
    rows.take(limit).try_fold(0, |count, row| row.map(|_| count + 1))
}

/// Makes a closed journal one of an earlier version.
#[cfg(any(test, feature = "testing"))]
#[expect(clippy::unwrap_used, reason = "a failed test must panic")]
pub fn forget_that_it_is_sealed(path: &std::path::Path) {
    let storage = FileStorage::new(path);
    let database = open_database(&storage).unwrap();
    let transaction = begin(&database).unwrap();
    transaction.open_table(META).unwrap().remove(SEALED).unwrap();
    transaction.commit().unwrap();
}

#[cfg(test)]
mod tests;
