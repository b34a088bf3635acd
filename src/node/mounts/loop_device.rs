//! Loop devices and other ioctls of block storage without a safe wrapper.
//!
//! This is the only file with `unsafe` code. Each call passes the kernel an open file and a structure
//! with the layout of `linux/loop.h`, `linux/fs.h` or the interfaces of ext4 and Btrfs. Nothing
//! outlives the call. Before a device is detached, the identity of its file is compared, because the
//! kernel may have assigned the device number to another process.

#![expect(
    unsafe_code,
    reason = "ioctls of loop devices and file systems have no safe wrapper; each block states why it is sound"
)]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::ioctl::{Getter, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};

use nomad_csi_ports::{AttachOptions, AttachedDevice, DeviceTuning};

const LOOP_CLR_FD: Opcode = 0x4C01;
const LOOP_GET_STATUS64: Opcode = 0x4C05;
const LOOP_SET_CAPACITY: Opcode = 0x4C07;
const LOOP_SET_DIRECT_IO: Opcode = 0x4C08;
const LOOP_CONFIGURE: Opcode = 0x4C0A;
const LOOP_CTL_GET_FREE: Opcode = 0x4C82;
const FIFREEZE: Opcode = 0xC004_5877;
const FITHAW: Opcode = 0xC004_5878;
const EXT4_IOC_RESIZE_FS: Opcode = 0x4008_6610;
const BTRFS_IOC_RESIZE: Opcode = 0x5000_9403;

