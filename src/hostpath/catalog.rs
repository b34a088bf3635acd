//! What the plugin remembers: its volumes, where each is staged and published, and its snapshots.
//!
//! One file of an embedded database; every change is one transaction that is on disk when the call
//! returns (two-phase commit and quick repair, so that a `kill -9` or a power cut at any moment
//! leaves the state before or after it). The cost of a call does not grow with the number of
//! volumes. Blocking: to be called on blocking threads.
//!
//! A volume's life is `Creating` → `Ready` → `Deleting` → gone. The record is there before its
//! data and after it, so a crash between any two steps leaves a record to finish or undo from:
//! [`Catalog::unfinished`]. Only `Ready` volumes exist for callers; a name belongs to a volume until
//! its deletion begins.
//!
//! Of stagings and targets it remembers what for; whether they are there is the mount table's to
//! say (after a reboot the records are there and the mounts are not).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

use redb::{
    Database, ReadTransaction, ReadableDatabase as _, ReadableTable as _, TableDefinition,
    WriteTransaction,
};
use serde::Serialize;

mod records;
mod snapshots;

pub(super) use records::{
    Attachment, Backing, Content, GroupRecord, PlaceRecord, SnapshotRecord, Source, Stage,
    VolumeRecord, Wanted,
};

const META: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
const VOLUMES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("volumes");
const NAMES: TableDefinition<'_, &str, &str> = TableDefinition::new("names");
const UNFINISHED: TableDefinition<'_, &str, ()> = TableDefinition::new("unfinished");
const PLACES: TableDefinition<'_, (&str, &str), &[u8]> = TableDefinition::new("places");

/// The version of the records. A catalogue of an earlier version is rewritten when it is opened; one
/// of a later version is not opened.
const FORMAT: u64 = 2;
/// What all volumes together were promised, in bytes.
const PROMISED: &str = "promised";
/// How many volumes are attached.
const ATTACHED: &str = "attached";
/// The database keeps at most that much of its file in memory.
const CACHE_BYTES: usize = 4 << 20;

/// The catalogue cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(super) struct CatalogError {
    /// What was the matter, in words.
    pub(super) message: String,
    /// Whether the disk, or the quota on it, is full.
    pub(super) is_full: bool,
    /// Whether another process holds it.
    pub(super) is_in_use: bool,
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
            message: error.to_string(),
        }
    }
}

fn damaged(what: impl std::fmt::Display) -> CatalogError {
    CatalogError {
        message: format!("the plugin's catalogue is damaged: {what}"),
        is_full: false,
        is_in_use: false,
        is_poisoned: false,
    }
}

/// The plugin's records, held by this process alone.
pub(super) struct Catalog {
    file: std::path::PathBuf,
    /// `None` only while it is being opened again.
    database: RwLock<Option<Database>>,
}

impl Catalog {
    /// Opens the catalogue in `file`, and makes it if there is none.
    pub(super) fn open(file: &Path) -> Result<Self, CatalogError> {
        let database = open_database(file)?;
        let transaction = begin(&database)?;
        {
            let mut meta = transaction.open_table(META)?;
            let format = meta.get("format")?.map(|format| format.value());
            transaction.open_table(VOLUMES)?;
            transaction.open_table(NAMES)?;
            transaction.open_table(UNFINISHED)?;
            transaction.open_table(PLACES)?;
            snapshots::make_tables(&transaction)?;
            match format {
                None => drop(meta.insert("format", FORMAT)?),
                Some(1) => {
                    rewrite_volumes(&transaction)?;
                    meta.insert("format", FORMAT)?;
                }
                Some(FORMAT) => {}
                Some(other) => {
                    return Err(damaged(format_args!(
                        "it has format {other}, and this version knows {FORMAT}: a newer version wrote it"
                    )));
                }
            }
        }
        transaction.commit()?;
        Ok(Self {
            file: file.to_owned(),
            database: RwLock::new(Some(database)),
        })
    }

