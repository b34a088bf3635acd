//! What is wrong with a volume, and with the storage behind all volumes. Pure.
//!
//! Facts in, statuses out. A status is reported only while its condition lasts, and one status and
//! reason at most once (CSI 1.13, VolumeHealth). Data that this plugin wrote and that is gone is lost
//! data. A volume that cannot be reached on this node is inaccessible. A volume that works, but not as
//! it should, is degraded.

use std::path::PathBuf;

use nomad_csi_proto::volume_health::VolumeHealthEntry;
use nomad_csi_proto::{StorageHealthErrorType, VolumeHealthErrorType};

/// Below this many free bytes the plugin's file system is short of space.
const LOW_SPACE_BYTES: u64 = 16 << 20;

/// The state of a volume's file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DataState {
    /// It exists and has its size, or the volume was never used.
    Complete,
    /// It does not exist.
    Missing(PathBuf),
    /// It is smaller than the volume.
    Truncated { path: PathBuf, bytes: u64, expected_bytes: u64 },
}

impl DataState {
    /// Returns what is wrong with the data of this volume, or `None`.
    pub(super) fn problem(&self, id: &str) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Missing(path) => Some(format!(
                "the data of volume `{id}` is missing: `{}` does not exist, and this plugin did not remove it",
                path.display()
            )),
            Self::Truncated { path, bytes, expected_bytes } => Some(format!(
                "the data of volume `{id}` is truncated: another program changed `{}`, which has {bytes} of {expected_bytes} bytes",
                path.display()
            )),
        }
    }
}

/// The facts about a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeFacts {
    pub(super) id: String,
    pub(super) data: DataState,
    /// The bytes of the volume that are not allocated yet; unlimited for a directory.
    pub(super) unwritten_bytes: u64,
    /// The free bytes of the plugin's file system.
    pub(super) available_bytes: u64,
    /// The paths where the volume is staged or published; only on the node.
    pub(super) paths: Vec<PathFacts>,
}

/// The facts about a path where a volume is staged or published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathFacts {
    pub(super) path: String,
    pub(super) state: PathState,
}

/// The state of such a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PathState {
    /// It shows the volume.
    Usable {
        /// The errors that the file system recorded.
        file_system_errors: u64,
        /// True if the file system refuses writes, although the mount does not.
        refuses_writes: bool,
        /// True if the file system of the volume has no free block or inode.
        is_full: bool,
    },
    /// Nothing is mounted there.
    NotMounted,
    /// It shows a device that is not the volume's any more, or the device is gone.
    DeviceLost,
    /// It shows something else.
    OtherMount,
    /// It cannot be read.
    Unreadable(String),
}

/// A simulated condition (`--fault health:CONDITION`). It changes the reported health only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HealthFault {
    DataMissing,
    DataTruncated,
    DeviceLost,
    FileSystemErrors,
    ReadOnly,
    NoSpace,
    StorageFailed,
}

impl HealthFault {
    /// All faults with their names on the command line.
    pub(super) const NAMES: [(&str, Self); 7] = [
        ("data-missing", Self::DataMissing),
        ("data-truncated", Self::DataTruncated),
        ("device-lost", Self::DeviceLost),
        ("file-system-errors", Self::FileSystemErrors),
        ("read-only", Self::ReadOnly),
        ("no-space", Self::NoSpace),
        ("storage-failed", Self::StorageFailed),
    ];

    /// Changes the facts of a volume to those of the simulated condition.
    pub(super) fn inject(self, facts: &mut VolumeFacts, data: PathBuf) {
        let usable = |file_system_errors, refuses_writes| PathState::Usable {
            file_system_errors,
            refuses_writes,
            is_full: false,
        };
        let mut replace = |state: &PathState| {
            for path in &mut facts.paths {
                path.state = state.clone();
            }
        };
        match self {
            Self::DataMissing => facts.data = DataState::Missing(data),
            Self::DataTruncated => {
                facts.data = DataState::Truncated {
                    path: data,
                    bytes: 0,
                    expected_bytes: facts.unwritten_bytes,
                };
            }
            Self::DeviceLost => replace(&PathState::DeviceLost),
            Self::FileSystemErrors => replace(&usable(1, false)),
            Self::ReadOnly => replace(&usable(0, true)),
            Self::NoSpace => {
                facts.available_bytes = 0;
                facts.unwritten_bytes = facts.unwritten_bytes.max(1);
            }
            Self::StorageFailed => {}
        }
    }

    /// Changes the facts of the storage to those of the simulated condition.
    pub(super) fn inject_storage(self, facts: &mut StorageFacts) {
        match self {
            Self::NoSpace => facts.available_bytes = Ok(0),
            Self::ReadOnly => facts.refuses_writes = true,
            Self::StorageFailed => facts.catalog = Err("simulated failure".to_owned()),
            Self::DataMissing | Self::DataTruncated | Self::DeviceLost | Self::FileSystemErrors => {
            }
        }
    }
}

