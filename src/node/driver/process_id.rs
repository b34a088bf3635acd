//! Which process: its ID, its start time and the boot of the machine.
//!
//! The kernel gives the ID of an ended process to a new one. All three together name one process
//! forever, so a record of them never leads to a signal to another process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::mounts::boot_id;
use nomad_csi_model::private::start_time_in;

/// The name of one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ProcessId {
    /// The process ID.
    pub(super) pid: i32,
    /// The start time in clock ticks since the boot: field 22 of `/proc/PID/stat`.
    pub(super) start_time: u64,
    /// The boot of the machine.
    pub(super) boot_id: String,
}

impl ProcessId {
    /// Returns the process that has this ID now; `None` if there is none. Blocks.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn current(pid: i32) -> io::Result<Option<Self>> {
        let stat = match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            // The process ended between open and read.
            Err(error) if is_no_such_process(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        Self::of_stat(&stat).map(Some)
    }

    /// Returns this process, with the ID that it has in the PID namespace of `/proc`. Blocks.
    ///
    /// # Errors
    /// If `/proc` cannot be read.
    pub(super) fn own() -> io::Result<Self> {
        Self::of_stat(&std::fs::read_to_string("/proc/self/stat")?)
    }

    /// A process of an earlier boot of the machine, of which nothing else is known. It is none that lives.
    pub(super) fn of_an_earlier_boot() -> Self {
        Self { pid: 0, start_time: 0, boot_id: String::new() }
    }

    fn of_stat(stat: &str) -> io::Result<Self> {
        let pid = stat.split_once(' ').and_then(|(pid, _)| pid.parse().ok());
        let boot_id = boot_id()?;
        let process =
            pid.zip(start_time_in(stat)).map(|(pid, start_time)| Self { pid, start_time, boot_id });
        process.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Opens the process; `None` if it has ended. Signals and waits that use the descriptor reach this process and
    /// no other, because its start time is compared after it was opened. Blocks.
    ///
    /// # Errors
    /// If the process cannot be opened, or `/proc` cannot be read.
    pub(super) fn open(&self) -> io::Result<Option<OwnedFd>> {
        let Some(pid) = Pid::from_raw(self.pid) else {
            return Ok(None);
        };
        let descriptor = match pidfd_open(pid, PidfdFlags::NONBLOCK) {
            Ok(descriptor) => descriptor,
            // The number is free, or belongs to a thread.
            Err(rustix::io::Errno::SRCH | rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        let current = Self::current(self.pid)?;
        Ok((current.as_ref() == Some(self)).then_some(descriptor))
    }
}

/// Lets the runtime wait until an opened process ends.
#[expect(
    deprecated,
    reason = "its safe form is deprecated for types that may change their descriptor, which `OwnedFd` does not"
)]
pub(super) fn register(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(descriptor, Interest::READABLE)
}

/// Returns whether the operating system reports that the process does not exist.
pub(super) fn is_no_such_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_same_name_as_long_as_it_lives() {
        let own = i32::try_from(std::process::id()).unwrap();
        let first = ProcessId::current(own).unwrap().unwrap();
        assert_eq!(ProcessId::current(own).unwrap(), Some(first.clone()));
        assert!(first.start_time > 0 && first.boot_id.len() == 36, "{first:?}");
        assert_eq!(ProcessId::current(i32::MAX).unwrap(), None);
    }
}
