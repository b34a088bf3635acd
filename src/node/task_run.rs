//! Runs of tasks that outlive the agent.
//!
//! A run is one attempt of a task and has a directory of its own; a restart of the task is a new run. The files
//! of the directory are all that an agent needs to find a run again, so every call takes the directory and not
//! a handle: an agent that started a run and an agent that finds it after a restart do the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use nomad_csi_model::{AllocId, MountConfig, PropagationMode, Resources};
use nomad_csi_ports::{LogStream, SourceIdentity};

/// One mount of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskMount {
    /// The absolute path on the host: a directory, a file or a device node.
    pub source: PathBuf,
    /// The absolute path in the task.
    pub destination: PathBuf,
    /// True if the task may not write. Refused for a device node, which stays writable on a read-only mount. With
    /// [`PropagationMode::HostToTask`], a mount that the host makes below it later is as the host made it.
    pub read_only: bool,
    /// Which way mounts travel. [`PropagationMode::Bidirectional`] needs a source on a shared mount.
    pub propagation: PropagationMode,
    /// The identity that the source must have when the task starts; `None` if any directory or file may be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<SourceIdentity>,
}

/// The user and the group that a task runs as. It has no supplementary groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskUser {
    /// The user ID.
    pub uid: u32,
    /// The group ID.
    pub gid: u32,
}

/// How much output of a task is kept, for standard output and standard error each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLimits {
    /// The maximum size of a file in bytes.
    pub file_bytes: u64,
    /// The number of files; the oldest one is removed first.
    pub files: u32,
}

impl Default for LogLimits {
    /// Nomad's limits: 10 files of 10 MiB.
    fn default() -> Self {
        Self { file_bytes: 10 << 20, files: 10 }
    }
}

/// The program of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskProgram {
    /// The path, or a name that is looked up in the task's `PATH`.
    pub command: PathBuf,
    /// The arguments.
    pub arguments: Vec<String>,
    /// The working directory, in the task's file system.
    pub working_directory: Option<PathBuf>,
}

/// The run that the driver `mock_driver` pretends, with Nomad's names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MockScript {
    /// Why the task cannot start, if it cannot.
    pub start_error: Option<String>,
    /// How long the task runs unless it is stopped.
    pub run_for: Duration,
    /// How long the task takes to stop.
    pub kill_after: Duration,
    /// The exit status.
    pub exit_code: i32,
    /// The signal that ends the task in place of an exit status.
    pub exit_signal: Option<i32>,
    /// The text that the task writes to standard output.
    pub stdout: String,
}

/// The driver of a task with its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverConfig {
    /// `exec`: the task has a root of its own with the host's programs, read-only, and few capabilities.
    Exec(TaskProgram),
    /// `exec` for a plugin: all capabilities and the host's devices, so that it can mount volumes for others.
    ExecPlugin(TaskProgram),
    /// `raw_exec`: the task sees the file system of the host, and has all rights of its user.
    RawExec(TaskProgram),
    /// `mock_driver`: no process at all.
    Mock(MockScript),
}

impl DriverConfig {
    /// Returns the driver's name in a job.
    pub const fn driver(&self) -> &'static str {
        match self {
            Self::Exec(_) | Self::ExecPlugin(_) => "exec",
            Self::RawExec(_) => "raw_exec",
            Self::Mock(_) => "mock_driver",
        }
    }
}

/// One run of a task, as its driver needs it.
#[derive(Clone, PartialEq, Eq)]
pub struct RunRequest {
    /// The allocation, for names that a person sees.
    pub alloc: AllocId,
    /// The name of the task, for messages.
    pub task: String,
    /// The resources that the task may use, as far as the machine can limit it.
    pub resources: Resources,
    /// The driver.
    pub config: DriverConfig,
    /// The complete environment; the task inherits nothing.
    pub environment: BTreeMap<String, String>,
    /// The user; without one, the agent's.
    pub user: Option<TaskUser>,
    /// The mounts.
    pub mounts: Vec<TaskMount>,
    /// Directories that the task must not see, although it sees a directory that contains them: the agent's data.
    pub hidden: Vec<PathBuf>,
    /// The number of the signal that asks the task to stop.
    pub kill_signal: i32,
    /// The time between that signal and SIGKILL.
    pub kill_timeout: Duration,
    /// How much output is kept, of this run and the earlier ones together.
    pub logs: LogLimits,
    /// The directories of the earlier runs of the task, the oldest first. Their output makes room for that of this run.
    pub earlier_runs: Vec<PathBuf>,
}

impl std::fmt::Debug for RunRequest {
    /// Shows neither arguments nor values of the environment, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunRequest")
            .field("alloc", &self.alloc)
            .field("task", &self.task)
            .field("resources", &self.resources)
            .field("driver", &self.config.driver())
            .field("environment", &self.environment.keys())
            .field("user", &self.user)
            .field("mounts", &self.mounts)
            .field("kill_signal", &self.kill_signal)
            .field("kill_timeout", &self.kill_timeout)
            .finish_non_exhaustive()
    }
}

/// The result of a start. Whichever it is, [`RunDriver::wait`] returns how the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStart {
    /// This call started the task.
    Started,
    /// The run was started before.
    Attached,
    /// The stop was requested first; the task was not started.
    Cancelled,
    /// The task could not be started. The reason is the end of the run.
    Failed,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunStatus {
    /// The task's mounts are made; its program does not run yet.
    Starting,
    /// The program runs as this process of the host.
    Running {
        /// The process ID.
        pid: i32,
    },
    /// The task has ended.
    Ended(RunEnd),
}

