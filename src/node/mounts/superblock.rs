//! Whether a file system is still there after its mounts in this mount namespace are gone.
//!
//! A process can keep it with an open file, a mapping, its working directory, or a mount in another mount namespace;
//! and so can a descriptor on its way between two processes. The kernel keeps the device of the file system in the meantime,
//! and refuses to open it exclusively: that is the answer. The processes are only looked for to name them. A
//! file system without a device of its own, such as a directory of the host or a network file system, cannot be asked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, major, minor, statx};

use super::boot::boot_id;
use super::mountinfo;
use super::table::mount_table;
use nomad_csi_ports::MountIdentity;

/// The kernel ends a mount a moment after its last process.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// How many processes are named.
const MAX_NAMED: usize = 5;

/// Returns the processes that keep the file system of a mount that is gone here, as far as they can be found; `None` if
/// the file system is gone too, is mounted here at another place, or cannot be asked. Blocks for seconds at most.
///
/// # Errors
/// If the mount table or the boot of the machine cannot be read.
pub(super) fn processes_that_keep(mount: &MountIdentity) -> io::Result<Option<Vec<u32>>> {
    // Its device may be another disk now, which something else uses.
    if mount.boot_id.is_some() && mount.boot_id != Some(boot_id()?) {
        return Ok(None);
    }
    for attempt in 0..ATTEMPTS {
        if !is_kept(mount)? {
            return Ok(None);
        }
        if attempt + 1 < ATTEMPTS {
            std::thread::sleep(PAUSE);
        }
    }
    Ok(Some(find_processes(&mount.device)))
}

fn is_kept(mount: &MountIdentity) -> io::Result<bool> {
    let device = Path::new(&mount.source);
    // A part of a file system is not all of it: others use the rest.
    if mount.root != Path::new("/") {
        return Ok(false);
    }
    if !is_device(device, &mount.device) || !is_attached(&mount.device) {
        return Ok(false);
    }
    if mount_table()?.iter().any(|entry| entry.device == mount.device) {
        return Ok(false);
    }
    let flags = OFlags::RDONLY | OFlags::EXCL | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open(device, flags, Mode::empty());
    Ok(matches!(opened, Err(rustix::io::Errno::BUSY)))
}

/// Returns whether the path is the block device with this number.
fn is_device(path: &Path, number: &str) -> bool {
    path.is_absolute()
        && fs::metadata(path).is_ok_and(|found| {
            found.file_type().is_block_device() && device_number(found.st_rdev()) == number
        })
}

/// Returns whether a loop device has a file. One without is free, and must not be opened: another volume may be about to get it.
fn is_attached(number: &str) -> bool {
    let device = PathBuf::from(format!("/sys/dev/block/{number}"));
    let is_loop = fs::read_link(&device).is_ok_and(|link| {
        let name = link.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("loop"))
    });
    !is_loop || device.join("loop/backing_file").exists()
}

fn device_number(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// Returns processes that use the device. One that ends in the meantime, or that may not be examined, is left out.
fn find_processes(number: &str) -> Vec<u32> {
    let mut namespaces = BTreeSet::new();
    let mut found = BTreeSet::new();
    let Ok(entries) = fs::read_dir("/proc") else {
        return vec![];
    };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let process = entry.path();
        let is_new_namespace = fs::read_link(process.join("ns/mnt"))
            .is_ok_and(|namespace| namespaces.insert(namespace));
        let uses = (is_new_namespace && has_mount(&process, number))
            || has_file(&process, number)
            || has_mapping(&process, number);
        if uses {
            found.insert(pid);
        }
        if found.len() == MAX_NAMED {
            break;
        }
    }
    found.into_iter().collect()
}

fn has_mount(process: &Path, number: &str) -> bool {
    let table = fs::read(process.join("mountinfo"));
    table.is_ok_and(|table| {
        let mounts = mountinfo::parse(&table);
        mounts.iter().any(|mount| mount.device == number)
    })
}

fn has_file(process: &Path, number: &str) -> bool {
    let files = fs::read_dir(process.join("fd"));
    let files = files.into_iter().flatten().flatten().map(|file| file.path());
    let places = ["cwd", "root"].map(|name| process.join(name));
    files.chain(places).any(|file| {
        // A network file system that does not respond is not asked.
        let found = statx(CWD, file.as_path(), AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE);
        found
            .is_ok_and(|found| format!("{}:{}", found.stx_dev_major, found.stx_dev_minor) == number)
    })
}

fn has_mapping(process: &Path, number: &str) -> bool {
    let Some((major, minor)) = number.split_once(':') else {
        return false;
    };
    let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>()) else {
        return false;
    };
    let device = format!("{major:02x}:{minor:02x}");
    let maps = fs::read_to_string(process.join("maps"));
    maps.is_ok_and(|maps| {
        let mut devices = maps.lines().filter_map(|line| line.split_whitespace().nth(3));
        devices.any(|found| found == device)
    })
}