/// Returns every adverse condition of a volume; none if it is healthy.
pub(super) fn volume_statuses(facts: &VolumeFacts) -> Vec<VolumeHealthEntry> {
    let mut statuses: Vec<VolumeHealthEntry> = vec![];
    let mut report = |status: VolumeHealthErrorType, reason: &str, message: String| {
        let is_known =
            |known: &VolumeHealthEntry| known.status == i32::from(status) && known.reason == reason;
        if !statuses.iter().any(is_known) {
            statuses.push(VolumeHealthEntry {
                status: status.into(),
                reason: reason.to_owned(),
                message,
            });
        }
    };
    if let Some(message) = facts.data.problem(&facts.id) {
        let reason = match facts.data {
            DataState::Truncated { .. } => "DataTruncated",
            DataState::Complete | DataState::Missing(_) => "DataMissing",
        };
        report(VolumeHealthErrorType::DataLoss, reason, message);
    }
    for path in &facts.paths {
        for (status, reason, message) in path_conditions(&facts.id, path) {
            report(status, reason, message);
        }
    }
    if facts.available_bytes < facts.unwritten_bytes.min(LOW_SPACE_BYTES) {
        let message = format!(
            "writes to volume `{}` may fail: {} bytes are free on the plugin's file system",
            facts.id, facts.available_bytes
        );
        report(VolumeHealthErrorType::Degraded, "NoSpace", message);
    }
    statuses
}

type Condition = (VolumeHealthErrorType, &'static str, String);

fn path_conditions(id: &str, facts: &PathFacts) -> Vec<Condition> {
    use VolumeHealthErrorType::{Degraded, Inaccessible};
    let path = &facts.path;
    match &facts.state {
        PathState::NotMounted => vec![(
            Inaccessible,
            "NotMounted",
            format!("volume `{id}` is not mounted at `{path}`, where it was staged or published"),
        )],
        PathState::DeviceLost => vec![(
            Inaccessible,
            "DeviceLost",
            format!("volume `{id}` lost its device: `{path}` does not show its file any more"),
        )],
        PathState::OtherMount => vec![(
            Inaccessible,
            "OtherMount",
            format!("something else is mounted over volume `{id}` at `{path}`"),
        )],
        PathState::Unreadable(reason) => vec![(
            Inaccessible,
            "FileSystemFailed",
            format!("volume `{id}` cannot be read at `{path}`: {reason}"),
        )],
        PathState::Usable { file_system_errors, refuses_writes, is_full } => {
            let errors = (*file_system_errors > 0).then(|| {
                let message = format!(
                    "the file system of volume `{id}` recorded errors: {file_system_errors}; unpublish the volume and check it with fsck"
                );
                (Degraded, "FileSystemErrors", message)
            });
            let refused = refuses_writes.then(|| {
                let message = format!(
                    "the file system of volume `{id}` refuses writes at `{path}`, as after an error"
                );
                (Degraded, "FileSystemReadOnly", message)
            });
            let full = is_full.then(|| {
                let message = format!("the file system of volume `{id}` is full");
                (Degraded, "VolumeFull", message)
            });
            errors.into_iter().chain(refused).chain(full).collect()
        }
    }
}

/// The facts about the storage behind all volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StorageFacts {
    /// The free bytes of the plugin's file system, or why they are unknown.
    pub(super) available_bytes: Result<u64, String>,
    /// True if the plugin's file system refuses writes.
    pub(super) refuses_writes: bool,
    /// The reason why the catalogue cannot be read, as an error.
    pub(super) catalog: Result<(), String>,
}

/// A condition of the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct StorageStatus {
    pub(super) status: StorageHealthErrorType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Returns every adverse condition of the storage; none if it is healthy.
pub(super) fn storage_statuses(facts: &StorageFacts) -> Vec<StorageStatus> {
    use StorageHealthErrorType::{StorageDegraded, StorageUnreachable};
    let mut statuses = vec![];
    let mut report = |status, reason, message| {
        statuses.push(StorageStatus { status, reason, message });
    };
    if let Err(reason) = &facts.catalog {
        let message = format!("the catalogue of the plugin cannot be read: {reason}");
        report(StorageUnreachable, "CatalogFailed", message);
    }
    match &facts.available_bytes {
        Err(reason) => {
            let message = format!("the plugin's file system cannot be measured: {reason}");
            report(StorageUnreachable, "FileSystemFailed", message);
        }
        Ok(bytes) if *bytes < LOW_SPACE_BYTES => {
            let message = format!("{bytes} bytes are free on the plugin's file system");
            report(StorageDegraded, "NoSpace", message);
        }
        Ok(_) => {}
    }
    if facts.refuses_writes {
        let message = "the plugin's file system refuses writes, as after an error".to_owned();
        report(StorageDegraded, "FileSystemReadOnly", message);
    }
    statuses
}

#[cfg(test)]
mod tests;
