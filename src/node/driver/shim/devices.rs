//! `/dev` of an `exec` task: the devices that every program may use.
//!
//! The host's nodes are bound, which needs no CAP_MKNOD and works in a user namespace. They are bound read-only: a device
//! can be written to all the same, and root in the task cannot change the mode, owner or times of a node that the whole
//! machine uses.

use std::fs::File;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use crate::mounts::make_read_only_below;

const NODES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Fills the directory `dev`.
///
/// # Errors
/// If something cannot be mounted.
pub(super) fn make_devices(dev: &Path) -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", dev, "tmpfs", flags, c"mode=0755,size=64k,nr_inodes=1k")?;
    for name in NODES {
        drop(File::create(dev.join(name))?);
        let node = dev.join(name);
        mount_bind(Path::new("/dev").join(name), &node)?;
        make_read_only_below(&node)?;
    }
    for (name, target) in LINKS {
        symlink(target, dev.join(name))?;
    }
    for name in ["pts", "shm"] {
        std::fs::create_dir(dev.join(name))?;
    }
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    mount("devpts", dev.join("pts"), "devpts", flags, terminals)?;
    let shared_memory = flags | MountFlags::NODEV;
    mount("tmpfs", dev.join("shm"), "tmpfs", shared_memory, c"mode=1777,size=64m,nr_inodes=4k")?;
    Ok(())
}
