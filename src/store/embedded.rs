//! [`EmbeddedJournal`]: the journal in one file of an embedded database (redb).
//!
//! Every transaction uses two-phase commit and saves the allocator state. After a power failure
//! between any two writes, torn at sector size, the next start finds the last acknowledged batch
//! without a repair (`tests/suite/crash.rs` tests this). A batch of events is one transaction.
//!
//! The database refuses all work after one failed system call. It is then closed and reopened by the
//! next call. A full disk therefore fails only the batches that do not fit.
//!
//! A snapshot is written in many small transactions and becomes active with the last one; appends run
//! between them. Calls block, so they run on blocking threads, one at a time.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use redb::{
    Builder, Database, ReadOnlyTable, ReadableDatabase as _, ReadableTable as _,
    StorageBackend as _, StorageError, Table, TableDefinition, TableHandle as _, WriteTransaction,
};
use tokio::sync::Mutex;

use super::codec::{CodecError, decode_event, decode_snapshot, encode_event, encode_snapshot};
use super::storage::{FileStorage, Storage};
use crate::ports::{ContainedPanic, Journal, JournalError, JournalErrorKind, Replay, contained};
use crate::private::NotPrivate;
use crate::state::{Event, State, StateSnapshot};

const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const EVENTS: TableDefinition<u64, &[u8]> = TableDefinition::new("events");
/// Keyed by the snapshot's index and the part's number.
const SNAPSHOTS: TableDefinition<(u64, u64), &[u8]> = TableDefinition::new("snapshots");

/// Key in `META`: the format of the tables and their keys.
const FORMAT: &str = "format";
const FORMAT_VERSION: u64 = 1;
/// Keys in `META`: index and number of parts of the active snapshot.
const SNAPSHOT_INDEX: &str = "snapshot";
const SNAPSHOT_PARTS: &str = "snapshot parts";

/// The cache size; the journal is read only once, at the start.
const CACHE_BYTES: usize = 16 << 20;
/// Limits of one transaction that removes rows.
const PARTS_PER_TRANSACTION: usize = 8;
const EVENTS_PER_TRANSACTION: usize = 4096;

/// The journal in an embedded database. A clone is the same journal.
pub struct EmbeddedJournal<S: Storage = FileStorage>(Arc<Shared<S>>);

struct Shared<S> {
    storage: S,
    /// `None` before the first call, and after a failed one.
    database: Mutex<Option<Database>>,
}

impl EmbeddedJournal {
    /// Opens the journal in this file and creates it on first use.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, is not a journal, or has a later version.
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        Self::with_storage(FileStorage::new(path)).await
    }
}

impl<S: Storage> EmbeddedJournal<S> {
    /// Opens the journal in this storage.
    ///
    /// # Errors
    /// See [`EmbeddedJournal::open`].
    pub async fn with_storage(storage: S) -> Result<Self, JournalError> {
        let database = Mutex::new(None);
        let journal = Self(Arc::new(Shared { storage, database }));
        let open = |shared: &Shared<S>| shared.run(|_| Ok(()));
        journal.blocking("open", open).await?;
        Ok(journal)
    }

