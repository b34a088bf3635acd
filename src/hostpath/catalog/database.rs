//! [`Catalog`]: reads, and durable changes that share transactions. All calls block.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use redb::{
    ReadTransaction, ReadableDatabase as _, ReadableTable as _, TableDefinition, WriteTransaction,
};

use super::group_write::WriteQueue;
use super::store::{CatalogError, Store, decode};
use super::tables::META;
use crate::shared::RecordFiles;
use nomad_csi_database::{FileStorage, Storage};

/// The plugin's records. Only this process has them open.
pub(crate) struct Catalog {
    store: Store,
    queue: WriteQueue,
    /// The files that the nodes of a shared directory read.
    pub(super) published: Option<RecordFiles>,
}

impl Catalog {
    /// Opens the catalogue in `file`, and creates it if it does not exist.
    pub(crate) fn open(file: &Path) -> Result<Self, CatalogError> {
        Self::in_storage(catalog_file(file))
    }

    /// Opens the catalogue in this storage, and creates it if it does not exist.
    pub(super) fn in_storage(storage: impl Storage) -> Result<Self, CatalogError> {
        Ok(Self { store: Store::open(storage)?, queue: WriteQueue::default(), published: None })
    }

    /// Writes each changed record of a volume to these files too.
    pub(crate) fn publish_to(&mut self, files: RecordFiles) {
        self.published = Some(files);
    }

    /// Counts one more use of a fault across all runs, and returns the count.
    pub(crate) fn count_fault(&self, fault: &str) -> Result<u64, CatalogError> {
        let key = format!("fault:{fault}");
        self.write(move |transaction| {
            let mut meta = transaction.open_table(META)?;
            let count = meta.get(key.as_str())?.map_or(0, |count| count.value()) + 1;
            meta.insert(key.as_str(), count)?;
            Ok(count)
        })
    }

    pub(super) fn number(&self, key: &str) -> Result<u64, CatalogError> {
        self.read(|transaction| {
            let meta = transaction.open_table(META)?;
            Ok(meta.get(key)?.map_or(0, |number| number.value()))
        })
    }

    /// Returns the record with this ID from a table.
    pub(super) fn record<T: serde::de::DeserializeOwned>(
        &self,
        table: TableDefinition<'_, &'static str, &'static [u8]>,
        id: &str,
    ) -> Result<Option<T>, CatalogError> {
        self.read(|transaction| {
            let record = transaction.open_table(table)?.get(id)?;
            record.map(|bytes| decode(bytes.value())).transpose()
        })
    }

    /// Returns the text under this key from a table.
    pub(super) fn text(
        &self,
        table: TableDefinition<'_, &'static str, &'static str>,
        key: &str,
    ) -> Result<Option<String>, CatalogError> {
        self.read(|transaction| {
            let text = transaction.open_table(table)?.get(key)?;
            Ok(text.map(|text| text.value().to_owned()))
        })
    }

    pub(super) fn read<T>(
        &self,
        look: impl Fn(&ReadTransaction) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        self.store.with_database(|database| look(&database.begin_read()?))
    }

    /// Makes a durable change. Changes that wait at the same moment share one transaction.
    pub(super) fn write<T: Send + 'static>(
        &self,
        change: impl Fn(&WriteTransaction) -> Result<T, CatalogError> + Send + 'static,
    ) -> Result<T, CatalogError> {
        self.queue.write(&self.store, change)
    }

    /// Makes a change with the next transaction, after it has synced `directory`. A crash before that
    /// loses the change.
    pub(super) fn write_later(
        &self,
        directory: Arc<OwnedFd>,
        change: impl Fn(&WriteTransaction) -> Result<(), CatalogError> + Send + 'static,
    ) {
        drop(self.queue.add(Some(directory), change));
    }

    /// Writes the changes that wait for a transaction.
    pub(crate) fn flush(&self) {
        self.queue.flush(&self.store);
    }

    /// Returns how many changes wait for a transaction.
    #[cfg(test)]
    pub(super) fn waiting_changes(&self) -> usize {
        self.queue.waiting()
    }
}

/// Returns the storage of a catalogue in `file`. Its name while it is created is that of earlier versions.
pub(super) fn catalog_file(file: &Path) -> FileStorage {
    FileStorage::new(file).with_unpublished(file.with_extension("new"))
}

impl Drop for Catalog {
    fn drop(&mut self) {
        self.flush();
    }
}
