//! Tasks: processes that the agent starts, monitors and stops.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

/// The command of a task.
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
    /// The failed action: `start`, `stop`, `stop the earlier process of`.
    pub action: &'static str,
    /// The error of the operating system.
    #[source]
    pub source: std::io::Error,
}

/// A running task.
#[async_trait]
pub trait Task: Send + Sync {
    /// Waits until the task exits, and returns how: `exited with status 1`, `killed by signal 9`.
    /// Cancelling the wait and waiting again is safe.
    async fn wait(&self) -> String;
    /// Asks the task to stop, kills it after `grace`, and returns after it has exited.
    async fn stop(&self, grace: Duration) -> Result<(), DriverError>;
    /// Returns the last lines of its output, newest last, for error messages.
    fn last_lines(&self) -> Vec<String>;
}

/// Starts tasks. If the process that started a task is killed, the task reads the end of its standard
/// input; one that ignores it may survive, until it is started again.
#[async_trait]
pub trait TaskDriver: Send + Sync {
    /// Starts a task after the process that an earlier run started for it is gone.
    async fn start(&self, command: TaskCommand) -> Result<Box<dyn Task>, DriverError>;
}