/// A limit that a task reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitReached {
    /// How often the kernel acted on it.
    pub count: u64,
    /// The limit.
    pub limit: u64,
}

/// The limits that a task reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsReached {
    /// How many of its processes were killed for want of memory. The limit is in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<LimitReached>,
    /// How often it could not have another process or thread. The limit is a number of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<LimitReached>,
}

impl LimitsReached {
    /// No limit was reached.
    pub const NONE: Self = Self { memory: None, processes: None };

    /// Returns whether no limit was reached.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// How a run ended. No process and no mount of the task exists any more, so its volumes can be unpublished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The task ended.
    Exited {
        /// Its exit status, if it exited by itself.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
        /// The limits that it reached before.
        limits: LimitsReached,
    },
    /// The task could not be started.
    Failed {
        /// The reason.
        reason: String,
    },
    /// The task was not started, because what must be at the source of a mount is not there.
    SourceLost {
        /// The source.
        source: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The end of the task was not observed.
    Lost {
        /// The reason.
        reason: String,
    },
}

impl std::fmt::Display for RunEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited { code: Some(code), .. } => write!(f, "exited with status {code}"),
            Self::Exited { signal: Some(signal), .. } => write!(f, "was killed by signal {signal}"),
            Self::Exited { .. } => f.write_str("was stopped before it started"),
            Self::Failed { reason } | Self::SourceLost { reason, .. } => {
                write!(f, "could not be started: {reason}")
            }
            Self::Lost { reason } => write!(f, "was lost: {reason}"),
        }
    }
}

/// A file of an output. Together, the files of an output are its newest part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// The number; a higher one is newer.
    pub number: u32,
    /// The size in bytes. Only the newest file grows.
    pub size: u64,
}

/// A part of a file of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSlice {
    /// The number of the file.
    pub number: u32,
    /// The first byte.
    pub offset: u64,
    /// The maximum number of bytes.
    pub limit: u64,
}

/// A run cannot be started, found or controlled.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver cannot do what the request requires. Another attempt fails as well.
    #[error("cannot start task `{task}` with driver `{driver}`: {reason}")]
    Refused {
        /// The name of the task.
        task: String,
        /// The name of the driver.
        driver: &'static str,
        /// The reason, and what to change.
        reason: String,
    },
    /// The run was not started, so it has no end.
    #[error("the run in `{}` was never started", run.display())]
    NotStarted {
        /// The directory of the run.
        run: PathBuf,
    },
    /// The operating system refused. Another attempt may succeed.
    #[error("cannot {action} the run in `{}`: {reason}", run.display())]
    Failed {
        /// The failed action: `start`, `stop`, `wait for`, `find`, `read the output of`.
        action: &'static str,
        /// The directory of the run.
        run: PathBuf,
        /// The reason.
        reason: String,
    },
}

/// Runs tasks that outlive the agent.
#[async_trait]
pub trait RunDriver: Send + Sync {
    /// Returns what the driver can mount.
    fn mount_config(&self) -> MountConfig;
    /// Starts the run in this directory unless it was started before. A request that was made once counts, and a
    /// later one for the same directory is ignored. Safe to repeat at any time, also by two agents at once: the
    /// task is started at most once. Dropping the future does not stop the start; [`RunDriver::stop`] does.
    async fn start(&self, run: &Path, request: RunRequest) -> Result<RunStart, RunError>;
    /// Returns where the run is, as its files say; `None` if it was never started. A run whose task was killed
    /// together with its supervisor counts as running until [`RunDriver::wait`] finds out.
    async fn status(&self, run: &Path) -> Result<Option<RunStatus>, RunError>;
    /// Waits until the task has ended, and returns how. Cancelling the wait and waiting again is safe. Every
    /// call, of every agent, returns the same end.
    async fn wait(&self, run: &Path) -> Result<RunEnd, RunError>;
    /// Requests the end of the task, and returns at once. The task gets its kill signal, and SIGKILL after its
    /// kill timeout. A run that is not started yet will not start. Has no effect on a run that has ended.
    async fn stop(&self, run: &Path) -> Result<(), RunError>;
    /// Sends a signal to the process of the task. Returns false if it does not run.
    async fn signal(&self, run: &Path, signal: i32) -> Result<bool, RunError>;
    /// Ends the task at once, with SIGKILL and without its kill timeout, and returns before it has ended. A run that is not
    /// started yet will not start. Has no effect on a run that has ended.
    async fn kill(&self, run: &Path) -> Result<(), RunError>;
    /// Finds the runs below this directory, which exists, that go on although their files are missing or damaged. From then
    /// on they are waited for and stopped like any other. Returns those that cannot go on, because more than their state is
    /// missing. The files of a run say nothing before this.
    async fn recover(&self, data: &Path) -> Result<Vec<PathBuf>, RunError>;
    /// Returns the last lines of an output, newest last, without control characters. At most `limit` lines from the
    /// last 64 KiB. Empty if the task wrote nothing.
    async fn last_lines(
        &self,
        run: &Path,
        stream: LogStream,
        limit: usize,
    ) -> Result<Vec<String>, RunError>;
    /// Returns the files of an output, oldest first. None if the run was never started or wrote nothing.
    async fn log_files(&self, run: &Path, stream: LogStream) -> Result<Vec<LogFile>, RunError>;
    /// Returns bytes of an output as the task wrote them. Empty at the end of the file, and if the file was removed.
    async fn read_log(
        &self,
        run: &Path,
        stream: LogStream,
        slice: LogSlice,
    ) -> Result<Vec<u8>, RunError>;
}
