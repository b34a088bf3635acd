//! What a task sees of `/proc` and `/sys`.
//!
//! Many files there belong to root, and the kernel asks for no capability: root in a task could set `kernel.core_pattern`,
//! and the kernel would run a program of the task on the host. So nothing of the kernel can be written in a task, except
//! what belongs to its own processes; what only root of the host may read is hidden, and so is what names secrets,
//! addresses or loads of others. New files of a later kernel fall under the same rule.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind, mount_remount};

use super::action_error::about;

/// The paths that everyone on the host can read, and that are hidden from tasks.
const HIDDEN: [&str; 20] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    // It names the images of all volumes.
    "/sys/devices/virtual/block",
    "/sys/devices/virtual/dmi",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/sys/fs/pstore",
    "/sys/kernel/debug",
    "/sys/kernel/security",
    "/sys/kernel/slab",
    "/sys/kernel/tracing",
];
const DATA_ONLY: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// The protection of an entry of `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryRule {
    /// It shows and changes what belongs to processes of the task, or changes nothing.
    Keep,
    /// It can be read, and not written.
    ReadOnly,
    /// It is empty.
    Hide,
}

/// Covers and protects what is below `root`, where `/proc` and `/sys` of the task are mounted.
///
/// # Errors
/// Names what could not be protected, and why.
pub(super) fn protect_kernel_files(root: &Path) -> io::Result<()> {
    for entry in fs::read_dir(root.join("proc"))? {
        let entry = entry?;
        let name = entry.file_name();
        let Ok(found) = fs::symlink_metadata(entry.path()) else {
            // A process that has ended.
            continue;
        };
        let rule = rule_of(&name.to_string_lossy(), found.file_type(), found.permissions().mode());
        let done = match rule {
            EntryRule::Keep => Ok(()),
            EntryRule::ReadOnly => make_read_only(&entry.path()),
            EntryRule::Hide => hide(root, &entry.path()),
        };
        done.map_err(|error| about(&format!("protect `/proc/{}`", name.display()), &error))?;
    }
    for path in HIDDEN {
        let below = root.join(path.trim_start_matches('/'));
        hide(root, &below).map_err(|error| about(&format!("hide `{path}`"), &error))?;
    }
    Ok(())
}

/// Decides about an entry of `/proc` with this type and these permissions.
fn rule_of(name: &str, kind: FileType, mode: u32) -> EntryRule {
    let is_process = name.bytes().all(|byte| byte.is_ascii_digit());
    if is_process || kind.is_symlink() {
        return EntryRule::Keep;
    }
    match (kind.is_dir(), mode & 0o004 != 0, mode & 0o222 != 0) {
        (true, _, _) => EntryRule::ReadOnly,
        (false, false, _) => EntryRule::Hide,
        (false, true, true) => EntryRule::ReadOnly,
        (false, true, false) => EntryRule::Keep,
    }
}

fn make_read_only(path: &Path) -> io::Result<()> {
    mount_bind(path, path)?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | DATA_ONLY;
    Ok(mount_remount(path, flags, c"")?)
}

/// Covers a directory with an empty one, and a file with `/dev/null`. What does not exist needs no cover.
fn hide(root: &Path, path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if found.is_dir() {
        let flags = DATA_ONLY | MountFlags::RDONLY;
        return Ok(mount("tmpfs", path, "tmpfs", flags, c"mode=0555,size=4k,nr_inodes=2")?);
    }
    match mount_bind(root.join("dev/null"), path) {
        Err(Errno::NOENT) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule for the files of this machine.
    #[test]
    fn nothing_of_the_kernel_is_written_and_nothing_of_root_is_read() {
        let rule = |name: &str| {
            let found = fs::symlink_metadata(Path::new("/proc").join(name)).ok()?;
            Some(rule_of(name, found.file_type(), found.permissions().mode()))
        };
        for (name, expected) in [
            ("sys", EntryRule::ReadOnly),
            ("fs", EntryRule::ReadOnly),
            ("bus", EntryRule::ReadOnly),
            ("irq", EntryRule::ReadOnly),
            ("kcore", EntryRule::Hide),
            ("kmsg", EntryRule::Hide),
            ("vmallocinfo", EntryRule::Hide),
            ("meminfo", EntryRule::Keep),
            ("self", EntryRule::Keep),
            ("1", EntryRule::Keep),
        ] {
            if let Some(found) = rule(name) {
                assert_eq!(found, expected, "{name}");
            }
        }
        assert_eq!(rule("sys"), Some(EntryRule::ReadOnly));
        let file = fs::symlink_metadata("/proc/meminfo").unwrap().file_type();
        for (mode, expected) in [
            (0o444, EntryRule::Keep),
            (0o644, EntryRule::ReadOnly),
            (0o200, EntryRule::Hide),
            (0o400, EntryRule::Hide),
            (0o440, EntryRule::Hide),
            (0o666, EntryRule::ReadOnly),
        ] {
            assert_eq!(rule_of("new", file, mode), expected, "{mode:o}");
        }
    }
}
