//! The process of a plugin that runs already: the agent neither starts it nor stops it (`--plugin-endpoint`).
//!
//! The process is the one that listens on the socket, as the kernel names it to a client, and opened by the kernel:
//! its number alone could belong to another process by now. It is recorded
//! while the agent uses it. A process on record that still runs may be carrying out calls of an agent
//! that was killed. The same process is used again after the longest time of a call, which is the limit that each call was sent
//! with: it stays the only one that gets calls, so time is enough. Any other
//! process is used only once the recorded one is known to have exited, however long that takes. An agent that stops in order, with
//! no call under way, records that, so the next agent uses the process at once. The record stays as long as the process may live:
//! what it was asked for and answered with an error may still take effect.
//!
//! Secrets go to the plugin, and its answers are believed. So the socket belongs to this user, to root or to a user that the
//! operator named, only they can replace it, and one of them listens. Later connections lead to the same process.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::time::Instant;

use super::predecessor::has_ended;
use super::process_file;
use super::process_id::{ProcessId, register};
use crate::task_driver::{DriverError, StoppedProcess, Task, TaskDriver};
use nomad_csi_model::private::{NotPrivate, Problem, SocketPeer, check_socket_of};
use nomad_csi_ports::{PeerProcess, run_blocking};

/// A plugin that runs already.
#[derive(Clone, Debug)]
pub struct RunningPlugin {
    name: String,
    socket: PathBuf,
    process_file: PathBuf,
    /// The users that may run it, besides this user and root.
    users: Vec<u32>,
    /// When no call of an earlier agent is under way any more.
    earlier_calls_end: Instant,
}

impl RunningPlugin {
    /// A plugin that listens on `socket`. `process_file` names its process for the next agent. No call of an
    /// earlier agent takes longer than `longest_call`.
    pub fn new(
        name: String,
        socket: PathBuf,
        process_file: PathBuf,
        longest_call: Duration,
    ) -> Self {
        Self {
            name,
            socket,
            process_file,
            users: vec![],
            earlier_calls_end: Instant::now() + longest_call,
        }
    }

    /// Sets which users may run it, besides this user and root.
    #[must_use]
    pub fn with_users(self, users: Vec<u32>) -> Self {
        Self { users, ..self }
    }

    /// Checks that only a trusted user can listen on the socket, and that one does.
    ///
    /// # Errors
    /// If nothing listens, or who does is not trusted.
    pub async fn check(&self) -> io::Result<()> {
        self.listener().await.map(drop)
    }

    fn failed(&self, source: io::Error) -> DriverError {
        DriverError { task: self.name.clone(), action: "use", source }
    }

    /// Returns the process that listens on the socket.
    async fn listener(&self) -> io::Result<SocketPeer> {
        let (socket, users) = (self.socket.clone(), self.users.clone());
        match run_blocking(move || check_socket_of(&socket, &users)).await {
            // It has words of its own below.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            checked => checked.map_err(with_advice)?,
        }
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| {
            let message = format!("nothing listens on `{}`: {error}", self.socket.display());
            io::Error::new(error.kind(), message)
        })?;
        let peer = SocketPeer::of(&stream).map_err(|error| {
            io::Error::other(format!(
                "the process that opened `{}` has ended, or is in a PID namespace that the agent does not see: {error}",
                self.socket.display()
            ))
        })?;
        let (owner, own) = (peer.user, rustix::process::geteuid().as_raw());
        if owner != own && owner != 0 && !self.users.contains(&owner) {
            let problem = Problem::ForeignPeer { owner, own };
            let path = self.socket.clone();
            return Err(with_advice(NotPrivate { path, problem }.into()));
        }
        Ok(peer)
    }

    async fn find(&self) -> io::Result<RunningProcess> {
        let file = self.process_file.clone();
        let peer = match self.listener().await {
            Ok(peer) => peer,
            Err(error) => {
                let recorded = run_blocking(move || process_on_record(&file)).await;
                return Err(unusable(&recorded, error));
            }
        };
        let calls_end = self.earlier_calls_end;
        let recording = move || {
            record(peer, &file, calls_end)
                .map_err(|error| unusable(&process_on_record(&file), error))
        };
        let (process, descriptor) = run_blocking(recording).await?;
        Ok(RunningProcess {
            name: self.name.clone(),
            process,
            descriptor: register(descriptor)?,
            process_file: self.process_file.clone(),
        })
    }
}

#[async_trait]
impl TaskDriver for RunningPlugin {
    async fn start(&self) -> Result<Box<dyn Task>, DriverError> {
        match self.find().await {
            Ok(process) => Ok(Box::new(process)),
            Err(error) => Err(self.failed(error)),
        }
    }
}

/// Adds what to do about a socket that is not trusted.
fn with_advice(error: io::Error) -> io::Error {
    let Some(refused) = NotPrivate::find(&error) else {
        return error;
    };
    let advice = match refused.problem {
        Problem::Foreign { owner, .. } | Problem::ForeignPeer { owner, .. } => {
            format!("if you trust that user, start the agent with `--plugin-endpoint-user {owner}`")
        }
        Problem::Writable { .. } | Problem::Link { .. } | Problem::WrongKind { .. } => {
            refused.help()
        }
    };
    io::Error::new(error.kind(), format!("{refused}; {advice}"))
}