    /// The volume of that ID, whatever its stage.
    pub(super) fn volume(&self, id: &str) -> Result<Option<VolumeRecord>, CatalogError> {
        self.record(VOLUMES, id)
    }

    /// The volume that holds that name.
    pub(super) fn named(&self, name: &str) -> Result<Option<VolumeRecord>, CatalogError> {
        match self.text(NAMES, name)? {
            Some(id) => self.volume(&id),
            None => Ok(None),
        }
    }

    /// What all volumes together were promised, in bytes.
    pub(super) fn promised_bytes(&self) -> Result<u64, CatalogError> {
        self.number(PROMISED)
    }

    /// How many volumes are attached.
    #[cfg(test)]
    pub(super) fn attached(&self) -> Result<u64, CatalogError> {
        self.number(ATTACHED)
    }

    /// Counts one more use of a fault that is to happen a number of times over all runs.
    pub(super) fn count_fault(&self, fault: &str) -> Result<u64, CatalogError> {
        let key = format!("fault:{fault}");
        let count = self.number(&key)? + 1;
        self.write(|transaction| {
            transaction.open_table(META)?.insert(key.as_str(), count)?;
            Ok(())
        })?;
        Ok(count)
    }

    fn number(&self, key: &str) -> Result<u64, CatalogError> {
        self.read(|transaction| {
            let meta = transaction.open_table(META)?;
            Ok(meta.get(key)?.map_or(0, |number| number.value()))
        })
    }

    /// The record of that ID in a table.
    fn record<T: serde::de::DeserializeOwned>(
        &self,
        table: TableDefinition<'_, &'static str, &'static [u8]>,
        id: &str,
    ) -> Result<Option<T>, CatalogError> {
        self.read(|transaction| {
            let record = transaction.open_table(table)?.get(id)?;
            record.map(|bytes| decode(bytes.value())).transpose()
        })
    }

    /// The text under that key in a table.
    fn text(
        &self,
        table: TableDefinition<'_, &'static str, &'static str>,
        key: &str,
    ) -> Result<Option<String>, CatalogError> {
        self.read(|transaction| {
            let text = transaction.open_table(table)?.get(key)?;
            Ok(text.map(|text| text.value().to_owned()))
        })
    }

