//! The agent's directories and files around the mount points of volumes. Every function blocks.
//!
//! A file beside each mount point names its volume, because paths are escaped or hashed. It is durable
//! before the plugin is called, and removed after the undo. So whatever a plugin may have left on this
//! machine has a file, also after a power failure. Nothing is removed recursively, and nothing through a
//! mount.
//!
//! A file is durable when its content is, and every entry on the way to it ([`DurableEntries`]). Entries
//! are synced before the call, but only after all have been created: a file system that has a journal
//! then commits them together. The mount point itself and every removal may be lost: the next call or
//! undo repeats them.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::durable_entries::DurableEntries;
use crate::model::{
    AllocId, ExternalId, MountRoot, NamespacedId, RemoteVolume, StagingPath, TargetPath,
    VolumeAlias,
};
use crate::ports::HostFileError;
use crate::private::{
    create_directory, create_subdirectory, open_to_read, remove_temporary_in, replace,
};

/// The content of the file beside a mount point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeRecord {
    /// The volume.
    #[serde(flatten)]
    pub(super) volume: RemoteVolume,
    /// Its registration.
    #[serde(flatten)]
    pub(super) name: NamespacedId,
    /// The allocation and its name of the volume, for a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<(AllocId, VolumeAlias)>,
}

/// A mount point with what is around it, on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The mount point.
    pub(super) mount: PathBuf,
    /// Directories from the outermost to the one around the mount point, which the agent creates.
    directories: Vec<PathBuf>,
    record: PathBuf,
}

impl Place {
    /// The place of a staging.
    pub(super) fn of_staging(root: &MountRoot, path: &StagingPath) -> Self {
        Self {
            mount: path.on_host().to_owned(),
            directories: directories(root, path.directory()),
            record: path.record(),
        }
    }

    /// The place of a target.
    pub(super) fn of_target(root: &MountRoot, path: &TargetPath) -> Self {
        Self {
            mount: path.on_host().to_owned(),
            directories: directories(root, path.directory()),
            record: path.record(),
        }
    }

    /// Reads the record; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(super) fn read(&self) -> Result<Option<VolumeRecord>, HostFileError> {
        let failed = |error: io::Error| HostFileError::new("read", &self.record, &error);
        let file = match open_to_read(&self.record) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let record = serde_json::from_reader(io::BufReader::new(file));
        record.map(Some).map_err(|error| failed(error.into()))
    }

    /// Returns what has this place.
    ///
    /// # Errors
    /// If the record cannot be read or is damaged.
    pub(super) fn holder(&self) -> Result<Holder, HostFileError> {
        if let Some(record) = self.read()? {
            return Ok(Holder::Volume(record.volume));
        }
        match std::fs::symlink_metadata(&self.mount) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::Nothing),
            Ok(_) | Err(_) => Ok(Holder::Unnamed),
        }
    }

    /// Creates the directories and the record, unless it exists, and makes them durable.
    ///
    /// # Errors
    /// If something cannot be created or synced.
    pub(super) fn prepare(
        &self,
        record: &VolumeRecord,
        is_new: bool,
        durable: &DurableEntries,
    ) -> Result<(), HostFileError> {
        let mut entries = vec![];
        for (at, directory) in self.directories.iter().enumerate() {
            let created = match at {
                0 => create_root(directory),
                _ => create_subdirectory(directory),
            };
            let created = created
                .map_err(|error| HostFileError::new("create the directory", directory, &error))?;
            if created || !durable.contains(directory) {
                entries.push(directory);
            }
        }
        if is_new {
            let failed = |error: io::Error| HostFileError::new("write", &self.record, &error);
            let text = serde_json::to_vec_pretty(record).map_err(|error| failed(error.into()))?;
            replace(&self.record, &text).map_err(failed)?;
            durable.note(&self.record);
        } else if !durable.contains(&self.record) {
            entries.push(&self.record);
        }
        entries
            .into_iter()
            .try_for_each(|entry| durable.sync(entry))
    }

    /// Creates the mount point as a directory, if nothing is there.
    ///
    /// # Errors
    /// If it cannot be created.
    pub(super) fn create_mount_point(&self) -> Result<(), HostFileError> {
        match DirBuilder::new().mode(0o700).create(&self.mount) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let action = "create the directory";
                Err(HostFileError::new(action, &self.mount, &error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Removes the mount point, which is not mounted. Returns whether it was there.
    ///
    /// # Errors
    /// If it cannot be removed, for example because a directory has content.
    pub(super) fn remove_mount_point(&self) -> Result<bool, HostFileError> {
        let failed = |error: io::Error| HostFileError::new("remove", &self.mount, &error);
        let removed = match std::fs::symlink_metadata(&self.mount) {
            Err(error) => Err(error),
            Ok(found) if found.is_dir() => std::fs::remove_dir(&self.mount),
            Ok(_) => std::fs::remove_file(&self.mount),
        };
        Ok(done_or_absent(removed).map_err(failed)?.is_some())
    }

    /// Removes the record, what a crash has left of writing it, and the directories that are empty
    /// then.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub(super) fn remove_record(&self, durable: &DurableEntries) -> Result<(), HostFileError> {
        let failed = |error: io::Error| HostFileError::new("remove", &self.record, &error);
        durable.forget(&self.record);
        done_or_absent(std::fs::remove_file(&self.record)).map_err(failed)?;
        if let Some(directory) = self.directories.last() {
            done_or_absent(remove_temporary_in(directory)).map_err(failed)?;
        }
        for directory in self.directories.iter().skip(1).rev() {
            match done_or_absent(std::fs::remove_dir(directory)) {
                Ok(_) => durable.forget(directory),
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
                Err(error) => return Err(HostFileError::new("remove", directory, &error)),
            }
        }
        Ok(())
    }

    /// Whether something is at the mount point that is not a directory, such as a device.
    ///
    /// # Errors
    /// If it cannot be examined.
    pub(super) fn has_file(&self) -> Result<bool, HostFileError> {
        match std::fs::symlink_metadata(&self.mount) {
            Ok(found) => Ok(!found.is_dir()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(HostFileError::new("examine", &self.mount, &error)),
        }
    }
}

/// What has a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nothing: there is no record, and no mount point.
    Nothing,
    /// The volume of the record.
    Volume(RemoteVolume),
    /// There is a mount point without a record. Something may be mounted there.
    Unnamed,
}

/// What the agent's directories have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A staging.
    Staging(Place, VolumeRecord),
    /// A target, and where its plugin sees it.
    Target(Place, TargetPath, VolumeRecord),
}

