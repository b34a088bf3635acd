//! The process at the other end of a Unix socket, as the kernel recorded it when the connection was made.
//!
//! The number of a process is given to another one after its end, so it proves nothing. Here it is used only while an
//! open descriptor proves that the process still runs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;

use nix::errno::Errno;
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::{PeerCredentials, PeerPidfd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::process_stat::start_time_in;

/// The process that made a connection, or that listens.
#[derive(Debug)]
pub struct SocketPeer {
    /// Its user when the connection was made.
    pub user: u32,
    /// Its number in the PID namespace of this process.
    pub pid: i32,
    process: OwnedFd,
}

impl SocketPeer {
    /// Opens the process at the other end. Before Linux 6.5 it is opened by its number: if it ended between the
    /// connection and this call, that may be another process. Does not block.
    ///
    /// # Errors
    /// If it has ended, or is in a PID namespace that this process does not see.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let named = getsockopt(&socket, PeerCredentials)?;
        // A process that this one does not see has the number 0.
        let pid = Pid::from_raw(named.pid()).ok_or(Errno::ESRCH)?;
        let process = match getsockopt(&socket, PeerPidfd) {
            Err(Errno::ENOPROTOOPT) => pidfd_open(pid, PidfdFlags::empty())?,
            opened => opened?,
        };
        Ok(Self { user: named.uid(), pid: named.pid(), process })
    }

    /// Returns whether the process still runs. Does not block.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn is_running(&self) -> io::Result<bool> {
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(poll(&mut watched, Some(&at_once))? == 0)
    }

    /// Returns when the process was started, in clock ticks since the boot. Blocks.
    ///
    /// # Errors
    /// If it has ended, or `/proc` cannot be read.
    pub fn start_time(&self) -> io::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid))?;
        // Only now is it certain that the file was that of this process.
        if !self.is_running()? {
            return Err(Errno::ESRCH.into());
        }
        start_time_in(&stat).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns whether the process sees the processes and mounts of this process, as no task does. Blocks.
    ///
    /// # Errors
    /// If it has ended, or this process may not look at it.
    pub fn shares_namespaces(&self) -> io::Result<bool> {
        let mut shares = true;
        for kind in ["pid", "mnt"] {
            let other = std::fs::metadata(format!("/proc/{}/ns/{kind}", self.pid))?;
            let own = std::fs::metadata(format!("/proc/self/ns/{kind}"))?;
            shares &= (other.dev(), other.ino()) == (own.dev(), own.ino());
        }
        // Only now is it certain that the files were those of this process.
        match self.is_running()? {
            true => Ok(shares),
            false => Err(Errno::ESRCH.into()),
        }
    }

    /// The descriptor of the process, which is readable when it has ended.
    pub fn into_descriptor(self) -> OwnedFd {
        self.process
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_own_process_is_recognized() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = SocketPeer::of(&one).unwrap();
        assert_eq!(peer.pid.cast_unsigned(), std::process::id());
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert!(peer.is_running().unwrap());
        assert!(peer.shares_namespaces().unwrap());
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert_eq!(start_time_in(&stat), Some(peer.start_time().unwrap()));
    }

    /// The peer of a client is the process that listens, which is this program as another process.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself as another process")]
    fn a_process_that_has_ended_is_not_recognized() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("s");
        let program = std::env::current_exe().unwrap();
        let mut listening = Command::new(program);
        listening
            .args(["--exact", "private::socket_peer::tests::a_listener"])
            .args(["--ignored", "--nocapture"])
            .env("LISTEN_AT", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut listening = listening.spawn().unwrap();
        let begun = std::time::Instant::now();
        let stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed().as_secs() < 60, "{error}"),
            }
        };
        let peer = SocketPeer::of(&stream).unwrap();
        assert_eq!(peer.pid.cast_unsigned(), listening.id());
        assert!(peer.shares_namespaces().unwrap());
        drop(listening.stdin.take());
        listening.wait().unwrap();
        assert!(!peer.is_running().unwrap());
        assert!(peer.shares_namespaces().is_err());
        let late = SocketPeer::of(&stream).map(|peer| peer.is_running().unwrap());
        assert!(!late.unwrap_or(false), "the process has ended");
        assert!(peer.start_time().is_err());
    }

    #[test]
    #[ignore = "the other process of a test"]
    #[expect(clippy::disallowed_methods, reason = "the test runs itself as another process")]
    fn a_listener() {
        let path = std::env::var_os("LISTEN_AT").unwrap();
        let _listening = UnixListener::bind(path).unwrap();
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    }
}