const LO_FLAGS_READ_ONLY: u32 = 1;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// Attempts to get a free device number before another process takes it.
const ATTACH_ATTEMPTS: u32 = 64;
/// The block size of a loop device.
const SECTOR: u32 = 512;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo {
    const EMPTY: Self = Self {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct BtrfsArguments {
    fd: i64,
    name: [u8; 4088],
}

/// `LOOP_CTL_GET_FREE`: has no argument and returns the number of a free device.
struct GetFreeNumber;

// SAFETY: the opcode takes no argument (the kernel ignores the null pointer), changes no memory of
// this process, and returns a number, which is the only thing read.
unsafe impl Ioctl for GetFreeNumber {
    type Output = u32;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        LOOP_CTL_GET_FREE
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(number: IoctlOutput, _: *mut c_void) -> rustix::io::Result<u32> {
        u32::try_from(number).map_err(|_| rustix::io::Errno::RANGE)
    }
}

/// Checks that loop devices are available: gets a free number and opens its device.
pub(super) fn check_available() -> io::Result<()> {
    let path = device_path(free_number()?);
    open_device(&path, false).map(drop)
}

/// Attaches a device to `file`. Returns its path, and an open file that keeps it. Uses direct I/O
/// where the kernel supports it.
pub(super) fn attach(
    file: &Path,
    how: AttachOptions,
    tuning: &DeviceTuning,
) -> io::Result<(PathBuf, File)> {
    let backing = OpenOptions::new()
        .read(true)
        .write(!how.read_only)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(file)?;
    if !backing.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for _ in 0..ATTACH_ATTEMPTS {
        let path = device_path(free_number()?);
        let device = open_device(&path, !how.read_only)?;
        make_private(&device)?;
        let wants_direct = tuning.direct_io.unwrap_or(true);
        match configure(&device, &backing, how, wants_direct) {
            Err(rustix::io::Errno::BUSY) => {}
            Err(rustix::io::Errno::INVAL) if wants_direct => {
                match configure(&device, &backing, how, false) {
                    Err(rustix::io::Errno::BUSY) => {}
                    Err(error) => return Err(error.into()),
                    Ok(()) => return Ok((path, device)),
                }
            }
            Err(error) => return Err(error.into()),
            Ok(()) => return Ok((path, device)),
        }
    }
    Err(io::Error::new(
        io::ErrorKind::ResourceBusy,
        "cannot attach a loop device: other processes took each free device first",
    ))
}

fn configure(
    device: &File,
    backing: &File,
    how: AttachOptions,
    direct: bool,
) -> rustix::io::Result<()> {
    let mut flags = 0;
    for (is_set, flag) in [
        (how.read_only, LO_FLAGS_READ_ONLY),
        (!how.persistent, LO_FLAGS_AUTOCLEAR),
        (direct, LO_FLAGS_DIRECT_IO),
    ] {
        if is_set {
            flags |= flag;
        }
    }
    let config = LoopConfig {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size: SECTOR,
        info: LoopInfo { flags, ..LoopInfo::EMPTY },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, whose layout `LoopConfig` has; the
    // file descriptor in it is open for the whole call, and the kernel takes its own reference.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

fn free_number() -> io::Result<u32> {
    let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: see `GetFreeNumber`.
    Ok(unsafe { ioctl(&control, GetFreeNumber) }?)
}

fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

/// Takes a node from everyone but root before it shows a volume: it may be as its last user left it.
fn make_private(device: &File) -> io::Result<()> {
    let found = rustix::fs::fstat(device)?;
    if found.st_uid != 0 || found.st_gid != 0 {
        let root = (rustix::fs::Uid::ROOT, rustix::fs::Gid::ROOT);
        rustix::fs::fchown(device, Some(root.0), Some(root.1))?;
    }
    rustix::fs::fchmod(device, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    Ok(())
}

fn open_device(path: &Path, writable: bool) -> io::Result<File> {
    let device = OpenOptions::new().read(true).write(writable).open(path)?;
    if !device.metadata()?.file_type().is_block_device() {
        return Err(io::Error::other(format!("`{}` is not a block device", path.display())));
    }
    Ok(device)
}

/// Opens a device if it is still attached to the same file. An open device stays attached.
pub(super) fn open_unchanged(device: &AttachedDevice) -> io::Result<Option<File>> {
    let opened = match open_device(&device.path, false) {
        // The device is gone, or about to go.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_device_gone(&error) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let Some(info) = status(&opened)? else {
        return Ok(None);
    };
    // A deleted file cannot be compared, but the kernel just listed its path.
    let is_same = match std::fs::symlink_metadata(&device.file) {
        Ok(file) => (file.dev(), file.ino()) == (info.device, info.inode),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    Ok(is_same.then_some(opened))
}

fn is_device_gone(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NXIO)
}

/// Detaches a device if it is still attached to the same file. Syncs written data first.
pub(super) fn detach(device: &AttachedDevice) -> io::Result<()> {
    let Some(opened) = open_unchanged(device)? else {
        return Ok(());
    };
    if !device.read_only {
        opened.sync_all()?;
    }
    // SAFETY: LOOP_CLR_FD takes no argument.
    match unsafe { ioctl(&opened, NoArg::<LOOP_CLR_FD>::new()) } {
        Ok(()) | Err(rustix::io::Errno::NXIO) => {}
        Err(error) => return Err(error.into()),
    }
    drop(opened);
    // If another process has the device open, the kernel detaches it on the last close.
    let is_attached = attached(&device.file)?.contains(device);
    if is_attached {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another process has `{}` open", device.path.display()),
        ));
    }
    Ok(())
}

fn status(device: &File) -> io::Result<Option<LoopInfo>> {
    // SAFETY: LOOP_GET_STATUS64 writes one `struct loop_info64`, whose layout `LoopInfo` has; every
    // bit pattern is a valid `LoopInfo`.
    match unsafe { ioctl(device, Getter::<LOOP_GET_STATUS64, LoopInfo>::new()) } {
        Ok(info) => Ok(Some(info)),
        Err(rustix::io::Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the devices attached to files below `path`.
pub(super) fn attached(path: &Path) -> io::Result<Vec<AttachedDevice>> {
    let mut found = vec![];
    for entry in std::fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        let directory = Path::new("/sys/block").join(name);
        // Skip a device that was detached in the meantime.
        let Ok(file) = std::fs::read_to_string(directory.join("loop/backing_file")) else {
            continue;
        };
        let file = file.trim_end_matches('\n');
        let file = PathBuf::from(file.strip_suffix(" (deleted)").unwrap_or(file));
        if file.starts_with(path) {
            let read_only = std::fs::read_to_string(directory.join("ro")).unwrap_or_default();
            found.push(AttachedDevice {
                path: Path::new("/dev").join(name),
                file,
                read_only: read_only.trim() == "1",
            });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(found)
}

/// Grows a device to the current size of its file.
pub(super) fn resize(device: &Path) -> io::Result<()> {
    let device = open_device(device, false)?;
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    Ok(unsafe { ioctl(&device, NoArg::<LOOP_SET_CAPACITY>::new()) }?)
}

/// Applies the settings that are set. Leaves direct I/O off where the file system does not support
/// it.
pub(super) fn tune(device: &Path, tuning: &DeviceTuning) -> io::Result<()> {
    let opened = open_device(device, false)?;
    if let Some(direct) = tuning.direct_io {
        // SAFETY: LOOP_SET_DIRECT_IO takes a number by value, and no memory.
        let set = unsafe {
            ioctl(&opened, IntegerSetter::<LOOP_SET_DIRECT_IO>::new_usize(usize::from(direct)))
        };
        match set {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) if direct => {
                tracing::warn!(device = %device.display(), "the file system does not support direct I/O");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(kib) = tuning.read_ahead_kib {
        let name = device.file_name().unwrap_or_default();
        let file = Path::new("/sys/block").join(name).join("queue/read_ahead_kb");
        std::fs::write(file, kib.to_string())?;
    }
    Ok(())
}

/// Freezes the file system of `mount`.
pub(super) fn freeze(mount: impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: FIFREEZE ignores its argument; the number 0 is passed by value.
    unsafe { ioctl(mount, IntegerSetter::<FIFREEZE>::new_usize(0)) }
}

/// Thaws the file system of `mount`.
pub(super) fn thaw(mount: impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: FITHAW ignores its argument; the number 0 is passed by value.
    unsafe { ioctl(mount, IntegerSetter::<FITHAW>::new_usize(0)) }
}

/// Grows a mounted ext4 to `blocks` blocks.
pub(super) fn resize_ext4(mount: impl AsFd, blocks: u64) -> rustix::io::Result<()> {
    // SAFETY: EXT4_IOC_RESIZE_FS reads one 64-bit number.
    unsafe { ioctl(mount, Setter::<EXT4_IOC_RESIZE_FS, u64>::new(blocks)) }
}

/// Grows a mounted Btrfs to the size of its device.
pub(super) fn resize_btrfs(mount: impl AsFd) -> rustix::io::Result<()> {
    let mut arguments = BtrfsArguments { fd: 0, name: [0; 4088] };
    arguments.name[..3].copy_from_slice(b"max");
    // SAFETY: BTRFS_IOC_RESIZE reads one `struct btrfs_ioctl_vol_args`, whose layout
    // `BtrfsArguments` has, with a name that ends in a zero.
    unsafe { ioctl(mount, Setter::<BTRFS_IOC_RESIZE, BtrfsArguments>::new(arguments)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those of `linux/loop.h` and `linux/btrfs.h`.
    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
        assert_eq!(size_of::<BtrfsArguments>(), 4096);
    }
}
