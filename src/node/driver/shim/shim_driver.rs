//! [`ShimDriver`]: the drivers `exec` and `raw_exec`.
//!
//! A start is safe to repeat because the shim decides under the lock of the run. An agent that hears nothing, because
//! `launch` or the shim was killed, starts them again.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::Command;

use super::super::limits::{TaskLimits, process_numbers_are_own};
use super::attach::{blocking, kill, known_state, request_stop, signal_task, wait_for_end};
use super::living::recover_below;
use super::log_reader;
use super::messages::ShimMessage;
use super::role::{COMMAND, ENVIRONMENT, OWN_PROGRAM, Role};
use super::run_files::RunFiles;
use super::run_spec::{AgentRights, RunSpec};
use crate::task_run::{
    LogFile, LogSlice, RunDriver, RunEnd, RunError, RunRequest, RunStart, RunStatus,
};
use nomad_csi_model::MountConfig;
use nomad_csi_ports::LogStream;

/// How often a start is tried whose processes are killed before they say anything.
const ATTEMPTS: u32 = 3;
/// The longest message of a shim in bytes.
const LONGEST_MESSAGE: u64 = 4096;

/// Runs tasks as processes that outlive the agent.
#[derive(Clone, Debug)]
pub struct ShimDriver {
    name: &'static str,
    mount_config: MountConfig,
    program: PathBuf,
    limits: Arc<TaskLimits>,
}

impl ShimDriver {
    /// Returns the driver `exec`: tasks with a root of their own, which can mount volumes.
    pub fn exec() -> Self {
        Self {
            name: "exec",
            mount_config: MountConfig::All,
            program: OWN_PROGRAM.into(),
            limits: Arc::default(),
        }
    }

    /// Returns the driver `raw_exec`: tasks in the host's file system, which cannot mount volumes.
    pub fn raw_exec() -> Self {
        Self {
            name: "raw_exec",
            mount_config: MountConfig::None,
            program: OWN_PROGRAM.into(),
            limits: Arc::default(),
        }
    }

    /// Sets the file of `nomad-csi`, for a process that is another program.
    #[must_use]
    pub fn with_program(self, program: PathBuf) -> Self {
        Self { program, ..self }
    }

    /// Sets what the agent can limit of tasks.
    #[must_use]
    pub fn with_limits(self, limits: Arc<TaskLimits>) -> Self {
        Self { limits, ..self }
    }

    fn check(&self, run: &Path, request: RunRequest) -> Result<RunSpec, RunError> {
        let task = request.task.clone();
        let driver = request.config.driver();
        let (alloc, resources) = (&request.alloc, &request.resources);
        let group = self.limits.group_of(run, alloc, &task, resources);
        let spec = if driver == self.name {
            RunSpec::of(request, AgentRights::current())
        } else {
            Err(format!("this is driver `{}`", self.name))
        };
        let spec = spec.map(|spec| spec.limited(group, process_numbers_are_own()));
        spec.map_err(|reason| RunError::Refused { task, driver, reason })
    }

    /// Starts a shim. Returns its message; `None` if it was killed before it said anything.
    async fn launch(&self, run: &RunFiles) -> io::Result<Option<ShimMessage>> {
        let mut launch = Command::new(&self.program)
            .arg0("nomad-csi")
            .args([COMMAND, Role::Launch.as_str()])
            .arg(run.directory())
            .env_clear()
            .env(ENVIRONMENT.0, ENVIRONMENT.1)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let output = launch.stdout.take();
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        let mut line = String::new();
        BufReader::new(output.take(LONGEST_MESSAGE)).read_line(&mut line).await?;
        // `launch` ends at once; a longer wait is not for it.
        launch.wait().await?;
        Ok(ShimMessage::parse(&line))
    }

