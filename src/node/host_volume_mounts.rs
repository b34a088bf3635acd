//! Whether a host volume is on the mount on which tasks used it first.
//!
//! A host volume is a directory of the operator, often the mount point of a disk, or below one. Where that mount is missing,
//! such as after a boot without the disk, a task would write to the bare directory below it. So the agent records the mount
//! point when a task first starts with the directory, and starts no task while the directory is on another one. Only the
//! mount points are compared, because an operator may replace the disk. The record is kept until the operator removes it.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use nomad_csi_model::private::{create_subdirectory, open_to_read, replace};
use nomad_csi_model::segment;
use nomad_csi_ports::{Mounter, SourceIdentity, run_blocking};

/// The directory of the records in the agent's data.
const RECORDS: &str = "host_volumes";
/// No record is longer.
const LONGEST: u64 = 64 << 10;

/// The content of a record.
#[derive(Debug, Serialize, Deserialize)]
struct HostVolumeRecord {
    /// The host volume.
    path: PathBuf,
    /// The mount point at or above it, when a task first started with it.
    mount_point: PathBuf,
}

/// Compares the mount of a host volume with the recorded one, and records the first. Returns what is at the path if it is
/// the mount point itself, for the one who mounts it; `None` if it is a directory below one, or does not exist.
///
/// # Errors
/// Why the directory is not what tasks used before, and what to do.
pub(super) async fn check_host_volume(
    mounter: &dyn Mounter,
    data: &Path,
    path: &Path,
) -> Result<Option<SourceIdentity>, String> {
    let shown = path.display();
    let failed = |error: &io::Error| format!("cannot examine host volume `{shown}`: {error}");
    let around = mounter.mount_of(path).await;
    let around = match around.map_err(|error| failed(&error.source))? {
        None => return Ok(None),
        Some(around) => around.target,
    };
    let record = format!("{}.json", segment(&path.to_string_lossy()));
    let record = data.join(RECORDS).join(record);
    let (file, desired, now) = (record.clone(), path.to_owned(), around.clone());
    let recorded = run_blocking(move || read_or_record(&file, desired, now)).await;
    let recorded = recorded.map_err(|error| {
        let record = record.display();
        format!(
            "cannot use the record `{record}` of host volume `{shown}`: {error}; remove it if the host volume is mounted \
             as it should be"
        )
    })?;
    if recorded != around {
        let (before, now, record) = (recorded.display(), around.display(), record.display());
        return Err(format!(
            "host volume `{shown}` was on the mount at `{before}`, and is on the mount at `{now}` now; \
             mount it as before, or remove `{record}` if the new place is meant"
        ));
    }
    let found = mounter.identify(path).await;
    let found = found.map_err(|error| failed(&error.source))?;
    Ok(found.filter(|found| found.mount.is_some()))
}

/// Returns the recorded mount point; without a record, records this one. Blocks.
fn read_or_record(file: &Path, path: PathBuf, mount_point: PathBuf) -> io::Result<PathBuf> {
    let mut text = vec![];
    match open_to_read(file).and_then(|file| file.take(LONGEST).read_to_end(&mut text)) {
        Ok(_) => {
            let record: HostVolumeRecord = serde_json::from_slice(&text)?;
            return Ok(record.mount_point);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    if let Some(directory) = file.parent() {
        create_subdirectory(directory)?;
    }
    let record = HostVolumeRecord { path, mount_point };
    replace(file, &serde_json::to_vec_pretty(&record)?)?;
    Ok(record.mount_point)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_testing::FakeMounter;

    fn data() -> tempfile::TempDir {
        let data = tempfile::tempdir().unwrap();
        std::fs::create_dir(data.path().join("volume")).unwrap();
        data
    }

    async fn check(mounter: &FakeMounter, data: &Path) -> Result<bool, String> {
        let found = check_host_volume(mounter, data, &data.join("volume")).await;
        found.map(|found| found.is_some())
    }

    #[tokio::test]
    async fn a_directory_of_the_host_stays_one() {
        let data = data();
        let mounter = FakeMounter::new();
        for _ in 0..2 {
            assert_eq!(check(&mounter, data.path()).await, Ok(false));
        }
        mounter.mount_foreign(&data.path().join("volume"));
        let refused = check(&mounter, data.path()).await.unwrap_err();
        assert!(refused.contains("was on the mount at `/`"), "{refused}");
    }

    #[tokio::test]
    async fn a_mount_point_at_or_above_a_volume_is_missed() {
        for above in [false, true] {
            let data = data();
            let mounter = FakeMounter::new();
            let at = match above {
                true => data.path().to_owned(),
                false => data.path().join("volume"),
            };
            mounter.mount_foreign(&at);
            assert_eq!(check(&mounter, data.path()).await, Ok(!above));
            mounter.unmount_all(&at).unwrap();
            for _ in 0..2 {
                let refused = check(&mounter, data.path()).await.unwrap_err();
                assert!(refused.contains("is on the mount at `/` now"), "{refused}");
            }
            // Another disk at the same place.
            mounter.mount_foreign(&at);
            assert_eq!(check(&mounter, data.path()).await, Ok(!above));
            mounter.unmount_all(&at).unwrap();
            let refused = check(&mounter, data.path()).await.unwrap_err();
            let record = refused.split('`').rev().nth(1).unwrap();
            std::fs::remove_file(record).unwrap();
            assert_eq!(check(&mounter, data.path()).await, Ok(false), "as advised");
        }
    }

    #[tokio::test]
    async fn what_does_not_exist_or_cannot_be_read_is_no_reason_to_guess() {
        let data = data();
        let mounter = FakeMounter::new();
        let missing = data.path().join("missing");
        let found = check_host_volume(&mounter, data.path(), &missing).await;
        assert_eq!(found, Ok(None));
        check(&mounter, data.path()).await.unwrap();
        let records = std::fs::read_dir(data.path().join(RECORDS)).unwrap();
        let record = records.map(|entry| entry.unwrap().path()).next().unwrap();
        std::fs::write(&record, "{").unwrap();
        let refused = check(&mounter, data.path()).await.unwrap_err();
        assert!(refused.contains(record.to_str().unwrap()), "{refused}");
    }
}
