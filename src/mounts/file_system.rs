//! File systems: made by their own programs, grown, frozen and thawed by the kernel.
//!
//! The programs (`mkfs.ext4`, `mkfs.xfs` with `xfs_growfs`, `mkfs.btrfs`) are looked for in the
//! directories of the system and not in `PATH`, which whoever started this process could have set.
//! A file system is offered if its maker is there and the kernel knows it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::loop_device;
use crate::ports::FileSystem;

const DIRECTORIES: [&str; 6] = [
    "/usr/sbin",
    "/sbin",
    "/usr/bin",
    "/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
];

/// Which can be made and mounted here.
pub(super) fn offered() -> Vec<FileSystem> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let is_known = |kind: &FileSystem| {
        known
            .lines()
            .any(|line| line.split_whitespace().last() == Some(kind.name()))
            || is_module(kind.name())
    };
    FileSystem::ALL
        .into_iter()
        .filter(|kind| maker(*kind).is_some())
        .filter(is_known)
        .collect()
}

/// Which of those cannot grow while they are mounted: the kernel lets only who has
/// `CAP_SYS_RESOURCE` resize a mounted ext4, whoever else is root.
pub(super) fn grown_unmounted() -> Vec<FileSystem> {
    use rustix::thread::{CapabilitySet, capabilities};
    let may =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE));
    let may_grow = |kind: &FileSystem| match kind {
        FileSystem::Ext4 => may,
        FileSystem::Xfs | FileSystem::Btrfs => true,
    };
    let mut kinds = offered();
    kinds.retain(|kind| !may_grow(kind));
    kinds
}

/// One that the kernel loads when it is first mounted is not in its list yet.
fn is_module(name: &str) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let directory = Path::new("/lib/modules").join(&*release);
    let list = std::fs::read_to_string(directory.join("modules.dep")).unwrap_or_default();
    list.contains(&format!("/{name}.ko"))
}

fn maker(kind: FileSystem) -> Option<PathBuf> {
    let found = program(match kind {
        FileSystem::Ext4 => "mkfs.ext4",
        FileSystem::Xfs => "mkfs.xfs",
        FileSystem::Btrfs => "mkfs.btrfs",
    })?;
    match kind {
        FileSystem::Ext4 | FileSystem::Btrfs => Some(found),
        FileSystem::Xfs => program("xfs_growfs").map(|_| found),
    }
}

fn program(name: &str) -> Option<PathBuf> {
    let paths = DIRECTORIES
        .iter()
        .map(|directory| Path::new(directory).join(name));
    paths.into_iter().find(|path| path.is_file())
}

/// Makes an empty file system that fills the file, without writing what can stay a hole.
pub(super) fn make(file: &Path, kind: FileSystem) -> io::Result<()> {
    let maker = maker(kind).ok_or_else(|| missing(kind))?;
    let arguments: &[&str] = match kind {
        FileSystem::Ext4 => &[
            "-q",
            "-F",
            "-b",
            "4096",
            "-m",
            "0",
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        ],
        FileSystem::Xfs => &["-q", "-f", "-K"],
        FileSystem::Btrfs => &["-q", "-f", "-K"],
    };
    let mut command = Command::new(maker);
    command.args(arguments).arg(file);
    run(command)?;
    File::open(file)?.sync_all()
}

fn missing(kind: FileSystem) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the programs of {} are not installed", kind.name()),
    )
}

/// Runs a program to its end; what it says is part of the error.
fn run(mut command: Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let kind = if said.contains("No space left") {
        io::ErrorKind::StorageFull
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(
        kind,
        format!("{name} failed ({}): {}", output.status, said.trim()),
    ))
}

/// Lets the file system mounted at `mount` fill its device.
pub(super) fn grow(mount: &Path, kind: FileSystem, device_bytes: u64) -> io::Result<()> {
    match kind {
        FileSystem::Ext4 => {
            let block = rustix::fs::statfs(mount)?.f_bsize.cast_unsigned().max(1);
            Ok(loop_device::resize_ext4(
                File::open(mount)?,
                device_bytes / block,
            )?)
        }
        FileSystem::Btrfs => Ok(loop_device::resize_btrfs(File::open(mount)?)?),
        FileSystem::Xfs => {
            let mut command = Command::new(program("xfs_growfs").ok_or_else(|| missing(kind))?);
            command.arg("-d").arg(mount);
            run(command)
        }
    }
}

/// Lets an ext4 that is not mounted fill its device. It is checked first, since its program wants
/// that; a check that repaired something is a good one.
pub(super) fn grow_unmounted(device: &Path, kind: FileSystem) -> io::Result<()> {
    match kind {
        FileSystem::Ext4 => {}
        FileSystem::Xfs | FileSystem::Btrfs => return Err(io::ErrorKind::Unsupported.into()),
    }
    let find = |name| program(name).ok_or_else(|| missing(kind));
    let mut check = Command::new(find("e2fsck")?);
    let checked = check
        .args(["-f", "-p"])
        .arg(device)
        .stdin(Stdio::null())
        .output()?;
    if !matches!(checked.status.code(), Some(0 | 1)) {
        let said = String::from_utf8_lossy(&checked.stdout).trim().to_owned();
        return Err(io::Error::other(format!(
            "e2fsck found errors that it does not repair by itself: {said}"
        )));
    }
    let mut resize = Command::new(find("resize2fs")?);
    resize.arg(device);
    run(resize)
}

/// Brings the file system to rest. One that is frozen already is an error: somebody else did it.
pub(super) fn freeze(mount: &Path) -> io::Result<()> {
    Ok(loop_device::freeze(File::open(mount)?)?)
}

/// Lets it go on; one that is not frozen is success.
pub(super) fn thaw(mount: &Path) -> io::Result<()> {
    match loop_device::thaw(File::open(mount)?) {
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
