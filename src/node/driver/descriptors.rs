//! Descriptors that the agent inherited and would pass on to its tasks.
//!
//! Everything that this program opens is closed when another program is executed. A descriptor that the agent
//! inherited without that mark reaches every task, and may pin a file system or let the task write to a file of the
//! host. It cannot be closed without `unsafe`, so the agent names it, and the operator starts the agent without it.

use std::io;
use std::path::{Path, PathBuf};

/// The mark in the flags of a descriptor: `O_CLOEXEC`.
const CLOSE_ON_EXEC: u32 = 0o2_000_000;
/// Standard input, output and error, which every program replaces for its children.
const STANDARD: u32 = 2;

/// A descriptor that tasks inherit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InheritedDescriptor {
    /// The number.
    pub number: u32,
    /// The open file, such as a path or `pipe:[4711]`.
    pub target: PathBuf,
}

/// Returns the descriptors of this process that its children inherit, besides the three standard ones. Blocks.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn inherited_descriptors() -> io::Result<Vec<InheritedDescriptor>> {
    let mut inherited = vec![];
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(number) = number.filter(|number| *number > STANDARD) else {
            continue;
        };
        // A descriptor that another thread has closed in the meantime is none.
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
        if info.is_ok_and(|info| is_inherited(&info)) {
            let target = std::fs::read_link(entry.path());
            inherited.push(InheritedDescriptor {
                number,
                target: target.unwrap_or_else(|_| Path::new("?").to_owned()),
            });
        }
    }
    inherited.sort();
    Ok(inherited)
}

/// Returns whether a descriptor with this entry in `/proc/PID/fdinfo` stays open when a program is executed.
fn is_inherited(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & CLOSE_ON_EXEC == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_read_from_the_flags() {
        assert!(is_inherited("pos:\t0\nflags:\t0100002\nmnt_id:\t27\n"));
        assert!(!is_inherited("pos:\t0\nflags:\t02100002\nmnt_id:\t27\n"));
        assert!(!is_inherited("pos:\t0\n"));
    }

    #[test]
    fn what_this_program_opens_is_not_inherited() {
        use std::os::fd::AsRawFd as _;
        let file = tempfile::tempfile().unwrap();
        let number = u32::try_from(file.as_raw_fd()).unwrap();
        let inherited = inherited_descriptors().unwrap();
        assert!(inherited.iter().all(|found| found.number != number));
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        let inherited = inherited_descriptors().unwrap();
        assert!(inherited.iter().any(|found| found.number == number));
    }
}
