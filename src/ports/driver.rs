//! Tasks: processes that the agent starts, monitors and stops.

use std::ffi::OsString;
use std::path::PathBuf;

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
}

/// A task cannot be started or controlled.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} task {task}")]
pub struct DriverError {
    /// The name of the task.
    pub task: String,
    /// The failed action: `start`, `stop`, `wait for`.
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
    async fn stop(&self, grace: std::time::Duration) -> Result<(), DriverError>;
    /// Returns the last lines of its output, newest last, for error messages.
    fn last_lines(&self) -> Vec<String>;
}

/// Starts tasks. A task never outlives the process that started it, even if that process is killed.
#[async_trait]
pub trait TaskDriver: Send + Sync {
    /// Starts a task.
    async fn start(&self, command: TaskCommand) -> Result<Box<dyn Task>, DriverError>;
}
