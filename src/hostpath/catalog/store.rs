//! The database of the catalogue: one file, opened by one process, with durable transactions.
//!
//! Two-phase commit makes each transaction atomic: after a `kill -9` or a power failure the file holds the
//! state before it or after it. Opening verifies the checksums of all pages, so a damaged file is refused. The file is private (`private`): a link or a file of another user is
//! not opened. All calls block.

use std::path::Path;

use parking_lot::RwLock;
use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableTable as _, WriteTransaction};
use serde::Serialize;

use super::records::{Backing, CatalogVolume};
use super::tables::{self, META, VOLUMES};
use nomad_csi_model::private::{self, NotPrivate};
use nomad_csi_ports::contained;

/// The version of the record format. Opening rewrites an earlier version and refuses a later one.
pub(super) const FORMAT: u64 = 3;
/// The memory limit of the database's cache.
const CACHE_BYTES: usize = 4 << 20;

/// Why the catalogue cannot be read or written.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct CatalogError {
    /// The reason.
    pub(crate) message: String,
    /// True if the disk or its quota is full.
    pub(crate) is_full: bool,
    /// True if another process has the file open.
    pub(crate) is_in_use: bool,
    is_poisoned: bool,
}

impl<E: Into<redb::Error>> From<E> for CatalogError {
    fn from(error: E) -> Self {
        let error = error.into();
        let full = |error: &std::io::Error| {
            use std::io::ErrorKind::{QuotaExceeded, StorageFull};
            matches!(error.kind(), StorageFull | QuotaExceeded)
        };
        Self {
            is_full: matches!(&error, redb::Error::Io(io) if full(io)),
            is_in_use: matches!(&error, redb::Error::DatabaseAlreadyOpen),
            is_poisoned: matches!(&error, redb::Error::PreviousIo),
            message: match &error {
                redb::Error::Io(io) => NotPrivate::explain(io),
                other => other.to_string(),
            },
        }
    }
}

pub(super) fn damaged(what: impl std::fmt::Display) -> CatalogError {
    CatalogError {
        message: format!("the plugin's catalogue is damaged: {what}"),
        is_full: false,
        is_in_use: false,
        is_poisoned: false,
    }
}

/// The open database file.
pub(super) struct Store {
    file: std::path::PathBuf,
    /// `None` only while the file is reopened.
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Opens the catalogue in `file`, and creates it if it does not exist.
    pub(super) fn open(file: &Path) -> Result<Self, CatalogError> {
        guarded(|| Self::open_file(file))
    }

    fn open_file(file: &Path) -> Result<Self, CatalogError> {
        Self::over(open_database(file)?, file)
    }

    /// Returns the catalogue in an open database, which is that of `file` when it is reopened.
    pub(super) fn over(database: Database, file: &Path) -> Result<Self, CatalogError> {
        let transaction = begin(&database)?;
        {
            let mut meta = transaction.open_table(META)?;
            let format = meta.get("format")?.map(|format| format.value());
            tables::create_all(&transaction)?;
            match format {
                None => drop(meta.insert("format", FORMAT)?),
                Some(1 | 2) => {
                    rewrite_volumes(&transaction)?;
                    meta.insert("format", FORMAT)?;
                }
                Some(FORMAT) => {}
                Some(other) => {
                    return Err(damaged(format_args!(
                        "its format is {other}, and this version supports {FORMAT}: a newer version wrote it"
                    )));
                }
            }
        }
        transaction.commit()?;
        Ok(Self { file: file.to_owned(), database: RwLock::new(Some(database)) })
    }

    /// Runs a call. After an I/O error, such as a full disk, the database refuses all calls until
    /// it is reopened. This function reopens it once per call.
    pub(super) fn with_database<T>(
        &self,
        mut call: impl FnMut(&Database) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let first = {
            let database = self.database.read();
            database.as_ref().map(|database| guarded(|| call(database)))
        };
        match first {
            Some(Err(error)) if error.is_poisoned => {}
            Some(result) => return result,
            None => {}
        }
        let mut database = self.database.write();
        let failed = database.take();
        guarded(|| {
            drop(failed);
            call(database.insert(open_database(&self.file)?))
        })
    }
}

/// Runs work with the database, which panics on some damaged files. It must be opened again then.
fn guarded<T>(work: impl FnOnce() -> Result<T, CatalogError>) -> Result<T, CatalogError> {
    contained(work)
        .unwrap_or_else(|panic| Err(CatalogError { is_poisoned: true, ..damaged(panic) }))
}

/// Returns how every database of a catalogue is opened.
pub(super) fn builder() -> Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    // The records have no checksums of their own, and the database panics where it writes next to damage.
    builder.set_check_integrity_on_open(true);
    builder
}

/// Opens the file, or creates it. An empty file is damaged: it once held records. The database cannot open a file whose creation was interrupted.
/// So a new file is completed under another name, then renamed.
pub(super) fn open_database(file: &Path) -> Result<Database, CatalogError> {
    let builder = builder();
    if !file.try_exists()? {
        let unfinished = file.with_extension("new");
        let create = || -> Result<Database, CatalogError> {
            let file = private::open_or_create(&unfinished)?;
            Ok(builder.create_with_backend(FileBackend::new(file)?)?)
        };
        drop(match create() {
            Err(error) if !error.is_in_use && !error.is_full => {
                std::fs::remove_file(&unfinished)?;
                create()?
            }
            made => made?,
        });
        std::fs::rename(&unfinished, file)?;
        let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
        std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    let opened = private::open_existing(file)?;
    if opened.metadata()?.len() == 0 {
        return Err(damaged("its file is empty"));
    }
    Ok(builder.create_with_backend(FileBackend::new(opened)?)?)
}

pub(super) fn begin(database: &Database) -> Result<WriteTransaction, CatalogError> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    Ok(transaction)
}

/// Rewrites every volume in the current format. Earlier formats opened a directory to its users when
/// they created it.
fn rewrite_volumes(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    let mut volumes = transaction.open_table(VOLUMES)?;
    let mut records: Vec<CatalogVolume> = vec![];
    for entry in volumes.iter()? {
        records.push(decode(entry?.1.value())?);
    }
    for mut record in records {
        record.content.is_prepared |= record.content.backing == Backing::Directory;
        volumes.insert(record.id.as_str(), encode(&record)?.as_slice())?;
    }
    Ok(())
}

/// Returns the smallest string greater than `id`: the end of the range of keys whose first part is
/// `id`.
pub(super) fn key_after(id: &str) -> String {
    format!("{id}\0")
}

pub(super) fn encode(record: &impl Serialize) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(record).map_err(damaged)
}

pub(super) fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CatalogError> {
    serde_json::from_slice(bytes).map_err(damaged)
}
