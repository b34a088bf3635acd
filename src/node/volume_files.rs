//! The agent's directories and files around the mount points of volumes. Every function blocks.
//!
//! A file beside each mount point names its volume, because paths are escaped or hashed. It is written
//! before the plugin is called, and removed after the undo. So whatever a plugin may have left on this
//! machine has a file. Nothing is removed recursively, and nothing through a mount. Files in a directory at which nothing
//! is mounted were written beside the volume: the directory is moved aside as a whole, within its file system.
//!
//! After a successful call the file also says which mount is there, so that another one, or none, is noticed. It is
//! forgotten before the next such call.
//!
//! A power failure ends every mount, but not what a plugin keeps on the disk, such as a session that is
//! opened again at boot. So the first file of a volume is synced before the call: that of its staging,
//! or of its target where the plugin does not stage. This is one sync, because a file system with a
//! journal commits a file together with the directories that were created before it. The file of any
//! other target may be missing or empty after a power failure, as may the mount point; the undo of the
//! server, whose journal is durable, does not need them. An empty file names nothing. A record that was synced is replaced by
//! a synced one only.

use std::fs::{DirBuilder, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use nomad_csi_model::private::{
    create_directory, create_subdirectory, exchange, exchange_synced, open_to_read,
    remove_temporary_in,
};
use nomad_csi_model::{
    AllocId, ExternalId, MountRoot, NamespacedId, RemoteVolume, StagingPath, TargetPath,
    VolumeAlias, record_beside,
};
use nomad_csi_ports::{HostFileError, SourceIdentity};

/// The directory in a plugin's root of what was written beside its volumes. No volume's directory starts with a dot.
const KEPT: &str = ".kept";
/// How often files of one mount point are kept.
const MOST_KEPT: u32 = 10_000;

/// The content of the file beside a mount point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct VolumeFile {
    /// The volume.
    #[serde(flatten)]
    pub(super) volume: RemoteVolume,
    /// Its registration.
    #[serde(flatten)]
    pub(super) name: NamespacedId,
    /// The allocation and its name of the volume, for a target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<(AllocId, VolumeAlias)>,
    /// The identity of the mount point after the last successful call; `None` from the start of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source: Option<SourceIdentity>,
}

impl VolumeFile {
    /// Returns whether a volume was certainly mounted here, so that an empty mount point is a lost mount.
    pub(super) fn has_lost_mount(&self) -> bool {
        let source = self.source.as_ref();
        self.target.is_some() || source.is_some_and(|source| source.mount.is_some())
    }
}

/// A mount point with what is around it, on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MountPoint {
    /// The mount point.
    pub(super) mount: PathBuf,
    /// Directories from the outermost to the one around the mount point, which the agent creates.
    directories: Vec<PathBuf>,
    record: PathBuf,
}

impl MountPoint {
    /// The mount point of a staging.
    pub(super) fn of_staging(root: &MountRoot, path: &StagingPath) -> Self {
        Self {
            mount: path.on_host().to_owned(),
            directories: directories(root, path.directory()),
            record: path.record(),
        }
    }

    /// The mount point of a target.
    pub(super) fn of_target(root: &MountRoot, path: &TargetPath) -> Self {
        Self {
            mount: path.on_host().to_owned(),
            directories: directories(root, path.directory()),
            record: path.record(),
        }
    }

