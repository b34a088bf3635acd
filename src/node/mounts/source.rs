//! What is at a path that tasks get: identified, and held so that it cannot become something else in the meantime.
//!
//! A mount is named by its number in the mount namespace, and by the number that the kernel never gives again
//! (Linux 6.8). The numbers alone are not enough: an agent in another mount namespace sees the same file system under
//! other ones, so device, root and source are kept too.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;

use super::boot::boot_id;
use super::table::{mount_table, topmost_mount};
use nomad_csi_ports::{MountEntry, MountIdentity, SourceIdentity};

/// `STATX_MNT_ID_UNIQUE`: the number of a mount that is never given again.
const UNIQUE_ID: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// A path that was opened, with what is there. While it is open, neither its file system nor its inode ends, so no other
/// one can take their numbers.
#[derive(Debug)]
pub struct OpenedSource {
    file: OwnedFd,
    /// The identity of the opened path.
    pub identity: SourceIdentity,
}

/// Opens what is at a path, and asks the file system whether it still responds. Blocks.
///
/// # Errors
/// If nothing is there, or the file system does not respond, such as one whose FUSE process has ended.
pub fn open_source(path: &Path) -> io::Result<OpenedSource> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    let found =
        statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID)?;
    let identity =
        SourceIdentity { mount: mount_of(&file, &found, path)?, device_node: device_node(&found) };
    Ok(OpenedSource { file, identity })
}

/// Returns the mount that a path is on; `None` if the path does not exist. Blocks.
///
/// # Errors
/// If the file system there does not respond, or the mount table cannot be read.
pub(super) fn mount_of_path(path: &Path) -> io::Result<Option<MountEntry>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => file?,
    };
    let asked = StatxFlags::TYPE | StatxFlags::MNT_ID;
    let found = statx(&file, "", AtFlags::EMPTY_PATH, asked)?;
    let mounts = mount_table()?;
    if found.stx_mask & StatxFlags::MNT_ID.bits() != 0 {
        let mut mounts = mounts.into_iter();
        return Ok(mounts.find(|entry| entry.id == found.stx_mnt_id));
    }
    // Before Linux 5.8: the last one of the innermost mount points.
    let path = path.canonicalize()?;
    let around = mounts.into_iter().filter(|it| path.starts_with(&it.target));
    Ok(around.max_by_key(|entry| entry.target.components().count()))
}

impl OpenedSource {
    /// Returns whether an open file is the same one.
    ///
    /// # Errors
    /// If the file system does not respond.
    pub fn is_same_file(&self, other: impl AsFd) -> io::Result<bool> {
        let (own, other) = (file_number(&self.file)?, file_number(other)?);
        Ok(own == other)
    }
}

/// Device and inode of an open file.
fn file_number(file: impl AsFd) -> io::Result<[u64; 3]> {
    let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
    Ok([u64::from(found.stx_dev_major), u64::from(found.stx_dev_minor), found.stx_ino])
}

/// Returns the mount whose root the file is; `None` if it is a file inside of a mount.
fn mount_of(file: &OwnedFd, found: &Statx, path: &Path) -> io::Result<Option<MountIdentity>> {
    let has_id = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    let knows_root = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
    if !has_id || !knows_root {
        // Before Linux 5.8.
        let found = topmost_mount(path)?.map(|entry| entry.identity());
        return found.map(of_this_boot).transpose();
    }
    if !found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT) {
        return Ok(None);
    }
    let entry = mount_table()?.into_iter().find(|entry| entry.id == found.stx_mnt_id);
    // It was unmounted since it was opened.
    let entry = entry.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let unique = statx(file, "", AtFlags::EMPTY_PATH, UNIQUE_ID)?;
    let is_unique = unique.stx_mask & UNIQUE_ID.bits() != 0;
    let found = of_this_boot(entry.identity())?;
    Ok(Some(MountIdentity { unique_id: is_unique.then_some(unique.stx_mnt_id), ..found }))
}

fn of_this_boot(mount: MountIdentity) -> io::Result<MountIdentity> {
    let boot_id = Some(boot_id()?);
    Ok(MountIdentity { boot_id, ..mount })
}

fn device_node(found: &Statx) -> Option<String> {
    let is_device = matches!(
        FileType::from_raw_mode(found.stx_mode.into()),
        FileType::BlockDevice | FileType::CharacterDevice
    );
    is_device.then(|| format!("{}:{}", found.stx_rdev_major, found.stx_rdev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_inside_of_a_mount_has_no_mount_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let opened = open_source(directory.path()).unwrap();
        let nothing = SourceIdentity { mount: None, device_node: None };
        assert_eq!(opened.identity, nothing);
        let (same, other) = (directory.path(), Path::new("/"));
        let open = |path: &Path| std::fs::File::open(path).unwrap();
        assert!(opened.is_same_file(open(same)).unwrap());
        assert!(!opened.is_same_file(open(other)).unwrap());
    }

    #[test]
    fn a_path_is_on_the_innermost_mount_around_it() {
        let of = |path: &str| mount_of_path(Path::new(path)).unwrap();
        for (path, expected) in [("/proc/self/status", "/proc"), ("/proc", "/proc")] {
            assert_eq!(of(path).unwrap().target, Path::new(expected));
        }
        assert_eq!(of("/proc/nothing"), None);
    }

    #[test]
    fn a_mount_and_a_device_are_identified_and_what_is_missing_is_an_error() {
        let proc = open_source(Path::new("/proc")).unwrap().identity;
        assert_eq!(proc.mount.unwrap().root, Path::new("/"));
        let null = open_source(Path::new("/dev/null")).unwrap().identity;
        assert_eq!(null.device_node.as_deref(), Some("1:3"));
        let missing = open_source(Path::new("/proc/nothing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }
}
