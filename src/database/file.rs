//! Opens and creates databases: every opening verifies the checksums of all pages, and every transaction is
//! committed in two phases.
//!
//! A damaged file is therefore refused, and after a `kill -9` or a power failure a file holds the state before a
//! transaction or after it. The database cannot open a file whose creation was interrupted, so a new file is
//! completed under another name, then renamed. All calls block.

use std::io;

use redb::{Builder, Database, Error, StorageBackend as _, WriteTransaction};

use super::storage::Storage;

/// Opens the database in the published file. Without a file, it publishes the one that `create` completes. Returns `None`
/// if the file is empty: it once held a database.
///
/// # Errors
/// If the file cannot be used, is damaged, or is in use.
pub fn open<E: From<Error>>(
    storage: &impl Storage,
    cache_bytes: usize,
    create: impl FnOnce() -> Result<Database, E>,
) -> Result<Option<Database>, E> {
    let bytes = match storage.open().map_err(Error::Io)? {
        Some(bytes) => bytes,
        None => {
            create()?.close().map_err(Error::from)?;
            storage.publish().map_err(Error::Io)?;
            let published = storage.open().map_err(Error::Io)?;
            published.ok_or_else(|| Error::Io(io::ErrorKind::NotFound.into()))?
        }
    };
    if bytes.len().map_err(Error::Io)? == 0 {
        return Ok(None);
    }
    let opened = builder(cache_bytes).create_with_backend(bytes);
    Ok(Some(opened.map_err(Error::from)?))
}

/// Creates a database in the file that is not published, for a caller whose lock keeps out other processes: what an
/// interrupted call left there is emptied unread.
///
/// # Errors
/// If the file cannot be used.
pub fn create(storage: &impl Storage, cache_bytes: usize) -> Result<Database, Error> {
    let bytes = storage.unpublished()?;
    bytes.set_len(0)?;
    Ok(builder(cache_bytes).create_with_backend(bytes)?)
}

/// Creates a database in the file that is not published, for a caller without a lock: a file that another process
/// completes is in use. What an interrupted call left there is used if it is complete, and removed otherwise.
///
/// # Errors
/// If the file cannot be used.
pub fn create_without_lock(storage: &impl Storage, cache_bytes: usize) -> Result<Database, Error> {
    let create = || -> Result<Database, Error> {
        Ok(builder(cache_bytes).create_with_backend(storage.unpublished()?)?)
    };
    match create() {
        Err(error)
            if !matches!(FailureKind::of(&error), FailureKind::InUse | FailureKind::Full) =>
        {
            storage.discard()?;
            create()
        }
        created => created,
    }
}

/// Begins a transaction that is committed in two phases.
///
/// # Errors
/// If the database must be opened again.
pub fn begin(database: &Database) -> Result<WriteTransaction, Error> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

fn builder(cache_bytes: usize) -> Builder {
    let mut builder = Builder::new();
    builder.set_cache_size(cache_bytes);
    // Records may have no checksums of their own, and the database panics where it writes next to damage.
    builder.set_check_integrity_on_open(true);
    builder
}

/// The meaning of a failure for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Another process has the file open.
    InUse,
    /// The disk or its quota is full.
    Full,
    /// The file is damaged, or is not what the caller expects.
    Damaged,
    /// An earlier call failed, and the database refuses all work until it is opened again.
    Closed,
    /// The file cannot be used now.
    Unavailable,
}

impl FailureKind {
    /// Returns the kind of an error.
    pub fn of(error: &Error) -> Self {
        use io::ErrorKind::{InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
        match error {
            Error::DatabaseAlreadyOpen => Self::InUse,
            Error::Io(error) => match error.kind() {
                StorageFull | QuotaExceeded => Self::Full,
                InvalidData | UnexpectedEof => Self::Damaged,
                _ => Self::Unavailable,
            },
            Error::Corrupted(_)
            | Error::UpgradeRequired(_)
            | Error::TableTypeMismatch { .. }
            | Error::TableDoesNotExist(_) => Self::Damaged,
            Error::PreviousIo => Self::Closed,
            _ => Self::Unavailable,
        }
    }
}
