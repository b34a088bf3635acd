//! Loop devices, and the other system calls of block storage that have no safe form: by ioctl.
//!
//! This is the one file of the program in which `unsafe` is lifted. Each call hands the kernel an
//! open file and a structure of the layout that `linux/loop.h`, `linux/fs.h`, ext4's and Btrfs'
//! interface define; nothing is kept beyond the call. A device is only taken from its file after
//! comparing the file's identity, because a number may have been given to somebody else meanwhile.

#![expect(
    unsafe_code,
    reason = "ioctls of loop devices and file systems have no safe wrapper; each block says why it is sound"
)]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::ioctl::{Getter, IntegerSetter, Ioctl, IoctlOutput, NoArg, Opcode, Setter, ioctl};

use crate::ports::{Attach, AttachedDevice, Tuning};

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

/// How often a free number may be taken by somebody else before giving up.
const RACES: u32 = 64;
/// A sector: the unit in which a block device is measured.
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

/// `LOOP_CTL_GET_FREE`: takes nothing, and its return value is the number.
struct FreeNumber;

// SAFETY: the opcode takes no argument (a null pointer is passed and not looked at), changes no
// memory of this process, and its return value is a number, which is all that is read.
unsafe impl Ioctl for FreeNumber {
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

/// Whether loop devices can be had, by asking for a number and opening its device.
pub(super) fn try_out() -> io::Result<()> {
    let path = device_path(free_number()?);
    open_device(&path, false).map(drop)
}

/// Sets up a device over `file`; its path, and an open file that keeps it. Direct I/O is taken where
/// the kernel gives it.
pub(super) fn attach(file: &Path, how: Attach, tuning: &Tuning) -> io::Result<(PathBuf, File)> {
    let backing = OpenOptions::new()
        .read(true)
        .write(!how.read_only)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(file)?;
    if !backing.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for _ in 0..RACES {
        let path = device_path(free_number()?);
        let device = open_device(&path, !how.read_only)?;
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
        "no free loop device: others take them faster",
    ))
}

fn configure(device: &File, backing: &File, how: Attach, direct: bool) -> rustix::io::Result<()> {
    let mut flags = 0;
    for (is_set, flag) in [
        (how.read_only, LO_FLAGS_READ_ONLY),
        (!how.stays, LO_FLAGS_AUTOCLEAR),
        (direct, LO_FLAGS_DIRECT_IO),
    ] {
        if is_set {
            flags |= flag;
        }
    }
    let config = LoopConfig {
        fd: backing.as_raw_fd().cast_unsigned(),
        block_size: SECTOR,
        info: LoopInfo {
            flags,
            ..LoopInfo::EMPTY
        },
        reserved: [0; 8],
    };
    // SAFETY: LOOP_CONFIGURE reads one `struct loop_config`, whose layout `LoopConfig` has; the
    // file descriptor in it is open for the whole call, and the kernel takes its own reference.
    unsafe { ioctl(device, Setter::<LOOP_CONFIGURE, LoopConfig>::new(config)) }
}

fn free_number() -> io::Result<u32> {
    let control = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // SAFETY: see `FreeNumber`.
    Ok(unsafe { ioctl(&control, FreeNumber) }?)
}

fn device_path(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/loop{number}"))
}

fn open_device(path: &Path, writable: bool) -> io::Result<File> {
    let device = OpenOptions::new().read(true).write(writable).open(path)?;
    if !device.metadata()?.file_type().is_block_device() {
        return Err(io::Error::other(format!(
            "{} is not a block device",
            path.display()
        )));
    }
    Ok(device)
}

/// Opens a device, if it still has the file that it was found with. While it is open it keeps it.
pub(super) fn hold(device: &AttachedDevice) -> io::Result<Option<File>> {
    let opened = match open_device(&device.path, false) {
        // Not there, or going away.
        Err(error) if error.kind() == io::ErrorKind::NotFound || is_no_device(&error) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let Some(info) = status(&opened)? else {
        return Ok(None);
    };
    // A file that is gone cannot be compared; its path stood in the kernel's table a moment ago.
    let is_same = match std::fs::symlink_metadata(&device.file) {
        Ok(file) => (file.dev(), file.ino()) == (info.device, info.inode),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(error),
    };
    Ok(is_same.then_some(opened))
}

fn is_no_device(error: &io::Error) -> bool {
    rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::NXIO)
}

