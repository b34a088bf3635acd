//! Creates file systems with their `mkfs` programs, recognizes them, and grows, freezes and thaws them.
//!
//! The programs (`mkfs.ext4`, `mkfs.xfs` with `xfs_growfs`, `mkfs.btrfs`) are run from system
//! directories and not from `PATH`, which the caller of this process controls. A file system is
//! supported if its programs are installed and the kernel supports it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::loop_device;
use nomad_csi_ports::{FileContent, FileSystem};

const DIRECTORIES: [&str; 6] =
    ["/usr/sbin", "/sbin", "/usr/bin", "/bin", "/usr/local/sbin", "/run/current-system/sw/bin"];

/// Returns the file systems that can be created and mounted on this machine.
pub(super) fn supported() -> Vec<FileSystem> {
    let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
    let is_known = |kind: &FileSystem| {
        known.lines().any(|line| line.split_whitespace().last() == Some(kind.name()))
            || is_module(kind.name())
    };
    FileSystem::ALL
        .into_iter()
        .filter(|kind| mkfs_program(*kind).is_some())
        .filter(is_known)
        .collect()
}

/// Returns the supported file systems that cannot grow while mounted. The kernel requires
/// `CAP_SYS_RESOURCE` to resize a mounted ext4.
pub(super) fn growable_only_unmounted() -> Vec<FileSystem> {
    use rustix::thread::{CapabilitySet, capabilities};
    let may =
        capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_RESOURCE));
    let may_grow = |kind: &FileSystem| match kind {
        FileSystem::Ext4 => may,
        FileSystem::Xfs | FileSystem::Btrfs => true,
    };
    let mut kinds = supported();
    kinds.retain(|kind| !may_grow(kind));
    kinds
}

/// Returns whether the file system is a kernel module. `/proc/filesystems` omits modules that are not loaded.
fn is_module(name: &str) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let directory = Path::new("/lib/modules").join(&*release);
    let list = std::fs::read_to_string(directory.join("modules.dep")).unwrap_or_default();
    list.contains(&format!("/{name}.ko"))
}

fn mkfs_program(kind: FileSystem) -> Option<PathBuf> {
    let found = find_program(match kind {
        FileSystem::Ext4 => "mkfs.ext4",
        FileSystem::Xfs => "mkfs.xfs",
        FileSystem::Btrfs => "mkfs.btrfs",
    })?;
    match kind {
        FileSystem::Ext4 | FileSystem::Btrfs => Some(found),
        FileSystem::Xfs => find_program("xfs_growfs").map(|_| found),
    }
}

fn find_program(name: &str) -> Option<PathBuf> {
    let paths = DIRECTORIES.iter().map(|directory| Path::new(directory).join(name));
    paths.into_iter().find(|path| path.is_file())
}

/// The signature of each file system and its offset in the superblock.
const SIGNATURES: [(FileSystem, u64, &[u8]); 3] = [
    (FileSystem::Ext4, 1024 + 56, &[0x53, 0xEF]),
    (FileSystem::Xfs, 0, b"XFSB"),
    (FileSystem::Btrfs, 65_536 + 64, b"_BHRfS_M"),
];

/// Returns what a file contains.
pub(super) fn probe(file: &Path) -> io::Result<FileContent> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(file)?;
    match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => return Ok(FileContent::Empty),
        other => other?,
    };
    for (kind, offset, signature) in SIGNATURES {
        let mut found = vec![0; signature.len()];
        let read = file.read_at(&mut found, offset)?;
        if read == signature.len() && found == signature {
            return Ok(FileContent::FileSystem(kind));
        }
    }
    Ok(FileContent::Other)
}

/// Creates an empty file system that fills the file, and keeps holes where possible.
pub(super) fn make_file_system(file: &Path, kind: FileSystem) -> io::Result<()> {
    let mkfs_program = mkfs_program(kind).ok_or_else(|| not_installed(kind))?;
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
    let mut command = Command::new(mkfs_program);
    command.args(arguments).arg(file);
    run_program(command)?;
    File::open(file)?.sync_all()
}

fn not_installed(kind: FileSystem) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the programs for {} are not installed", kind.name()),
    )
}

/// Runs a program and waits for it. The error contains its output.
fn run_program(mut command: Command) -> io::Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let kind = if stderr.contains("No space left") {
        io::ErrorKind::StorageFull
    } else {
        io::ErrorKind::Other
    };
    Err(io::Error::new(kind, format!("{name} failed ({}): {}", output.status, stderr.trim())))
}

/// Grows the file system mounted at `mount` to the size of its device.
pub(super) fn grow(mount: &Path, kind: FileSystem, device_bytes: u64) -> io::Result<()> {
    match kind {
        FileSystem::Ext4 => {
            let block = rustix::fs::statfs(mount)?.f_bsize.cast_unsigned().max(1);
            Ok(loop_device::resize_ext4(File::open(mount)?, device_bytes / block)?)
        }
        FileSystem::Btrfs => Ok(loop_device::resize_btrfs(File::open(mount)?)?),
        FileSystem::Xfs => {
            let mut command =
                Command::new(find_program("xfs_growfs").ok_or_else(|| not_installed(kind))?);
            command.arg("-d").arg(mount);
            run_program(command)
        }
    }
}

/// Grows an unmounted ext4 file system to the size of its device. `resize2fs` requires a check first;
/// a check that repaired errors counts as success.
pub(super) fn grow_unmounted(device: &Path, kind: FileSystem) -> io::Result<()> {
    match kind {
        FileSystem::Ext4 => {}
        FileSystem::Xfs | FileSystem::Btrfs => return Err(io::ErrorKind::Unsupported.into()),
    }
    let find = |name| find_program(name).ok_or_else(|| not_installed(kind));
    let mut check = Command::new(find("e2fsck")?);
    let checked = check.args(["-f", "-p"]).arg(device).stdin(Stdio::null()).output()?;
    if !matches!(checked.status.code(), Some(0 | 1)) {
        let output = String::from_utf8_lossy(&checked.stdout).trim().to_owned();
        return Err(io::Error::other(format!(
            "e2fsck found errors that it cannot repair: {output}"
        )));
    }
    let mut resize = Command::new(find("resize2fs")?);
    resize.arg(device);
    run_program(resize)
}

/// Returns the errors in the superblock of the mounted file system on `device`. Kernels without the
/// count report none.
pub(super) fn error_count(device: &Path, kind: FileSystem) -> io::Result<u64> {
    let name = match (kind, device.file_name()) {
        (FileSystem::Ext4, Some(name)) => name,
        (FileSystem::Ext4, None) | (FileSystem::Xfs | FileSystem::Btrfs, _) => return Ok(0),
    };
    let path = Path::new("/sys/fs/ext4").join(name).join("errors_count");
    match std::fs::read_to_string(path) {
        Ok(text) => text.trim().parse().map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Freezes the file system. Fails if it is already frozen, because another process did that.
pub(super) fn freeze(mount: &Path) -> io::Result<()> {
    Ok(loop_device::freeze(File::open(mount)?)?)
}

/// Thaws the file system. Succeeds if it is not frozen.
pub(super) fn thaw(mount: &Path) -> io::Result<()> {
    match loop_device::thaw(File::open(mount)?) {
        Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