impl Found {
    pub(super) fn volume(&self) -> &RemoteVolume {
        match self {
            Self::Staging(_, record) | Self::Target(_, _, record) => &record.volume,
        }
    }

    pub(super) fn mount(&self) -> &Path {
        match self {
            Self::Staging(place, _) | Self::Target(place, _, _) => &place.mount,
        }
    }
}

/// Returns what is below one plugin's root and has a record.
///
/// # Errors
/// If a directory or a record cannot be read.
pub(super) fn find_all(root: &MountRoot) -> Result<Vec<Found>, HostFileError> {
    let mut found = vec![];
    for volume in entries(root.on_host())? {
        found.extend(find_in(root, &volume)?);
    }
    Ok(found)
}

/// Returns what one volume has below its plugin's root.
///
/// # Errors
/// If a directory or a record cannot be read.
pub(super) fn find_volume(root: &MountRoot, id: &ExternalId) -> Result<Vec<Found>, HostFileError> {
    find_in(root, &root.volume(id))
}

fn find_in(root: &MountRoot, volume: &Path) -> Result<Vec<Found>, HostFileError> {
    let mut found = vec![];
    if let Some(path) = root.staging_in(volume) {
        let place = Place::of_staging(root, &path);
        if let Some(record) = place.read()? {
            found.push(Found::Staging(place, record));
        }
    }
    for alloc in entries(&root.targets_in(volume))? {
        for directory in entries(&alloc)? {
            let Some(path) = root.target_in(&directory) else {
                continue;
            };
            let place = Place::of_target(root, &path);
            if let Some(record) = place.read()? {
                found.push(Found::Target(place, path, record));
            }
        }
    }
    Ok(found)
}

/// Creates the root of a plugin. Returns whether it was created.
fn create_root(root: &Path) -> io::Result<bool> {
    let exists = root.try_exists()?;
    create_directory(root)?;
    Ok(!exists)
}

/// Returns the root and every directory from there to `directory`.
fn directories(root: &MountRoot, directory: &Path) -> Vec<PathBuf> {
    let ancestors = directory.ancestors();
    let below = ancestors.take_while(|at| at.starts_with(root.on_host()));
    let mut chain: Vec<_> = below.map(Path::to_owned).collect();
    chain.reverse();
    chain
}

