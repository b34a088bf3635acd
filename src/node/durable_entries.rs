//! [`DurableEntries`]: the directory entries that this process has made durable.
//!
//! An entry is durable when the directory that has it was synced after it was created. An entry that
//! exists already may be from a process that was killed before it synced, so each process syncs for
//! itself, and once.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ports::HostFileError;

/// The entries that are durable. A clone is the same set.
#[derive(Clone, Debug, Default)]
pub(super) struct DurableEntries {
    known: Arc<Mutex<HashSet<PathBuf>>>,
}

impl DurableEntries {
    /// Whether the entry is durable.
    pub(super) fn contains(&self, entry: &Path) -> bool {
        self.locked().contains(entry)
    }

    /// Makes an entry durable. Blocks.
    ///
    /// # Errors
    /// If its directory cannot be synced.
    pub(super) fn sync(&self, entry: &Path) -> Result<(), HostFileError> {
        let Some(directory) = entry.parent() else {
            return Ok(());
        };
        let synced = File::open(directory).and_then(|opened| opened.sync_all());
        synced.map_err(|error: io::Error| {
            HostFileError::new("sync the directory", directory, &error)
        })?;
        self.note(entry);
        Ok(())
    }

    /// Notes an entry that was made durable.
    pub(super) fn note(&self, entry: &Path) {
        self.locked().insert(entry.to_owned());
    }

    /// Forgets an entry that is about to be removed.
    pub(super) fn forget(&self, entry: &Path) {
        self.locked().remove(entry);
    }

    fn locked(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
