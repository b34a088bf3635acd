//! The records of volumes as files, which the controller writes and nodes read.
//!
//! The name of a file is the ID of a volume. A caller of a node can send any text as an ID; only one of the form that the
//! plugin generates becomes part of a path. All calls block.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::files;
use crate::catalog::{CatalogVolume, Content, RecordState};
use nomad_csi_model::private::remove_temporary_in;

/// The files of the records.
#[derive(Clone, Debug)]
pub(crate) struct RecordFiles {
    records: PathBuf,
    prepared: PathBuf,
}

/// What a node did to the file system of an image, which the record of the controller does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Prepared {
    is_prepared: bool,
    file_system_bytes: u64,
}

impl RecordFiles {
    /// The files in these directories, which exist.
    pub(super) fn new(records: PathBuf, prepared: PathBuf) -> Self {
        Self { records, prepared }
    }

    /// Writes the record of a volume that exists for callers, and removes that of any other.
    pub(crate) fn publish(&self, record: &CatalogVolume) -> io::Result<()> {
        let Some(file) = file_of(&self.records, &record.id) else {
            return Ok(());
        };
        match record.state {
            RecordState::Creating | RecordState::Deleting => files::remove(&file),
            RecordState::Ready => match files::read::<CatalogVolume>(&file) {
                Ok(Some(published)) if published == *record => Ok(()),
                Ok(_) | Err(_) => files::write(&file, record),
            },
        }
    }

    /// Removes the record of a volume.
    pub(crate) fn withdraw(&self, id: &str) -> io::Result<()> {
        file_of(&self.records, id).map_or(Ok(()), |file| files::remove(&file))
    }

    /// Returns the record of a volume.
    pub(crate) fn read(&self, id: &str) -> io::Result<Option<CatalogVolume>> {
        file_of(&self.records, id).map_or(Ok(None), |file| files::read(&file))
    }

    /// Adds to a record what nodes did to the content.
    pub(crate) fn add_prepared(&self, record: &mut CatalogVolume) -> io::Result<()> {
        let Some(file) = file_of(&self.prepared, &record.id) else {
            return Ok(());
        };
        if let Some(prepared) = files::read::<Prepared>(&file)? {
            let content = &mut record.content;
            content.is_prepared |= prepared.is_prepared;
            content.file_system_bytes = content.file_system_bytes.max(prepared.file_system_bytes);
        }
        Ok(())
    }

    /// Keeps what this node did to the content of a volume.
    pub(crate) fn put_prepared(&self, id: &str, content: &Content) -> io::Result<()> {
        let Some(file) = file_of(&self.prepared, id) else {
            return Ok(());
        };
        let &Content { is_prepared, file_system_bytes, .. } = content;
        files::write(&file, &Prepared { is_prepared, file_system_bytes })
    }

    /// Forgets what nodes did to the content of a deleted volume.
    pub(super) fn remove_prepared(&self, id: &str) -> io::Result<()> {
        file_of(&self.prepared, id).map_or(Ok(()), |file| files::remove(&file))
    }

    /// Removes the files of every volume that is not one of these, and what a crash of the controller left unfinished.
    pub(super) fn retain(&self, ids: &BTreeSet<String>) -> io::Result<()> {
        remove_temporary_in(&self.records)?;
        for directory in [&self.records, &self.prepared] {
            for name in files::names(directory)? {
                let id = name.strip_suffix(".json");
                if id.is_none_or(|id| !ids.contains(id)) {
                    files::remove(&directory.join(name))?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the file of a volume; `None` if the plugin generates no such ID.
fn file_of(directory: &Path, id: &str) -> Option<PathBuf> {
    is_generated(id).then(|| directory.join(format!("{id}.json")))
}

/// Returns whether the plugin generates IDs like this one.
pub(super) fn is_generated(id: &str) -> bool {
    uuid::Uuid::try_parse(id).is_ok_and(|parsed| parsed.hyphenated().to_string() == id)
}