    async fn start_run(&self, run: &RunFiles, spec: RunSpec) -> io::Result<RunStart> {
        let is_started = blocking(run, move |run| {
            run.create(&spec)?;
            Ok(run.read_state()?.is_some())
        });
        if is_started.await? {
            return Ok(RunStart::Attached);
        }
        for _ in 0..ATTEMPTS {
            match self.launch(run).await? {
                Some(ShimMessage::Started) => return Ok(RunStart::Started),
                Some(ShimMessage::Attached) => return Ok(RunStart::Attached),
                Some(ShimMessage::Cancelled) => return Ok(RunStart::Cancelled),
                Some(ShimMessage::Failed) => return Ok(RunStart::Failed),
                Some(ShimMessage::Error(reason)) => return Err(io::Error::other(reason)),
                None => {}
            }
            if blocking(run, |run| Ok(run.read_state()?.is_some())).await? {
                return Ok(RunStart::Attached);
            }
        }
        let log = blocking(run, |run| Ok(run.read_shim_log())).await?;
        let message = format!("its supervisor ended {ATTEMPTS} times before it started the task");
        Err(io::Error::other(if log.is_empty() { message } else { format!("{message}: {log}") }))
    }
}

#[async_trait]
impl RunDriver for ShimDriver {
    fn mount_config(&self) -> MountConfig {
        self.mount_config
    }

    async fn start(&self, run: &Path, request: RunRequest) -> Result<RunStart, RunError> {
        let run = files(run, "start")?;
        let spec = self.check(run.directory(), request)?;
        self.start_run(&run, spec).await.map_err(failed("start", run.directory()))
    }

    async fn status(&self, run: &Path) -> Result<Option<RunStatus>, RunError> {
        let run = files(run, "read the state of")?;
        let state = blocking(&run, known_state).await;
        let state = state.map_err(failed("read the state of", run.directory()))?;
        Ok(state.map(|state| state.status()))
    }

    async fn wait(&self, run: &Path) -> Result<RunEnd, RunError> {
        let run = files(run, "wait for")?;
        let end = wait_for_end(&run).await;
        let end = end.map_err(failed("wait for", run.directory()))?;
        end.ok_or_else(|| RunError::NotStarted { run: run.directory().to_owned() })
    }

    async fn stop(&self, run: &Path) -> Result<(), RunError> {
        let run = files(run, "stop")?;
        let stopped = blocking(&run, request_stop).await;
        stopped.map_err(failed("stop", run.directory()))
    }

    async fn signal(&self, run: &Path, signal: i32) -> Result<bool, RunError> {
        let run = files(run, "send a signal to")?;
        let sent = blocking(&run, move |run| signal_task(run, signal)).await;
        sent.map_err(failed("send a signal to", run.directory()))
    }

    async fn kill(&self, run: &Path) -> Result<(), RunError> {
        let run = files(run, "kill")?;
        let killed = blocking(&run, kill).await;
        killed.map_err(failed("kill", run.directory()))
    }

    async fn recover(&self, data: &Path) -> Result<Vec<PathBuf>, RunError> {
        let below = files(data, "find")?;
        let found = blocking(&below, |below| recover_below(below.directory())).await;
        found.map_err(failed("find", below.directory()))
    }

    async fn last_lines(
        &self,
        run: &Path,
        stream: LogStream,
        limit: usize,
    ) -> Result<Vec<String>, RunError> {
        let run = files(run, "read the output of")?;
        let lines =
            blocking(&run, move |run| log_reader::last_lines(run.directory(), stream, limit));
        lines.await.map_err(failed("read the output of", run.directory()))
    }

    async fn log_files(&self, run: &Path, stream: LogStream) -> Result<Vec<LogFile>, RunError> {
        let run = files(run, "read the output of")?;
        let files = blocking(&run, move |run| log_reader::files(run.directory(), stream));
        let files = files.await;
        files.map_err(failed("read the output of", run.directory()))
    }

    async fn read_log(
        &self,
        run: &Path,
        stream: LogStream,
        slice: LogSlice,
    ) -> Result<Vec<u8>, RunError> {
        let run = files(run, "read the output of")?;
        let bytes = blocking(&run, move |run| log_reader::read(run.directory(), stream, slice));
        let bytes = bytes.await;
        bytes.map_err(failed("read the output of", run.directory()))
    }
}

/// Returns the files of a run. The shim has another working directory, so the path becomes absolute.
fn files(run: &Path, action: &'static str) -> Result<RunFiles, RunError> {
    let absolute = std::path::absolute(run).map_err(failed(action, run))?;
    Ok(RunFiles::new(&absolute))
}

fn failed(action: &'static str, run: &Path) -> impl FnOnce(io::Error) -> RunError {
    let run = run.to_owned();
    move |error| RunError::Failed { action, run, reason: error.to_string() }
}