    /// Reads the record; `None` if there is none, or an empty one.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(super) fn read(&self) -> Result<Option<VolumeFile>, HostFileError> {
        read_record(&self.record)
    }

    /// Returns whether the record says what is at the mount point.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(super) fn has_source(&self) -> Result<bool, HostFileError> {
        Ok(self.read()?.is_some_and(|record| record.source.is_some()))
    }

    /// Returns the user of this mount point.
    ///
    /// # Errors
    /// If the record cannot be read or is damaged.
    pub(super) fn holder(&self) -> Result<Holder, HostFileError> {
        if let Some(record) = self.read()? {
            return Ok(Holder::Volume(record.volume));
        }
        match std::fs::symlink_metadata(&self.mount) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Holder::Nothing),
            Ok(_) | Err(_) => Ok(Holder::Unknown),
        }
    }

    /// Creates the directories, and the record if it `is_new`.
    ///
    /// # Errors
    /// If something cannot be created or synced.
    pub(super) fn prepare(
        &self,
        record: &VolumeFile,
        is_new: bool,
        durability: Durability,
    ) -> Result<(), HostFileError> {
        for (at, directory) in self.directories.iter().enumerate() {
            let created = match at {
                0 => create_directory(directory).map(drop),
                _ => create_subdirectory(directory).map(drop),
            };
            created
                .map_err(|error| HostFileError::new("create the directory", directory, &error))?;
        }
        let write = || {
            let text = serde_json::to_vec_pretty(record)?;
            let file = match (is_new, durability) {
                // The sync below is the only one that a new record needs.
                (true, Durability::PowerFailure) if self.record.try_exists()? => {
                    exchange_synced(&self.record, &text)?
                }
                (true, Durability::PowerFailure | Durability::Crash) => {
                    exchange(&self.record, &text)?
                }
                (false, _) => open_to_read(&self.record)?,
            };
            match durability {
                Durability::PowerFailure => file.sync_all(),
                Durability::Crash => Ok(()),
            }
        };
        write().map_err(|error| HostFileError::new("write", &self.record, &error))
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

    /// Removes the mount point, which is not mounted. One with content is moved aside. Returns where it is then.
    ///
    /// # Errors
    /// If it cannot be removed or moved.
    pub(super) fn remove_mount_point(&self) -> Result<Option<PathBuf>, HostFileError> {
        let failed = |error: io::Error| HostFileError::new("remove", &self.mount, &error);
        let found = match std::fs::symlink_metadata(&self.mount) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(failed)?,
        };
        if self.has_content(&found).map_err(failed)? {
            return self.move_aside(&found).map(Some);
        }
        let removed = match found.is_dir() {
            true => std::fs::remove_dir(&self.mount),
            false => std::fs::remove_file(&self.mount),
        };
        done_or_absent(removed).map_err(failed)?;
        Ok(None)
    }

    /// Removes the record, what a crash has left of writing it, and the directories that are empty
    /// then.
    ///
    /// # Errors
    /// If the record cannot be removed.
    pub(super) fn remove_record(&self) -> Result<(), HostFileError> {
        let failed = |error: io::Error| HostFileError::new("remove", &self.record, &error);
        done_or_absent(std::fs::remove_file(&self.record)).map_err(failed)?;
        if let Some(directory) = self.directories.last() {
            done_or_absent(remove_temporary_in(directory)).map_err(failed)?;
        }
        for directory in self.directories.iter().skip(1).rev() {
            match done_or_absent(std::fs::remove_dir(directory)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => break,
                Err(error) => return Err(HostFileError::new("remove", directory, &error)),
            }
        }
        Ok(())
    }

    /// Moves the content of the mount point aside, at which nothing is mounted. Returns where it is, if there is any.
    ///
    /// # Errors
    /// If it cannot be examined or moved.
    pub(super) fn keep_content(&self) -> Result<Option<PathBuf>, HostFileError> {
        let failed = |error: io::Error| HostFileError::new("examine", &self.mount, &error);
        let found = match std::fs::symlink_metadata(&self.mount) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(failed)?,
        };
        if !self.has_content(&found).map_err(failed)? {
            return Ok(None);
        }
        let kept = self.move_aside(&found)?;
        if found.is_dir() {
            // The plugin finds what it knows.
            self.create_mount_point()?;
        }
        Ok(Some(kept))
    }

    /// Returns whether a directory has entries, or a file of the host has bytes. A device is neither.
    fn has_content(&self, found: &Metadata) -> io::Result<bool> {
        if found.is_dir() {
            let first = std::fs::read_dir(&self.mount)?.next();
            return first.transpose().map(|first| first.is_some());
        }
        Ok(found.is_file() && found.len() > 0)
    }

    /// Moves the mount point with its content to a directory of what was written beside volumes, and returns it.
    fn move_aside(&self, found: &Metadata) -> Result<PathBuf, HostFileError> {
        let failed =
            |error: io::Error| HostFileError::new("move the files in", &self.mount, &error);
        let misplaced = || failed(io::ErrorKind::InvalidInput.into());
        let root = self.directories.first().ok_or_else(misplaced)?;
        let around = self.mount.parent().and_then(|at| at.strip_prefix(root).ok());
        let mut directory = root.join(KEPT);
        create_subdirectory(&directory).map_err(failed)?;
        for part in around.ok_or_else(misplaced)? {
            directory.push(part);
            create_subdirectory(&directory).map_err(failed)?;
        }
        for number in 1..=MOST_KEPT {
            let kept = directory.join(number.to_string());
            match self.move_to(&kept, found) {
                Ok(()) => return Ok(kept),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::ErrorKind::AlreadyExists.into()))
    }

    /// Creates a directory, and moves there what is at the mount point: a directory takes its place, a file goes into it.
    fn move_to(&self, kept: &Path, found: &Metadata) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(kept)?;
        match found.is_dir() {
            true => std::fs::rename(&self.mount, kept),
            false => std::fs::rename(&self.mount, kept.join("file")),
        }
    }
}

