//! Tasks: processes of plugins that the agent uses. It starts and stops them, or they run already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

use nomad_csi_ports::PeerProcess;

/// The command of a task that the agent starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCommand {
    /// The name in logs.
    pub name: String,
    /// The path of the program.
    pub program: PathBuf,
    /// The arguments.
    pub arguments: Vec<OsString>,
    /// The complete environment; the task inherits nothing.
    pub environment: Vec<(OsString, OsString)>,
    /// The file that names the task's process, for the next run of the agent.
    pub process_file: PathBuf,
    /// How long the process may take to stop by itself before it is killed.
    pub kill_timeout: Duration,
}

/// A task cannot be started or controlled.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} task {task}")]
pub struct DriverError {
    /// The name of the task.
    pub task: String,
    /// The failed action: `start`, `stop`, `stop the earlier process of`, `use`.
    pub action: &'static str,
    /// The error of the operating system; `ResourceBusy` if a process that runs already cannot be reached, or may be
    /// carrying out calls of an earlier agent, `TimedOut` if a process did not exit.
    #[source]
    pub source: std::io::Error,
}

impl DriverError {
    /// Returns whether a process of the task may still be running, and carrying out calls.
    pub fn leaves_process(&self) -> bool {
        use std::io::ErrorKind::{ResourceBusy, TimedOut};
        matches!(self.source.kind(), ResourceBusy | TimedOut)
    }
}

/// The process of a task after [`Task::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedProcess {
    /// It has exited.
    Exited,
    /// It goes on without a call of this agent, because the agent did not start it.
    LeftIdle,
    /// It goes on, and may be carrying out calls of this agent.
    LeftBusy,
}

/// A running task.
#[async_trait]
pub trait Task: Send + Sync {
    /// Waits until the task exits, and returns how: `exited with status 1`, `killed by signal 9`.
    /// Cancelling the wait and waiting again is safe.
    async fn wait(&self) -> String;
    /// Ends the use of the task. A process that the agent started is asked to stop, is killed after its
    /// time limit, and has exited when this returns. Any other process goes on; `is_idle` says that it has no
    /// call of this agent under way.
    async fn stop(&self, is_idle: bool) -> Result<StoppedProcess, DriverError>;
    /// Returns the process that every connection to the task's socket must lead to; `None` if only the task can
    /// listen there.
    fn required_peer(&self) -> Option<PeerProcess>;
    /// Returns the last lines of its output, newest last, for error messages.
    fn last_lines(&self) -> Vec<String>;
}

/// Runs one task, one process at a time.
///
/// If the process that started a task is killed, the task reads the end of its standard input; one that
/// ignores it may survive, until it is started again.
#[async_trait]
pub trait TaskDriver: Send + Sync {
    /// Starts a process, or finds the one that runs, after no call of an earlier one can be under way.
    async fn start(&self) -> Result<Box<dyn Task>, DriverError>;
}
