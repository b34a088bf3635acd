//! The output of tasks for `GET /v1/client/fs/logs`, by bytes.
//!
//! The output of a task is one sequence of bytes across its runs and their files. The oldest bytes may be gone, and a
//! reader that is behind goes on with the oldest that are left. A task that has not started has no output. Whether
//! an allocation has a task of a name is known to the server.

use async_trait::async_trait;

use nomad_csi_model::AllocId;

/// One of the two outputs of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl LogStream {
    /// Returns the name in commands and file names: `stdout` or `stderr`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// An output of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskOutput {
    /// The allocation.
    pub alloc: AllocId,
    /// The name of the task.
    pub task: String,
    /// Which of the two outputs.
    pub stream: LogStream,
}

/// From where an offset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOrigin {
    /// From the oldest byte, forwards.
    Start,
    /// From the newest byte, backwards.
    End,
}

/// A place in an output. Places are in the order in which the task wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition {
    /// The number of the run.
    pub run: u32,
    /// The number of the file in the run.
    pub file: u32,
    /// The byte in the file.
    pub offset: u64,
}

/// Bytes of an output, all of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogChunk {
    /// The bytes; empty if there are none yet.
    pub data: Vec<u8>,
    /// The name of the file for messages, such as `alloc/logs/web.stdout.1.0`.
    pub file: String,
    /// The place after the bytes, where the next read starts.
    pub next: LogPosition,
}

/// An output cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the output of task `{task}`: {reason}")]
pub struct TaskLogError {
    /// The name of the task.
    pub task: String,
    /// The reason.
    pub reason: String,
}

/// Reads the output of tasks.
#[async_trait]
pub trait TaskLogs: Send + Sync {
    /// Returns whether the node has files of the allocation. It has none before the first task starts, and after they were
    /// removed.
    async fn has_files(&self, output: &TaskOutput) -> Result<bool, TaskLogError>;

    /// Returns the place that is `offset` bytes from the origin. An offset that is too large is cut to the other end.
    async fn locate(
        &self,
        output: &TaskOutput,
        origin: LogOrigin,
        offset: u64,
    ) -> Result<LogPosition, TaskLogError>;

    /// Returns the bytes at a place, at most `limit`.
    async fn read(
        &self,
        output: &TaskOutput,
        position: LogPosition,
        limit: u64,
    ) -> Result<LogChunk, TaskLogError>;

    /// Waits until there are bytes after a place. Dropping the future ends the wait.
    async fn wait_for_more(
        &self,
        output: &TaskOutput,
        position: LogPosition,
    ) -> Result<(), TaskLogError>;
}