/// The failures that a record outlives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// The end of the process, at any moment.
    Crash,
    /// A power failure too.
    PowerFailure,
}

/// The user of a mount point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nothing: there is no record, and no mount point.
    Nothing,
    /// The volume of the record.
    Volume(RemoteVolume),
    /// There is a mount point without a record. Something may be mounted there.
    Unknown,
}

/// A staging or publication in the agent's directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeftoverMount {
    /// A staging.
    Staging(MountPoint, VolumeFile),
    /// A target, and where its plugin sees it.
    Target(MountPoint, TargetPath, VolumeFile),
}

impl LeftoverMount {
    pub(super) fn volume(&self) -> &RemoteVolume {
        &self.record().volume
    }

    pub(super) fn record(&self) -> &VolumeFile {
        match self {
            Self::Staging(_, record) | Self::Target(_, _, record) => record,
        }
    }

    pub(super) fn mount(&self) -> &Path {
        match self {
            Self::Staging(mount_point, _) | Self::Target(mount_point, _, _) => &mount_point.mount,
        }
    }
}

/// The content of the agent's directories, as far as it can be read: one damaged record hides no other.
#[derive(Debug, Default)]
pub(super) struct Scan {
    /// The mounts that have a record.
    pub(super) found: Vec<LeftoverMount>,
    /// The directories and records that cannot be read.
    pub(super) unreadable: Vec<HostFileError>,
}

impl Scan {
    /// Returns what was found.
    ///
    /// # Errors
    /// If something could not be read.
    pub(super) fn complete(self) -> Result<Vec<LeftoverMount>, HostFileError> {
        match self.unreadable.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(self.found),
        }
    }

    /// Adds what is below one plugin's root.
    pub(super) fn add_all(&mut self, root: &MountRoot) {
        for volume in self.directories_in(root.on_host()) {
            if volume.file_name() != Some(KEPT.as_ref()) {
                self.add(root, &volume);
            }
        }
    }

    /// Returns the directories in a directory.
    pub(super) fn directories_in(&mut self, directory: &Path) -> Vec<PathBuf> {
        self.or_unreadable(entries(directory)).unwrap_or_default()
    }

    /// Notes what cannot be read.
    pub(super) fn or_unreadable<T>(&mut self, read: Result<T, HostFileError>) -> Option<T> {
        read.map_err(|error| self.unreadable.push(error)).ok()
    }

    /// Adds what one volume has.
    fn add(&mut self, root: &MountRoot, volume: &Path) {
        if let Some(path) = root.staging_in(volume) {
            let mount_point = MountPoint::of_staging(root, &path);
            if let Some(record) = self.or_unreadable(mount_point.read()).flatten() {
                self.found.push(LeftoverMount::Staging(mount_point, record));
            }
        }
        for alloc in self.directories_in(&root.targets_in(volume)) {
            for directory in self.directories_in(&alloc) {
                let Some(path) = root.target_in(&directory) else {
                    continue;
                };
                let mount_point = MountPoint::of_target(root, &path);
                if let Some(record) = self.or_unreadable(mount_point.read()).flatten() {
                    self.found.push(LeftoverMount::Target(mount_point, path, record));
                }
            }
        }
    }
}

