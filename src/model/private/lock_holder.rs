//! The process that holds the operating system's lock on a file.
//!
//! The content of a lock file says who should hold the lock. The kernel knows who does: also a process
//! of a stranger, who needs no more than to have opened the file once.

use std::fs::File;

/// A process that holds a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockProcess {
    /// The process ID.
    pub pid: u32,
    /// Its user.
    pub user: u32,
}

/// Returns the holder of the lock on this file if it runs as another user; `None` also if the kernel
/// does not show it, as from another container.
#[cfg(target_os = "linux")]
pub fn lock_owner(file: &File) -> Option<LockProcess> {
    holder(file).filter(|holder| holder.user != super::directory::own_user())
}

/// This system does not show who holds a lock.
#[cfg(not(target_os = "linux"))]
pub fn lock_owner(_: &File) -> Option<LockProcess> {
    None
}

#[cfg(target_os = "linux")]
fn holder(file: &File) -> Option<LockProcess> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata().ok()?;
    let device = found.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let holder = || {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        find_holder(&locks, (major, minor), found.ino())
    };
    let pid = holder()?;
    let user = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    // Otherwise the number may have been another process's already.
    (holder() == Some(pid)).then_some(LockProcess { pid, user })
}

/// Finds the line of a lock on the whole file, such as
/// `1: FLOCK  ADVISORY  WRITE 4711 08:01:1234 0 EOF`. A line with `->` is a process that waits.
#[cfg(target_os = "linux")]
fn find_holder(locks: &str, device: (u32, u32), inode: u64) -> Option<u32> {
    let file = format!("{:02x}:{:02x}:{inode}", device.0, device.1);
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        if words.next()? != "FLOCK" {
            return None;
        }
        let pid = words.nth(2)?;
        (words.next()? == file).then(|| pid.parse().ok())?
    })
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_found_by_device_and_inode() {
        let locks = "\
1: POSIX  ADVISORY  WRITE 11 08:01:7 0 EOF
2: FLOCK  ADVISORY  WRITE 12 08:02:7 0 EOF
3: FLOCK  ADVISORY  WRITE 13 08:01:7 0 EOF
3: -> FLOCK  ADVISORY  WRITE 14 08:01:7 0 EOF
4: FLOCK  ADVISORY  WRITE 15 fd:01:9 0 EOF
";
        assert_eq!(find_holder(locks, (8, 1), 7), Some(13));
        assert_eq!(find_holder(locks, (0xfd, 1), 9), Some(15));
        assert_eq!(find_holder(locks, (8, 1), 8), None);
        assert_eq!(find_holder("", (8, 1), 7), None);
    }

    #[test]
    fn this_process_is_the_holder_of_its_own_lock() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(holder(&file), None);
        file.lock().unwrap();
        assert_eq!(holder(&file).unwrap().pid, std::process::id());
        assert_eq!(lock_owner(&file), None);
    }
}