    /// Up to `limit` ready volumes with IDs after `after`, in order, and whether there are more.
    pub(super) fn page(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<VolumeRecord>, bool), CatalogError> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.read(|transaction| {
            let volumes = transaction.open_table(VOLUMES)?;
            let start = after.map_or(Unbounded, Excluded);
            let mut page = vec![];
            for entry in volumes.range::<&str>((start, Unbounded))? {
                let record: VolumeRecord = decode(entry?.1.value())?;
                if record.stage != Stage::Ready {
                    continue;
                }
                if page.len() == limit {
                    return Ok((page, true));
                }
                page.push(record);
            }
            Ok((page, false))
        })
    }

    /// Volumes whose making or removing was begun and not finished.
    pub(super) fn unfinished(&self) -> Result<Vec<VolumeRecord>, CatalogError> {
        self.read(|transaction| {
            let unfinished = transaction.open_table(UNFINISHED)?;
            let volumes = transaction.open_table(VOLUMES)?;
            let mut records = vec![];
            for entry in unfinished.iter()? {
                let entry = entry?;
                let id = entry.0.value();
                let record = volumes
                    .get(id)?
                    .ok_or_else(|| damaged(format_args!("volume {id} has no record")))?;
                records.push(decode(record.value())?);
            }
            Ok(records)
        })
    }

    /// Puts a volume down, or its next stage: `Creating` takes the name, `Deleting` gives it back.
    pub(super) fn put(&self, record: &VolumeRecord) -> Result<(), CatalogError> {
        let bytes = encode(record)?;
        let id = record.id.as_str();
        self.write(|transaction| {
            let mut names = transaction.open_table(NAMES)?;
            let mut unfinished = transaction.open_table(UNFINISHED)?;
            match record.stage {
                Stage::Creating => {
                    names.insert(record.name.as_str(), id)?;
                    unfinished.insert(id, ())?;
                }
                Stage::Ready => drop(unfinished.remove(id)?),
                Stage::Deleting => {
                    names.remove(record.name.as_str())?;
                    unfinished.insert(id, ())?;
                }
            }
            let mut volumes = transaction.open_table(VOLUMES)?;
            let before = volumes.insert(id, bytes.as_slice())?;
            let before = before.map(|bytes| decode(bytes.value())).transpose()?;
            weigh(transaction, before.as_ref(), Some(record))
        })
    }

    /// Puts down a volume that is attached now, unless `limit` others are already: then nothing is
    /// changed, and the answer is `false`.
    pub(super) fn put_attached(
        &self,
        record: &VolumeRecord,
        limit: u64,
    ) -> Result<bool, CatalogError> {
        let bytes = encode(record)?;
        self.write(|transaction| {
            let attached = {
                let meta = transaction.open_table(META)?;
                meta.get(ATTACHED)?.map_or(0, |number| number.value())
            };
            if attached >= limit {
                return Ok(false);
            }
            let mut volumes = transaction.open_table(VOLUMES)?;
            let before = volumes.insert(record.id.as_str(), bytes.as_slice())?;
            let before = before.map(|bytes| decode(bytes.value())).transpose()?;
            weigh(transaction, before.as_ref(), Some(record))?;
            Ok(true)
        })
    }

    /// Removes a volume with all that is remembered of it.
    pub(super) fn forget(&self, record: &VolumeRecord) -> Result<(), CatalogError> {
        let id = record.id.as_str();
        self.write(|transaction| {
            let mut names = transaction.open_table(NAMES)?;
            let holder = names.get(record.name.as_str())?;
            let is_holder = holder.is_some_and(|holder| holder.value() == id);
            if is_holder {
                names.remove(record.name.as_str())?;
            }
            transaction.open_table(UNFINISHED)?.remove(id)?;
            let mut volumes = transaction.open_table(VOLUMES)?;
            let before = volumes.remove(id)?;
            let before = before.map(|bytes| decode(bytes.value())).transpose()?;
            weigh(transaction, before.as_ref(), None)?;
            transaction
                .open_table(PLACES)?
                .retain_in((id, "")..(after(id).as_str(), ""), |_, _| false)?;
            Ok(())
        })
    }

    /// What a volume is remembered to be staged and published for, by path.
    pub(super) fn places(&self, id: &str) -> Result<BTreeMap<String, PlaceRecord>, CatalogError> {
        self.read(|transaction| {
            let places = transaction.open_table(PLACES)?;
            let mut found = BTreeMap::new();
            for entry in places.range((id, "")..(after(id).as_str(), ""))? {
                let (key, value) = entry?;
                found.insert(key.value().1.to_owned(), decode(value.value())?);
            }
            Ok(found)
        })
    }

    /// The volumes that have a path on record.
    pub(super) fn staged_volumes(&self) -> Result<Vec<String>, CatalogError> {
        self.read(|transaction| {
            let places = transaction.open_table(PLACES)?;
            let mut ids: Vec<String> = vec![];
            for entry in places.iter()? {
                let key = entry?.0;
                let id = key.value().0;
                if ids.last().is_none_or(|last| last != id) {
                    ids.push(id.to_owned());
                }
            }
            Ok(ids)
        })
    }

    /// Remembers what a path is made for.
    pub(super) fn put_place(
        &self,
        id: &str,
        path: &str,
        record: &PlaceRecord,
    ) -> Result<(), CatalogError> {
        let bytes = encode(record)?;
        self.write(|transaction| {
            let mut places = transaction.open_table(PLACES)?;
            places.insert((id, path), bytes.as_slice())?;
            Ok(())
        })
    }

    /// Forgets a path.
    pub(super) fn forget_place(&self, id: &str, path: &str) -> Result<(), CatalogError> {
        self.write(|transaction| {
            transaction.open_table(PLACES)?.remove((id, path))?;
            Ok(())
        })
    }

    fn read<T>(
        &self,
        look: impl Fn(&ReadTransaction) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.with_database(|database| look(&database.begin_read()?))
    }

    /// One durable transaction.
    fn write<T>(
        &self,
        change: impl Fn(&WriteTransaction) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.with_database(|database| {
            let transaction = begin(database)?;
            let changed = change(&transaction)?;
            transaction.commit()?;
            Ok(changed)
        })
    }

    /// After an I/O error (a full disk) the database refuses everything until it is opened again:
    /// that is done here, once per call.
    fn with_database<T>(
        &self,
        call: impl Fn(&Database) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let first = {
            let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
            database.as_ref().map(&call)
        };
        match first {
            Some(Err(error)) if error.is_poisoned => {}
            Some(result) => return result,
            None => {}
        }
        let mut database = self
            .database
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        drop(database.take());
        call(database.insert(open_database(&self.file)?))
    }
}