/// Returns what is below one plugin's root and has a record.
///
/// # Errors
/// If a directory or a record cannot be read.
#[cfg(test)]
pub(super) fn find_all(root: &MountRoot) -> Result<Vec<LeftoverMount>, HostFileError> {
    let mut scan = Scan::default();
    scan.add_all(root);
    scan.complete()
}

/// Returns what one volume has below its plugin's root.
///
/// # Errors
/// If a directory or a record cannot be read.
pub(super) fn find_volume(
    root: &MountRoot,
    id: &ExternalId,
) -> Result<Vec<LeftoverMount>, HostFileError> {
    let mut scan = Scan::default();
    scan.add(root, &root.volume(id));
    scan.complete()
}

/// Reads the record of the mount point at this path; `None` if there is none, or an empty one.
///
/// # Errors
/// If it cannot be read or is damaged.
pub(super) fn recorded_at(mount: &Path) -> Result<Option<VolumeFile>, HostFileError> {
    read_record(&record_beside(mount))
}

/// Writes into the record of the mount point at this path what is there. Without a record nothing is written. After a power
/// failure, a record that has to outlive it is the earlier or the new one.
///
/// # Errors
/// If it cannot be read or written.
pub(super) fn record_source(
    mount: &Path,
    source: SourceIdentity,
    durability: Durability,
) -> Result<(), HostFileError> {
    let path = record_beside(mount);
    let Some(record) = read_record(&path)? else {
        return Ok(());
    };
    let record = VolumeFile { source: Some(source), ..record };
    let written =
        serde_json::to_vec_pretty(&record).map_err(io::Error::from).and_then(
            |text| match durability {
                Durability::PowerFailure => exchange_synced(&path, &text),
                Durability::Crash => exchange(&path, &text),
            },
        );
    written.map(drop).map_err(|error| HostFileError::new("write", &path, &error))
}