    /// Runs `work` on a blocking thread. It finishes even if the caller stops waiting.
    async fn blocking<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Shared<S>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, JournalError> {
        let shared = self.0.clone();
        let work = move || contained(|| work(&shared)).unwrap_or_else(|panic| Err(panic.into()));
        let done = tokio::task::spawn_blocking(work).await;
        let result = done.unwrap_or_else(|ended| Err(Failure::Interrupted(ended)));
        result.map_err(|failure| JournalError {
            kind: failure.kind(),
            operation,
            path: self.0.storage.path().to_owned(),
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
        let mut slot = self.database.blocking_lock();
        let database = match slot.take() {
            Some(database) => database,
            None => open_database(&self.storage)?,
        };
        let result = work(&database);
        if result.is_ok() {
            *slot = Some(database);
        }
        result
    }

    fn write_snapshot(&self, snapshot: &StateSnapshot) -> Result<(), Failure> {
        let index = snapshot.index;
        if self
            .run(snapshot_index)?
            .is_some_and(|counts| counts >= index)
        {
            return Ok(());
        }
        while self.run(remove_leftovers)? {}
        let mut parts = 0;
        for part in encode_snapshot(snapshot) {
            let part = part?;
            self.run(|database| write_part(database, (index, parts), &part))?;
            parts += 1;
        }
        self.run(|database| activate_snapshot(database, index, parts))?;
        while self.run(remove_leftovers)? {}
        Ok(())
    }
}

fn open_database(storage: &impl Storage) -> Result<Database, Failure> {
    let bytes = match storage.open()? {
        Some(bytes) => bytes,
        None => {
            create_database(storage)?;
            let published = storage.open()?;
            published.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?
        }
    };
    if bytes.len()? == 0 {
        return Err(Failure::Foreign);
    }
    let database = builder().create_with_backend(bytes)?;
    let reading = database.begin_read()?;
    if reading
        .list_tables()?
        .all(|table| table.name() != META.name())
    {
        return Err(Failure::Foreign);
    }
    match value(&reading.open_table(META)?, FORMAT)? {
        Some(FORMAT_VERSION) => Ok(database),
        Some(found) if found > FORMAT_VERSION => Err(Failure::FormatTooNew { found }),
        Some(_) | None => Err(Failure::Foreign),
    }
}

fn create_database(storage: &impl Storage) -> Result<(), Failure> {
    let database = builder().create_with_backend(storage.create()?)?;
    let transaction = begin(&database)?;
    transaction
        .open_table(META)?
        .insert(FORMAT, FORMAT_VERSION)?;
    transaction.open_table(EVENTS)?;
    transaction.open_table(SNAPSHOTS)?;
    transaction.commit()?;
    database.close()?;
    Ok(storage.publish()?)
}

fn builder() -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

/// Begins a transaction. All transactions of the journal use this function.
fn begin(database: &Database) -> Result<WriteTransaction, Failure> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(true);
    Ok(transaction)
}

#[async_trait]
impl<S: Storage> Journal for EmbeddedJournal<S> {
    fn path(&self) -> &Path {
        self.0.storage.path()
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        self.blocking("read", |shared| shared.run(load)).await
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        let work = move |shared: &Shared<S>| shared.run(|db| append(db, first, &events));
        self.blocking("append to", work).await
    }

    async fn write_snapshot(&self, snapshot: StateSnapshot) -> Result<(), JournalError> {
        let work = move |shared: &Shared<S>| shared.write_snapshot(&snapshot);
        self.blocking("write a snapshot to", work).await
    }