/// Returns the reason why a plugin cannot be used, as `ResourceBusy` if the process on record still runs: it cannot be
/// reached, and is not gone.
fn unusable(recorded: &io::Result<ProcessRecord>, error: io::Error) -> io::Error {
    match recorded {
        Ok(ProcessRecord::None | ProcessRecord::Exited) => error,
        Ok(ProcessRecord::Runs(_) | ProcessRecord::Idle(_)) | Err(_) => {
            io::Error::new(io::ErrorKind::ResourceBusy, error)
        }
    }
}

/// Records the process. Blocks.
fn record(
    peer: SocketPeer,
    file: &Path,
    earlier_calls_end: Instant,
) -> io::Result<(ProcessId, OwnedFd)> {
    let left = earlier_calls_end.saturating_duration_since(Instant::now());
    if let Some((recorded, is_idle)) = process_file::read_with_use(file)?
        && recorded.open()?.is_some()
    {
        // While it runs, no other process has its number.
        if recorded.pid != peer.pid {
            return Err(still_runs(recorded.pid));
        }
        if !is_idle && !left.is_zero() {
            return Err(may_be_busy(recorded.pid, left));
        }
    }
    let exited = || {
        let text = format!("process {} has exited", peer.pid);
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    let process = ProcessId::current(peer.pid)?.ok_or_else(exited)?;
    // While it runs, no other process has its number.
    if !peer.is_running()? {
        return Err(exited());
    }
    process_file::record(file, &process)?;
    Ok((process, peer.into_descriptor()))
}

/// The content of a process file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessRecord {
    /// There is no file.
    None,
    /// The process has exited.
    Exited,
    /// The process with this ID runs, and may be carrying out calls of an agent that did not stop in order.
    Runs(i32),
    /// The process with this ID runs, and has answered every call.
    Idle(i32),
}

/// Returns what the file of a plugin that runs already says about its process. Blocks.
///
/// # Errors
/// If the file or the process cannot be read.
pub fn process_on_record(file: &Path) -> io::Result<ProcessRecord> {
    let Some((recorded, is_idle)) = process_file::read_with_use(file)? else {
        return Ok(ProcessRecord::None);
    };
    Ok(match recorded.open()? {
        None => ProcessRecord::Exited,
        Some(_) if is_idle => ProcessRecord::Idle(recorded.pid),
        Some(_) => ProcessRecord::Runs(recorded.pid),
    })
}

fn may_be_busy(pid: i32, left: Duration) -> io::Error {
    let minutes = left.as_secs().div_ceil(60);
    let message = format!(
        "process {pid} may still be carrying out calls of an agent that did not stop in order; \
         restart the plugin, or wait for at most {minutes} min"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

fn still_runs(pid: i32) -> io::Error {
    let message = format!(
        "process {pid}, which the agent used at this socket before, still runs, and what it was asked for may still take \
         effect; end it, and the agent uses the process that listens now"
    );
    io::Error::new(io::ErrorKind::ResourceBusy, message)
}

/// The process of a plugin that runs already.
struct RunningProcess {
    name: String,
    process: ProcessId,
    /// Readable when the process has exited.
    descriptor: AsyncFd<OwnedFd>,
    process_file: PathBuf,
}

impl RunningProcess {
    /// Returns whether the process is known to have exited. Does not wait.
    fn has_exited(&self) -> bool {
        has_ended(self.descriptor.get_ref(), Duration::ZERO).unwrap_or(false)
    }
}

#[async_trait]
impl Task for RunningProcess {
    async fn wait(&self) -> String {
        if let Err(error) = self.descriptor.readable().await {
            tracing::warn!(pid = self.process.pid, %error, "the process of the plugin cannot be watched");
            // It is not known to have exited.
            return std::future::pending().await;
        }
        "exited".to_owned()
    }

    async fn stop(&self, is_idle: bool) -> Result<StoppedProcess, DriverError> {
        if self.has_exited() {
            return Ok(StoppedProcess::Exited);
        }
        if !is_idle {
            return Ok(StoppedProcess::LeftBusy);
        }
        let (file, process) = (self.process_file.clone(), self.process.clone());
        match run_blocking(move || process_file::record_idle(&file, &process)).await {
            Ok(()) => Ok(StoppedProcess::LeftIdle),
            // It is on record as it was: it runs, and the next agent waits.
            Err(error) => {
                let (plugin, pid) = (&self.name, self.process.pid);
                tracing::warn!(plugin, pid, %error, "it was not recorded that the plugin is not used any more");
                Ok(StoppedProcess::LeftBusy)
            }
        }
    }

    fn required_peer(&self) -> Option<PeerProcess> {
        Some(PeerProcess { pid: self.process.pid, start_time: self.process.start_time })
    }

    fn last_lines(&self) -> Vec<String> {
        vec![]
    }
}

#[cfg(test)]
mod tests;