fn read_record(path: &Path) -> Result<Option<VolumeFile>, HostFileError> {
    let failed = |error: io::Error| HostFileError::new("read", path, &error);
    let mut text = vec![];
    let read = open_to_read(path).and_then(|mut file| file.read_to_end(&mut text));
    match read {
        Ok(_) if text.is_empty() => Ok(None),
        Ok(_) => {
            let record = serde_json::from_slice(&text);
            record.map(Some).map_err(|error| failed(error.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Returns the directories of what was written beside the volumes below one plugin's root, sorted.
///
/// # Errors
/// If a directory cannot be read.
pub(super) fn kept_files(root: &MountRoot, id: &ExternalId) -> Result<Vec<PathBuf>, HostFileError> {
    let volume = root.volume(id);
    let Some(name) = volume.file_name() else {
        return Ok(vec![]);
    };
    let volume = root.on_host().join(KEPT).join(name);
    let mut kept = entries(&volume.join("staging"))?;
    for alloc in entries(&root.targets_in(&volume))? {
        for alias in entries(&alloc)? {
            kept.extend(entries(&alias)?);
        }
    }
    Ok(kept)
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
    use nomad_csi_model::private::temporary_in;
    use nomad_csi_testing::namespace::run_in_mount_namespace;

    fn record() -> VolumeFile {
        VolumeFile {
            volume: RemoteVolume { plugin_id: "p".into(), external_id: "vol/1".into() },
            name: NamespacedId::new("default".into(), "db".into()),
            target: Some(("a1".into(), "data".into())),
            source: None,
        }
    }

    #[test]
    fn a_place_is_prepared_found_and_removed_without_trace() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let path = root.target(&"vol/1".into(), &"a1".into(), &"data".into());
        let mount_point = MountPoint::of_target(&root, &path);
        assert_eq!(mount_point.holder(), Ok(Holder::Nothing));
        mount_point.prepare(&record(), true, Durability::PowerFailure).unwrap();
        mount_point.prepare(&record(), false, Durability::PowerFailure).unwrap();
        assert_eq!(mount_point.holder(), Ok(Holder::Volume(record().volume)));
        mount_point.create_mount_point().unwrap();
        mount_point.create_mount_point().unwrap();
        let found = LeftoverMount::Target(mount_point.clone(), path, record());
        assert_eq!(find_all(&root), Ok(vec![found]));
        assert_eq!(mount_point.remove_mount_point(), Ok(None));
        assert!(!mount_point.mount.exists());
        assert_eq!(mount_point.remove_mount_point(), Ok(None));
        mount_point.remove_record().unwrap();
        mount_point.remove_record().unwrap();
        assert_eq!(find_all(&root), Ok(vec![]));
        assert_eq!(entries(root.on_host()), Ok(vec![]));
    }

    /// A crash while the record is written leaves a file with another name. The undo removes it.
    #[test]
    fn an_interrupted_record_leaves_no_trace() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let mount_point = MountPoint::of_staging(&root, &root.staging(&"v".into()));
        mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        let interrupted = temporary_in(mount_point.record.parent().unwrap()).unwrap();
        interrupted.keep().unwrap();
        mount_point.remove_record().unwrap();
        assert_eq!(entries(root.on_host()), Ok(vec![]));
    }

    /// A power failure can leave a file without content that was not synced.
    #[test]
    fn an_empty_record_names_nothing_and_is_written_again() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let path = root.target(&"v".into(), &"a1".into(), &"d".into());
        let mount_point = MountPoint::of_target(&root, &path);
        mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        mount_point.create_mount_point().unwrap();
        std::fs::write(&mount_point.record, "").unwrap();
        assert_eq!(find_all(&root), Ok(vec![]));
        assert_eq!(mount_point.holder(), Ok(Holder::Unknown));
        mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        assert_eq!(mount_point.holder(), Ok(Holder::Volume(record().volume)));
    }

    /// The content of a directory that was thought to be empty is moved as a whole, each time to another place.
    #[test]
    fn a_mount_point_with_content_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let staging = root.staging(&"v".into());
        let target = root.target(&"v".into(), &"a1".into(), &"d".into());
        let mut kept = vec![];
        for mount_point in [
            MountPoint::of_staging(&root, &staging),
            MountPoint::of_target(&root, &target),
            MountPoint::of_target(&root, &target),
        ] {
            mount_point.prepare(&record(), true, Durability::Crash).unwrap();
            mount_point.create_mount_point().unwrap();
            let below = mount_point.mount.join("below");
            std::fs::create_dir(&below).unwrap();
            std::fs::write(below.join("volume.json"), "precious").unwrap();
            let Ok(Some(path)) = mount_point.remove_mount_point() else {
                panic!("{}", mount_point.mount.display());
            };
            mount_point.remove_record().unwrap();
            let file = path.join("below/volume.json");
            assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
            kept.push(path);
        }
        // Below a device that is gone is a file.
        let block = root.target(&"v".into(), &"a2".into(), &"d".into());
        let mount_point = MountPoint::of_target(&root, &block);
        mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        std::fs::write(&mount_point.mount, "precious").unwrap();
        let path = mount_point.keep_content().unwrap().unwrap();
        assert_eq!(mount_point.keep_content(), Ok(None));
        assert_eq!(mount_point.remove_mount_point(), Ok(None));
        mount_point.remove_record().unwrap();
        let file = std::fs::read_to_string(path.join("file"));
        assert_eq!(file.unwrap(), "precious");
        kept.push(path);
        assert_eq!(kept_files(&root, &"v".into()), Ok(kept));
        assert_eq!(kept_files(&root, &"other".into()), Ok(vec![]));
        assert_eq!(find_all(&root), Ok(vec![]), "nothing of the volume is left");
    }

    /// A record of an earlier agent, which did not know what is mounted.
    #[test]
    fn an_earlier_record_is_read_and_completed() {
        let directory = tempfile::tempdir().unwrap();
        let mount = directory.path().join("mount");
        let earlier = r#"{"plugin_id":"p","external_id":"v","namespace":"default","id":"db"}"#;
        std::fs::write(directory.path().join("volume.json"), earlier).unwrap();
        let read = recorded_at(&mount).unwrap().unwrap();
        assert_eq!(read.source, None);
        let source = SourceIdentity { mount: None, device_node: Some("8:1".to_owned()) };
        record_source(&mount, source.clone(), Durability::Crash).unwrap();
        let expected = VolumeFile { source: Some(source), ..read };
        assert_eq!(recorded_at(&mount), Ok(Some(expected)));
    }

    /// A command that succeeded.
    fn run(program: &str, arguments: &[&std::ffi::OsStr]) {
        let output = std::process::Command::new(program).args(arguments).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    }

    /// An XFS that loses what was not synced when it is shut down. The journal of the agent syncs other files in the meantime.
    /// In a namespace of its own: a copy of the mount in the namespace of another test would keep the failed disk in use.
    #[test]
    fn a_synced_record_survives_a_power_failure_after_every_step() {
        run_in_mount_namespace(
            "volume_files::tests::a_synced_record_survives_a_power_failure_after_every_step",
            synced_records_survive,
        );
    }

    fn synced_records_survive() {
        use std::ffi::OsStr;
        let has = |program: &str| Path::new("/usr/sbin").join(program).exists();
        let is_root = rustix::process::geteuid().is_root();
        if !is_root
            || !has("xfs_io")
            || !has("mkfs.xfs")
            || !Path::new("/dev/loop-control").exists()
        {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let (image, disk) = (directory.path().join("image"), directory.path().join("disk"));
        std::fs::create_dir(&disk).unwrap();
        let size = 320 << 20;
        std::fs::File::create(&image).unwrap().set_len(size).unwrap();
        run("mkfs.xfs", &[OsStr::new("-q"), image.as_os_str()]);
        let mount = || {
            run("mount", &[OsStr::new("-oloop"), image.as_os_str(), disk.as_os_str()]);
        };
        let unmount = || run("umount", &[disk.as_os_str()]);
        let sync_another = || {
            let other = std::fs::File::create(disk.join("journal")).unwrap();
            other.sync_all().unwrap();
        };
        let fail = || {
            let shutdown = ["-x", "-c", "shutdown"].map(OsStr::new);
            let arguments: Vec<_> = shutdown.into_iter().chain([disk.as_os_str()]).collect();
            run("xfs_io", &arguments);
            unmount();
            mount();
        };
        mount();
        let base = disk.join("mounts");
        std::fs::create_dir(&base).unwrap();
        let root = MountRoot::new(&base, &base).unwrap();
        for steps in 1..=3 {
            let id = format!("v{steps}");
            let mount_point = MountPoint::of_staging(&root, &root.staging(&id.as_str().into()));
            mount_point.prepare(&record(), true, Durability::PowerFailure).unwrap();
            if steps > 1 {
                let source = SourceIdentity { mount: None, device_node: Some("8:1".to_owned()) };
                record_source(&mount_point.mount, source, Durability::PowerFailure).unwrap();
                sync_another();
            }
            if steps > 2 {
                // A second stage forgets what was there.
                mount_point.prepare(&record(), true, Durability::PowerFailure).unwrap();
                sync_another();
            }
            fail();
            let found = mount_point.read();
            assert!(
                matches!(&found, Ok(Some(found)) if found.volume == record().volume),
                "{steps}: {found:?}"
            );
        }
        unmount();
    }

    #[test]
    fn a_damaged_record_hides_no_other_one() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let mount_points =
            ["v1", "v2", "v3"].map(|id| MountPoint::of_staging(&root, &root.staging(&id.into())));
        for mount_point in &mount_points {
            mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        }
        std::fs::write(&mount_points[1].record, [0; 4]).unwrap();
        let mut scan = Scan::default();
        scan.add_all(&root);
        let found: Vec<_> = scan.found.iter().map(LeftoverMount::mount).collect();
        assert_eq!(found, [mount_points[0].mount.as_path(), &mount_points[2].mount]);
        let unreadable: Vec<_> = scan.unreadable.iter().map(|error| &error.path).collect();
        assert_eq!(unreadable, [&mount_points[1].record]);
        assert!(scan.complete().is_err());
    }

    #[test]
    fn a_damaged_record_is_an_error_with_its_path() {
        let directory = tempfile::tempdir().unwrap();
        let root = MountRoot::new(directory.path(), directory.path()).unwrap();
        let mount_point = MountPoint::of_staging(&root, &root.staging(&"v".into()));
        mount_point.prepare(&record(), true, Durability::Crash).unwrap();
        std::fs::write(&mount_point.record, "{").unwrap();
        let refused = find_all(&root).unwrap_err();
        assert_eq!((&*refused.action, refused.path), ("read", mount_point.record));
    }
}
