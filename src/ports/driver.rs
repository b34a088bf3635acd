//! Tasks: processes that the agent starts, watches and stops.

use std::ffi::OsString;
use std::path::PathBuf;

use async_trait::async_trait;

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCommand {
    /// What people call it in logs.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment; nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
}

/// A task could not be started or watched.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} task {task}")]
pub struct DriverError {
    /// The task's name.
    pub task: String,
    /// What was tried: `start`, `stop`, `wait for`.
    pub action: &'static str,
    /// The operating system's reason.
    #[source]
    pub source: std::io::Error,
}

/// A running task.
#[async_trait]
pub trait Task: Send + Sync {
    /// Waits for its end and says how it ended: `exited with status 1`, `killed by signal 9`.
    /// Waiting may be given up and taken up again.
    async fn wait(&self) -> String;
    /// Asks it to stop, and kills it after `grace`; returns when it is gone.
    async fn stop(&self, grace: std::time::Duration) -> Result<(), DriverError>;
    /// The last lines it wrote, the newest last: what to show when it did not do what it should.
    fn last_lines(&self) -> Vec<String>;
}

/// Starts tasks. A task never outlives the process that started it, however that one ends.
#[async_trait]
pub trait TaskDriver: Send + Sync {
    /// Starts one.
    async fn start(&self, command: TaskCommand) -> Result<Box<dyn Task>, DriverError>;
}