    async fn close(&self) -> Result<(), JournalError> {
        let close = |shared: &Shared<S>| match shared.database.blocking_lock().take() {
            Some(database) => Ok(database.close()?),
            None => Ok(()),
        };
        self.blocking("close", close).await
    }
}

fn load(database: &Database) -> Result<Replay, Failure> {
    let reading = database.begin_read()?;
    let meta = reading.open_table(META)?;
    let snapshot = match value(&meta, SNAPSHOT_INDEX)? {
        None => None,
        Some(index) => {
            let count = value(&meta, SNAPSHOT_PARTS)?.unwrap_or_default();
            let table = reading.open_table(SNAPSHOTS)?;
            Some(load_snapshot(&table, index, count)?)
        }
    };
    let first = snapshot.as_ref().map_or(State::FIRST_INDEX, |s| s.index) + 1;
    let mut events = vec![];
    for (expected, row) in (first..).zip(reading.open_table(EVENTS)?.range(first..)?) {
        let (index, row) = row?;
        if index.value() != expected {
            return Err(Failure::Gap { expected });
        }
        events.push(decode_event(expected, row.value())?);
    }
    Ok(Replay { snapshot, events })
}

fn load_snapshot(
    table: &ReadOnlyTable<(u64, u64), &'static [u8]>,
    index: u64,
    count: u64,
) -> Result<StateSnapshot, Failure> {
    let mut parts = vec![];
    for row in table.range((index, 0)..(index, count))? {
        parts.push(row?.1.value().to_vec());
    }
    Ok(decode_snapshot(index, parts)?)
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

fn snapshot_index(database: &Database) -> Result<Option<u64>, Failure> {
    let meta = database.begin_read()?.open_table(META)?;
    Ok(value(&meta, SNAPSHOT_INDEX)?)
}

fn write_part(database: &Database, key: (u64, u64), part: &[u8]) -> Result<(), Failure> {
    let transaction = begin(database)?;
    transaction.open_table(SNAPSHOTS)?.insert(key, part)?;
    transaction.commit()?;
    Ok(())
}

fn activate_snapshot(database: &Database, index: u64, parts: u64) -> Result<(), Failure> {
    let transaction = begin(database)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(SNAPSHOT_INDEX, index)?;
        meta.insert(SNAPSHOT_PARTS, parts)?;
    }
    transaction.commit()?;
    Ok(())
}

/// Removes some unused rows: parts of inactive snapshots, and events that the active snapshot
/// contains. Returns whether there may be more.
fn remove_leftovers(database: &Database) -> Result<bool, Failure> {
    let transaction = begin(database)?;
    let mut removed = 0;
    {
        let counts = value(&transaction.open_table(META)?, SNAPSHOT_INDEX)?.unwrap_or_default();
        let mut parts = transaction.open_table(SNAPSHOTS)?;
        let earlier = parts.extract_from_if(..(counts, 0), |_, _| true)?;
        removed += remove_rows(earlier, PARTS_PER_TRANSACTION)?;
        let later = parts.extract_from_if((counts + 1, 0).., |_, _| true)?;
        removed += remove_rows(later, PARTS_PER_TRANSACTION)?;
        let mut events = transaction.open_table(EVENTS)?;
        let covered = events.extract_from_if(..=counts, |_, _| true)?;
        removed += remove_rows(covered, EVENTS_PER_TRANSACTION)?;
    }
    if removed == 0 {
        transaction.abort()?;
        return Ok(false);
    }
    transaction.commit()?;
    Ok(true)
}

/// Removes up to `most` rows by reading them. Returns their number.
fn remove_rows<T>(
    rows: impl Iterator<Item = Result<T, StorageError>>,
    most: usize,
) -> Result<usize, StorageError> {
    rows.take(most)
        .try_fold(0, |count, row| row.map(|_| count + 1))
}

/// Why a journal operation failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Database(redb::Error),
    /// Another user could read or change the file.
    #[error("{0}")]
    NotPrivate(#[source] NotPrivate),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the file is empty or is another database")]
    Foreign,
    #[error(
        "it has format {found}, and this program reads format {FORMAT_VERSION}: a later version wrote it"
    )]
    FormatTooNew { found: u64 },
    #[error("event {expected} is missing")]
    Gap { expected: u64 },
    /// The database panicked, which it does on a damaged file.
    #[error(transparent)]
    Panicked(#[from] ContainedPanic),
    /// The runtime is stopping.
    #[error("the operation was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(error) => match NotPrivate::find(&error) {
                Some(refused) => Self::NotPrivate(refused.clone()),
                None => Self::Database(redb::Error::Io(error)),
            },
            other => Self::Database(other),
        }
    }
}

impl Failure {
    fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Database(error) => database_kind(error),
            Self::Codec(CodecError::TooNew { .. }) | Self::FormatTooNew { .. } => {
                JournalErrorKind::TooNew
            }
            Self::Codec(
                CodecError::Corrupt { .. }
                | CodecError::Undecodable { .. }
                | CodecError::Incomplete { .. },
            )
            | Self::Foreign
            | Self::Gap { .. } => JournalErrorKind::Damaged,
            Self::Panicked(_) => JournalErrorKind::Damaged,
            Self::NotPrivate(_) | Self::Interrupted(_) => JournalErrorKind::Unavailable,
        }
    }
}

fn database_kind(error: &redb::Error) -> JournalErrorKind {
    use io::ErrorKind::{InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
    match error {
        redb::Error::DatabaseAlreadyOpen => JournalErrorKind::InUse,
        redb::Error::Io(error) => match error.kind() {
            StorageFull | QuotaExceeded => JournalErrorKind::DiskFull,
            InvalidData | UnexpectedEof => JournalErrorKind::Damaged,
            _ => JournalErrorKind::Unavailable,
        },
        redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_) => JournalErrorKind::Damaged,
        _ => JournalErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests;
