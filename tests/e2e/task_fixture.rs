//! Runs of tasks for tests, and what they leave behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nomad_csi_model::{PropagationMode, Resources};
use nomad_csi_node::driver::ShimDriver;
use nomad_csi_node::{
    DriverConfig, LimitsReached, LogLimits, RunDriver as _, RunEnd, RunRequest, RunStart,
    RunStatus, TaskMount, TaskProgram,
};
use nomad_csi_ports::LogStream;

use crate::agent_process::{PROGRAM, processes_with};
use crate::wait::{until, until_true};

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn exec() -> ShimDriver {
    ShimDriver::exec().with_program(PROGRAM.into())
}

pub(crate) fn raw_exec() -> ShimDriver {
    ShimDriver::raw_exec().with_program(PROGRAM.into())
}

/// A shell script as a program.
pub(crate) fn shell(script: &str) -> TaskProgram {
    TaskProgram {
        command: "/bin/sh".into(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        working_directory: None,
    }
}

pub(crate) fn request(config: DriverConfig) -> RunRequest {
    RunRequest {
        alloc: "test".into(),
        resources: Resources::default(),
        task: "test".to_owned(),
        config,
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        user: None,
        mounts: vec![],
        hidden: vec![],
        kill_signal: 15,
        kill_timeout: LONG,
        logs: LogLimits::default(),
        earlier_runs: vec![],
    }
}

pub(crate) fn mount(source: &Path, destination: &str) -> TaskMount {
    TaskMount {
        source: source.to_owned(),
        destination: destination.into(),
        read_only: false,
        propagation: PropagationMode::Private,
        identity: None,
    }
}

/// One run with a driver. Dropping it stops the task.
pub(crate) struct TestRun {
    driver: ShimDriver,
    pub(crate) directory: PathBuf,
}

impl TestRun {
    pub(crate) fn new(driver: ShimDriver, base: &Path) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = base.join(format!("run-{number}"));
        Self { driver, directory }
    }

    pub(crate) async fn start(&self, request: RunRequest) -> RunStart {
        let started = self.driver.start(&self.directory, request);
        let started = tokio::time::timeout(LONG, started).await.unwrap();
        started.unwrap()
    }

    pub(crate) async fn refusal(&self, request: RunRequest) -> String {
        let started = self.driver.start(&self.directory, request);
        started.await.unwrap_err().to_string()
    }

    pub(crate) async fn wait(&self) -> RunEnd {
        let waited = tokio::time::timeout(LONG, self.driver.wait(&self.directory));
        waited.await.unwrap().unwrap()
    }

    pub(crate) async fn stop(&self) {
        self.driver.stop(&self.directory).await.unwrap();
    }

    pub(crate) async fn status(&self) -> Option<RunStatus> {
        self.driver.status(&self.directory).await.unwrap()
    }

    /// Starts the task and waits for its end.
    pub(crate) async fn end_of(&self, request: RunRequest) -> RunEnd {
        self.start(request).await;
        self.wait().await
    }

    pub(crate) async fn lines(&self, stream: LogStream) -> Vec<String> {
        let lines = self.driver.last_lines(&self.directory, stream, 1000);
        lines.await.unwrap()
    }

    /// Waits until the task wrote this line to standard output.
    pub(crate) async fn wait_for_line(&self, line: &str) {
        crate::wait::until_async("a line of the task", async || {
            let lines = self.lines(LogStream::Stdout).await;
            let errors = self.lines(LogStream::Stderr).await;
            let is_there = lines.iter().any(|found| found == line);
            is_there.then_some(()).ok_or_else(|| format!("{lines:?} {errors:?}"))
        })
        .await;
    }

    /// The process of the shim.
    pub(crate) fn shim(&self) -> u32 {
        until("the shim", || {
            let found = processes_with(&["task-process", "shim", self.name()]);
            found.first().copied().ok_or_else(|| "none".to_owned())
        })
    }

    /// Waits until no part of the run is a process.
    pub(crate) fn wait_until_gone(&self) {
        until_true("the processes of the run to end", || {
            processes_with(&["task-process", self.name()]).is_empty()
        });
    }

    /// The part of command lines that names the run.
    pub(crate) fn name(&self) -> &str {
        self.directory.to_str().unwrap()
    }
}

impl Drop for TestRun {
    /// Kills the shim of a failed test, and the task with it.
    fn drop(&mut self) {
        for pid in processes_with(&["task-process", self.name()]) {
            let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap());
            rustix::process::kill_process(pid.unwrap(), rustix::process::Signal::KILL).ok();
        }
    }
}

pub(crate) const fn exited(code: i32) -> RunEnd {
    RunEnd::Exited { code: Some(code), signal: None, limits: LimitsReached::NONE }
}

pub(crate) const fn killed_by(signal: i32) -> RunEnd {
    RunEnd::Exited { code: None, signal: Some(signal), limits: LimitsReached::NONE }
}

/// Returns whether SIGKILL ended a task, whatever limits it reached.
pub(crate) const fn was_killed(end: &RunEnd) -> bool {
    matches!(end, RunEnd::Exited { signal: Some(9), .. })
}

/// A number that is the argument of `sleep` in one test only, so that its processes are found.
pub(crate) fn unique_seconds() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("1000.{}{number:06}", std::process::id())
}

/// Returns whether this test can run; says so if not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: it needs root");
    }
    is_root
}