/// Returns the directories in `directory`, sorted; none if it does not exist.
///
/// # Errors
/// If it cannot be read.
pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>, HostFileError> {
    let failed = |error: io::Error| HostFileError::new("read the directory", directory, &error);
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(vec![]),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = vec![];
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().map_err(failed)?.is_dir() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns `None` for what does not exist.
fn done_or_absent<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::private::temporary_in;

    fn record() -> VolumeRecord {
        VolumeRecord {
            volume: RemoteVolume {
                plugin_id: "p".into(),
                external_id: "vol/1".into(),
            },
            name: NamespacedId::new("default".into(), "db".into()),
            target: Some(("a1".into(), "data".into())),
        }
    }

    #[test]
    fn a_place_is_prepared_found_and_removed_without_trace() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let path = root.target(&"vol/1".into(), &"a1".into(), &"data".into());
        let place = Place::of_target(&root, &path);
        let durable = DurableEntries::default();
        assert_eq!(place.holder(), Ok(Holder::Nothing));
        place.prepare(&record(), true, &durable).unwrap();
        place.prepare(&record(), false, &durable).unwrap();
        assert_eq!(place.holder(), Ok(Holder::Volume(record().volume)));
        assert_eq!(place.has_file(), Ok(false));
        place.create_mount_point().unwrap();
        place.create_mount_point().unwrap();
        let found = Found::Target(place.clone(), path, record());
        assert_eq!(find_all(&root), Ok(vec![found]));
        assert_eq!(place.remove_mount_point(), Ok(true));
        assert_eq!(place.remove_mount_point(), Ok(false));
        place.remove_record(&durable).unwrap();
        place.remove_record(&durable).unwrap();
        assert_eq!(find_all(&root), Ok(vec![]));
        assert_eq!(entries(root.on_host()), Ok(vec![]));
    }

    /// A crash while the record is written leaves a file with another name. The undo removes it.
    #[test]
    fn an_interrupted_record_leaves_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let place = Place::of_staging(&root, &root.staging(&"v".into()));
        place
            .prepare(&record(), true, &DurableEntries::default())
            .unwrap();
        let interrupted = temporary_in(place.record.parent().unwrap()).unwrap();
        interrupted.keep().unwrap();
        place.remove_record(&DurableEntries::default()).unwrap();
        assert_eq!(entries(root.on_host()), Ok(vec![]));
    }

    /// A process syncs each entry once, also one that it finds, and again after the entry was removed.
    #[test]
    fn entries_are_made_durable_once() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(&directory.path().join("p"), directory.path()).unwrap();
        let place = Place::of_target(&root, &root.target(&"v".into(), &"a1".into(), &"d".into()));
        let entries = || place.directories.iter().chain([&place.record]);
        let durable = DurableEntries::default();
        place.prepare(&record(), true, &durable).unwrap();
        assert!(entries().all(|entry| durable.contains(entry)));
        let next_process = DurableEntries::default();
        place.prepare(&record(), false, &next_process).unwrap();
        assert!(entries().all(|entry| next_process.contains(entry)));
        place.remove_record(&durable).unwrap();
        let left: Vec<_> = entries().filter(|entry| durable.contains(entry)).collect();
        assert_eq!(left, [root.on_host()], "the root stays");
    }

    /// The content of a directory that was thought to be empty stays.
    #[test]
    fn a_mount_point_with_content_is_not_removed() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let place = Place::of_staging(&root, &root.staging(&"v".into()));
        place
            .prepare(&record(), true, &DurableEntries::default())
            .unwrap();
        place.create_mount_point().unwrap();
        std::fs::write(place.mount.join("data"), "precious").unwrap();
        let refused = place.remove_mount_point().unwrap_err();
        assert_eq!(refused.kind, io::ErrorKind::DirectoryNotEmpty);
        assert_eq!(find_all(&root).unwrap().len(), 1, "it is still found");
    }

    #[test]
    fn a_damaged_record_is_an_error_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let place = Place::of_staging(&root, &root.staging(&"v".into()));
        place
            .prepare(&record(), true, &DurableEntries::default())
            .unwrap();
        std::fs::write(&place.record, "{").unwrap();
        let refused = find_all(&root).unwrap_err();
        assert_eq!((refused.action, refused.path), ("read", place.record));
    }
}