/// Opens the file, or makes it. The database does not open a file whose making was cut off, so a new
/// one is made whole under another name first, and gets its own when it is closed and durable.
fn open_database(file: &Path) -> Result<Database, CatalogError> {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    if !file.try_exists()? {
        let unfinished = file.with_extension("new");
        let made = builder.create(&unfinished).map_err(CatalogError::from);
        drop(match made {
            Err(error) if !error.is_in_use && !error.is_full => {
                std::fs::remove_file(&unfinished)?;
                builder.create(&unfinished)?
            }
            made => made?,
        });
        std::fs::rename(&unfinished, file)?;
        let directory = file.parent().filter(|path| !path.as_os_str().is_empty());
        std::fs::File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(builder.open(file)?)
}

fn begin(database: &Database) -> Result<WriteTransaction, CatalogError> {
    let mut transaction = database.begin_write()?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(true);
    Ok(transaction)
}

/// Keeps the sums in step with a record that changes.
fn weigh(
    transaction: &WriteTransaction,
    before: Option<&VolumeRecord>,
    now: Option<&VolumeRecord>,
) -> Result<(), CatalogError> {
    let weight =
        |record: Option<&VolumeRecord>| record.map(VolumeRecord::weight).unwrap_or_default();
    let (before, now) = (weight(before), weight(now));
    if before == now {
        return Ok(());
    }
    let mut meta = transaction.open_table(META)?;
    for (key, minus, plus) in [(PROMISED, before.0, now.0), (ATTACHED, before.1, now.1)] {
        let sum = meta.get(key)?.map_or(0, |number| number.value());
        meta.insert(key, sum.saturating_sub(minus).saturating_add(plus))?;
    }
    Ok(())
}

/// Spells every volume as the present format has it.
fn rewrite_volumes(transaction: &WriteTransaction) -> Result<(), CatalogError> {
    let mut volumes = transaction.open_table(VOLUMES)?;
    let mut records: Vec<VolumeRecord> = vec![];
    for entry in volumes.iter()? {
        records.push(decode(entry?.1.value())?);
    }
    for record in records {
        volumes.insert(record.id.as_str(), encode(&record)?.as_slice())?;
    }
    Ok(())
}

/// The least string that is greater than `id`: ends the range of keys that start with `id`.
fn after(id: &str) -> String {
    format!("{id}\0")
}

fn encode(record: &impl Serialize) -> Result<Vec<u8>, CatalogError> {
    serde_json::to_vec(record).map_err(damaged)
}

fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, CatalogError> {
    serde_json::from_slice(bytes).map_err(damaged)
}

#[cfg(test)]
mod tests;