/// Takes a device from its file, if that is the file it has. What was written to it is in its file
/// and on disk then.
pub(super) fn detach(device: &AttachedDevice) -> io::Result<()> {
    let Some(opened) = hold(device)? else {
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
    // With other users the kernel answers the same, and detaches when the last one closes it.
    let stays = attached(&device.file)?.contains(device);
    if stays {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("a process has {} open", device.path.display()),
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

/// The devices over files below `path`, as the kernel lists them.
pub(super) fn attached(path: &Path) -> io::Result<Vec<AttachedDevice>> {
    let mut found = vec![];
    for entry in std::fs::read_dir("/sys/block")? {
        let name = entry?.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with("loop")) else {
            continue;
        };
        let about = Path::new("/sys/block").join(name);
        // One that goes meanwhile is not there.
        let Ok(file) = std::fs::read_to_string(about.join("loop/backing_file")) else {
            continue;
        };
        let file = file.trim_end_matches('\n');
        let file = PathBuf::from(file.strip_suffix(" (deleted)").unwrap_or(file));
        if file.starts_with(path) {
            let read_only = std::fs::read_to_string(about.join("ro")).unwrap_or_default();
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

/// Lets a device be as large as its file is now.
pub(super) fn resize(device: &Path) -> io::Result<()> {
    let device = open_device(device, false)?;
    // SAFETY: LOOP_SET_CAPACITY takes no argument.
    Ok(unsafe { ioctl(&device, NoArg::<LOOP_SET_CAPACITY>::new()) }?)
}

/// Changes how a device works, as far as something is said. Direct I/O where the file system below
/// cannot have it is left as it is.
pub(super) fn tune(device: &Path, tuning: &Tuning) -> io::Result<()> {
    let opened = open_device(device, false)?;
    if let Some(direct) = tuning.direct_io {
        // SAFETY: LOOP_SET_DIRECT_IO takes a number by value, and no memory.
        let set = unsafe {
            ioctl(
                &opened,
                IntegerSetter::<LOOP_SET_DIRECT_IO>::new_usize(usize::from(direct)),
            )
        };
        match set {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) if direct => {
                tracing::warn!(device = %device.display(), "direct I/O cannot be had on this file system");
            }
            Err(error) => return Err(error.into()),
        }
    }
    if let Some(kib) = tuning.read_ahead_kib {
        let name = device.file_name().unwrap_or_default();
        let file = Path::new("/sys/block")
            .join(name)
            .join("queue/read_ahead_kb");
        std::fs::write(file, kib.to_string())?;
    }
    Ok(())
}

/// Brings the file system of `mount` to rest.
pub(super) fn freeze(mount: impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: FIFREEZE looks at no argument; the number 0 is passed by value.
    unsafe { ioctl(mount, IntegerSetter::<FIFREEZE>::new_usize(0)) }
}

/// Lets the file system of `mount` go on.
pub(super) fn thaw(mount: impl AsFd) -> rustix::io::Result<()> {
    // SAFETY: FITHAW looks at no argument; the number 0 is passed by value.
    unsafe { ioctl(mount, IntegerSetter::<FITHAW>::new_usize(0)) }
}

/// Grows a mounted ext4 to that many of its blocks.
pub(super) fn resize_ext4(mount: impl AsFd, blocks: u64) -> rustix::io::Result<()> {
    // SAFETY: EXT4_IOC_RESIZE_FS reads one 64-bit number.
    unsafe { ioctl(mount, Setter::<EXT4_IOC_RESIZE_FS, u64>::new(blocks)) }
}

/// Grows a mounted Btrfs to all of its one device.
pub(super) fn resize_btrfs(mount: impl AsFd) -> rustix::io::Result<()> {
    let mut arguments = BtrfsArguments {
        fd: 0,
        name: [0; 4088],
    };
    arguments.name[..3].copy_from_slice(b"max");
    // SAFETY: BTRFS_IOC_RESIZE reads one `struct btrfs_ioctl_vol_args`, whose layout
    // `BtrfsArguments` has, with a name that ends in a zero.
    unsafe {
        ioctl(
            mount,
            Setter::<BTRFS_IOC_RESIZE, BtrfsArguments>::new(arguments),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel's sizes of the structures (`linux/loop.h`, `linux/btrfs.h`).
    #[test]
    fn the_structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<LoopInfo>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
        assert_eq!(size_of::<BtrfsArguments>(), 4096);
    }
}
