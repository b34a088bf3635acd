//! Ends the process that an earlier run of the agent started for the same task.
//!
//! A plugin's process may survive a killed agent and still work on a call. No second process starts
//! until the first one is gone. The process gets SIGTERM, and after its time limit SIGKILL with its
//! process group. A signal goes only to a process whose ID, start time and boot are those on record:
//! the process is opened first and compared then, so it cannot change in between.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group, pidfd_send_signal};

use super::process_file;
use super::process_id::{ProcessId, is_no_such_process};

/// The time for a killed process to end. It may wait for a disk.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Returns when the process that `file` records is gone. Blocks for the time limits at most.
///
/// # Errors
/// If the record is damaged, or the process does not end.
pub(super) fn end_predecessor(file: &Path, kill_timeout: Duration) -> io::Result<()> {
    let Some((process, descriptor)) = find(file)? else {
        return Ok(());
    };
    if has_ended(&descriptor, Duration::ZERO)? {
        return Ok(());
    }
    let pid = process.pid;
    tracing::warn!(pid, "ending the process of the task that an earlier run started");
    if !signal(&descriptor, Signal::TERM)? || has_ended(&descriptor, kill_timeout)? {
        return Ok(());
    }
    kill_group(pid);
    if !signal(&descriptor, Signal::KILL)? || has_ended(&descriptor, KILL_LIMIT)? {
        return Ok(());
    }
    let message = format!(
        "process {pid} did not end within {} s of SIGKILL; it may wait for a disk or a server",
        KILL_LIMIT.as_secs()
    );
    Err(io::Error::new(io::ErrorKind::TimedOut, message))
}

/// Returns the recorded process and its descriptor, if it still exists.
fn find(file: &Path) -> io::Result<Option<(ProcessId, OwnedFd)>> {
    let Some(recorded) = process_file::read(file)? else {
        return Ok(None);
    };
    let descriptor = recorded.open()?;
    Ok(descriptor.map(|descriptor| (recorded, descriptor)))
}

/// Sends the signal. Returns whether the process still existed.
fn signal(descriptor: &OwnedFd, signal: Signal) -> io::Result<bool> {
    match pidfd_send_signal(descriptor, signal).map_err(io::Error::from) {
        Ok(()) => Ok(true),
        Err(error) if is_no_such_process(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Kills what the process started. Its group has its ID, and keeps the ID from being used again.
fn kill_group(pid: i32) {
    let Some(group) = Pid::from_raw(pid) else {
        return;
    };
    if let Err(error) = kill_process_group(group, Signal::KILL) {
        tracing::debug!(pid, %error, "the process group was not killed");
    }
}

/// Waits until the process ends, at most for `limit`. A descriptor of a process is readable then.
pub(super) fn has_ended(descriptor: &OwnedFd, limit: Duration) -> io::Result<bool> {
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    let mut descriptors = [PollFd::new(descriptor, PollFlags::IN)];
    Ok(poll(&mut descriptors, Some(&limit))? > 0)
}
