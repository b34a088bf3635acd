//! The database of the catalogue: one file, opened by one process, with durable transactions (crate `database`). All calls
//! block.

use parking_lot::RwLock;
use redb::{Database, ReadableTable as _, WriteTransaction};
use serde::Serialize;

use super::records::{Backing, CatalogVolume};
use super::tables::{self, META, VOLUMES};
use nomad_csi_database::{self as database, FailureKind, Storage, begin, contained};
use nomad_csi_model::private::NotPrivate;

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
    /// The meaning for the caller.
    pub(crate) kind: FailureKind,
}

impl<E: Into<redb::Error>> From<E> for CatalogError {
    fn from(error: E) -> Self {
        let error = error.into();
        Self {
            kind: FailureKind::of(&error),
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
        kind: FailureKind::Damaged,
    }
}

/// The open database file.
pub(super) struct Store {
    reopen: Box<dyn Fn() -> Result<Database, CatalogError> + Send + Sync>,
    /// `None` only while the file is reopened.
    database: RwLock<Option<Database>>,
}

impl Store {
    /// Opens the catalogue in this storage, and creates it if it does not exist.
    pub(super) fn open(storage: impl Storage) -> Result<Self, CatalogError> {
        guarded(|| {
            let database = open_database(&storage)?;
            prepare(&database)?;
            let reopen = Box::new(move || reopen_database(&storage));
            Ok(Self { reopen, database: RwLock::new(Some(database)) })
        })
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
            Some(Err(error)) if error.kind == FailureKind::Closed => {}
            Some(result) => return result,
            None => {}
        }
        let mut database = self.database.write();
        let failed = database.take();
        guarded(|| {
            drop(failed);
            call(database.insert((self.reopen)()?))
        })
    }
}

/// Runs work with the database, which panics on some damaged files. It must be opened again then.
fn guarded<T>(work: impl FnOnce() -> Result<T, CatalogError>) -> Result<T, CatalogError> {
    contained(work)
        .unwrap_or_else(|panic| Err(CatalogError { kind: FailureKind::Closed, ..damaged(panic) }))
}

/// Opens the database, or creates it.
pub(super) fn open_database(storage: &impl Storage) -> Result<Database, CatalogError> {
    let create = || Ok::<_, CatalogError>(database::create_without_lock(storage, CACHE_BYTES)?);
    let opened = database::open(storage, CACHE_BYTES, create)?;
    opened.ok_or_else(|| damaged("its file is empty"))
}

/// Opens the database of a running plugin again. One without its file has lost its records: an empty one would be wrong.
fn reopen_database(storage: &impl Storage) -> Result<Database, CatalogError> {
    let gone = || Err(damaged("its file was removed while the plugin ran"));
    let opened = database::open(storage, CACHE_BYTES, gone)?;
    opened.ok_or_else(|| damaged("its file is empty"))
}

/// Creates missing tables, and rewrites an earlier format.
fn prepare(database: &Database) -> Result<(), CatalogError> {
    let transaction = begin(database)?;
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
    Ok(transaction.commit()?)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty catalogue in its place would forget every volume.
    #[test]
    fn a_catalogue_whose_file_was_removed_is_not_created_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("catalog.redb");
        let store = Store::open(nomad_csi_database::FileStorage::new(&file)).unwrap();
        std::fs::remove_file(&file).unwrap();
        let closed =
            CatalogError { kind: FailureKind::Closed, ..damaged("an earlier call failed") };
        let mut calls = 0;
        let refused = store.with_database(|_| -> Result<(), CatalogError> {
            calls += 1;
            Err(closed.clone())
        });
        let refused = refused.unwrap_err();
        assert_eq!((calls, refused.kind), (1, FailureKind::Damaged), "{refused}");
        assert!(!file.exists());
    }
}
