//! `raw_exec`: a task as a plain process, without isolation.
//!
//! The task gets exactly the given program, arguments and environment. It leads its own process group,
//! so an interrupt in the agent's terminal does not reach it. The agent holds the only write end of
//! its standard input, so the task reads the end of input when the agent dies, even by `kill -9`.
//! Dropping the handle kills the task.
//!
//! Only the reaper waits for the child and signals it, so no signal reaches a reused process ID. The
//! process is recorded, and the next start ends it if it survived the agent (`predecessor`).

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::output::{LastLines, forward};
use super::predecessor::end_predecessor;
use super::process_file;
use crate::task_driver::{DriverError, StoppedProcess, Task, TaskCommand, TaskDriver};
use nomad_csi_ports::{PeerProcess, run_blocking};

/// The wait for output after the process has ended. A descendant may keep the pipe open.
const OUTPUT_GRACE: Duration = Duration::from_millis(500);
/// The time for a killed process to end. It may wait for a disk.
const KILL_LIMIT: Duration = Duration::from_secs(5);

/// Starts a plain process.
#[derive(Clone, Debug)]
pub struct RawExec {
    /// The command of the process.
    pub command: TaskCommand,
}

#[async_trait]
impl TaskDriver for RawExec {
    async fn start(&self) -> Result<Box<dyn Task>, DriverError> {
        let command = &self.command;
        let failed = |action: &'static str| {
            let task = command.name.clone();
            move |source| DriverError { task, action, source }
        };
        end_earlier_process(command).await.map_err(failed("stop the earlier process of"))?;
        let child = spawn(command).map_err(failed("start"))?;
        // Dropping the child after a failure kills it.
        record(&child, command.process_file.clone()).await.map_err(failed("start"))?;
        Ok(Box::new(Process::supervise(command, child)))
    }
}

/// Ends the process that an earlier run of the agent started with this command and that survived it.
///
/// # Errors
/// If the process does not end, or its record is damaged.
pub async fn end_earlier_process(command: &TaskCommand) -> std::io::Result<()> {
    let (file, limit) = (command.process_file.clone(), command.kill_timeout);
    run_blocking(move || end_predecessor(&file, limit)).await
}

fn spawn(command: &TaskCommand) -> std::io::Result<Child> {
    Command::new(&command.program)
        .args(&command.arguments)
        .env_clear()
        .envs(command.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

/// Records the process of the child, which is not reaped yet.
async fn record(child: &Child, file: PathBuf) -> std::io::Result<()> {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    let pid = pid.ok_or(std::io::ErrorKind::NotFound)?;
    run_blocking(move || process_file::write(&file, pid)).await
}

/// A running or ended process.
struct Process {
    name: String,
    kill_timeout: Duration,
    last: LastLines,
    /// The grace period, once the process must stop.
    stop: watch::Sender<Option<Duration>>,
    /// How the process ended, once it has.
    ended: watch::Receiver<Option<String>>,
    /// Holds the reaper; dropping it drops the child, which kills it.
    _reaper: Mutex<JoinSet<()>>,
}

impl Process {
    fn supervise(command: &TaskCommand, child: Child) -> Self {
        let name = command.name.clone();
        let (stop, stop_requests) = watch::channel(None);
        let (end, ended) = watch::channel(None);
        let last = LastLines::default();
        let mut reaper = JoinSet::new();
        reaper.spawn(reap(name.clone(), child, last.clone(), stop_requests, end));
        Self {
            name,
            kill_timeout: command.kill_timeout,
            last,
            stop,
            ended,
            _reaper: Mutex::new(reaper),
        }
    }
}

#[async_trait]
impl Task for Process {
    async fn wait(&self) -> String {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or_default(),
            Err(_) => "was abandoned".to_owned(),
        }
    }

    async fn stop(&self, _: bool) -> Result<StoppedProcess, DriverError> {
        let grace = self.kill_timeout;
        self.stop.send_replace(Some(grace));
        match timeout(grace + OUTPUT_GRACE + KILL_LIMIT, self.wait()).await {
            Ok(_) => Ok(StoppedProcess::Exited),
            Err(_) => Err(DriverError {
                task: self.name.clone(),
                action: "stop",
                source: std::io::ErrorKind::TimedOut.into(),
            }),
        }
    }

    fn required_peer(&self) -> Option<PeerProcess> {
        None
    }

    fn last_lines(&self) -> Vec<String> {
        self.last.list()
    }
}

/// Owns the child until it ends: forwards its output, stops it on request, reaps it, and reports how
/// it ended.
async fn reap(
    name: String,
    mut child: Child,
    last: LastLines,
    stop_requests: watch::Receiver<Option<Duration>>,
    end: watch::Sender<Option<String>>,
) {
    // `Child::wait` closes the standard input, so it is taken out first.
    let lifeline = child.stdin.take();
    let mut output = JoinSet::new();
    if let Some(stdout) = child.stdout.take() {
        output.spawn(forward(stdout, name.clone(), last.clone()));
    }
    if let Some(stderr) = child.stderr.take() {
        output.spawn(forward(stderr, name, last));
    }
    let ended = tokio::select! {
        ended = child.wait() => ended,
        grace = stop_requested(stop_requests) => terminate(&mut child, grace).await,
    };
    drop(lifeline);
    // A descendant may keep the pipes open; dropping the set ends its output.
    let _complete =
        timeout(OUTPUT_GRACE, async { while output.join_next().await.is_some() {} }).await;
    end.send_replace(Some(match ended {
        Ok(status) => describe(status),
        Err(error) => format!("could not be waited for: {error}"),
    }));
}

/// Waits for the request to stop. Returns the grace period.
async fn stop_requested(mut requests: watch::Receiver<Option<Duration>>) -> Duration {
    let grace = requests.wait_for(Option::is_some).await;
    grace.ok().and_then(|grace| *grace).unwrap_or(Duration::ZERO)
}

/// Sends SIGTERM to the process, and after the grace period SIGKILL to its group.
async fn terminate(child: &mut Child, grace: Duration) -> std::io::Result<ExitStatus> {
    signal(child, Signal::TERM);
    if let Ok(ended) = timeout(grace, child.wait()).await {
        return ended;
    }
    signal(child, Signal::KILL);
    child.wait().await
}

/// Signals a child that is not reaped yet, which `id` guarantees. Has no effect on one that has just
/// ended.
fn signal(child: &Child, signal: Signal) {
    let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) else {
        return;
    };
    let sent = if signal == Signal::KILL {
        rustix::process::kill_process_group(pid, signal)
    } else {
        rustix::process::kill_process(pid, signal)
    };
    if let Err(error) = sent {
        tracing::debug!(pid = pid.as_raw_nonzero().get(), %error, "signal not delivered");
    }
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::driver::process_id::ProcessId;

    const LONG: Duration = Duration::from_secs(20);

    fn script(script: &str, directory: &Path) -> TaskCommand {
        TaskCommand {
            name: "test".to_owned(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("ONLY".into(), "this".into())],
            process_file: directory.join("test.process"),
            kill_timeout: Duration::from_millis(20),
        }
    }

    async fn start(command: TaskCommand) -> Result<Box<dyn Task>, DriverError> {
        RawExec { command }.start().await
    }

    async fn shell(text: &str) -> Box<dyn Task> {
        let directory = tempfile::tempdir().unwrap();
        let command = script(text, directory.path());
        start(command).await.unwrap()
    }

    /// A process of an earlier run that ignores the end of its input and SIGTERM, and its record.
    async fn survivor(directory: &Path) -> (Child, ProcessId) {
        let command = script("trap '' TERM; echo ready; exec sleep 1000", directory);
        let mut child = spawn(&command).unwrap();
        drop(child.stdin.take());
        let mut ready = [0; 6];
        let stdout = child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut ready).await.unwrap();
        record(&child, command.process_file).await.unwrap();
        let recorded = process_file::read(&directory.join("test.process"));
        (child, recorded.unwrap().unwrap())
    }

    fn write_record(directory: &Path, process: &ProcessId) {
        let text = serde_json::to_vec(process).unwrap();
        std::fs::write(directory.join("test.process"), text).unwrap();
    }

    /// A foreign plugin may ignore the end of its standard input when the agent dies.
    #[tokio::test]
    async fn a_start_ends_the_process_of_an_earlier_run() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, recorded) = survivor(directory.path()).await;
        let task = start(script("exit 3", directory.path())).await;
        let status = child.try_wait().unwrap();
        assert_eq!(status.and_then(|status| status.signal()), Some(9));
        assert_eq!(ends(&*task.unwrap()).await, "exited with status 3");
        let next = process_file::read(&directory.path().join("test.process"));
        assert_ne!(next.unwrap(), Some(recorded));
    }

    #[tokio::test]
    async fn a_process_with_another_start_time_or_boot_is_not_signalled() {
        let directory = tempfile::tempdir().unwrap();
        let (mut child, recorded) = survivor(directory.path()).await;
        let earlier = ProcessId { start_time: recorded.start_time - 1, ..recorded.clone() };
        let other_boot =
            ProcessId { boot_id: "00000000-0000-4000-8000-000000000000".to_owned(), ..recorded };
        for other in [earlier, other_boot] {
            write_record(directory.path(), &other);
            let task = start(script("exit 3", directory.path())).await;
            assert_eq!(ends(&*task.unwrap()).await, "exited with status 3");
            assert_eq!(child.try_wait().unwrap(), None, "{other:?}");
        }
        child.kill().await.unwrap();
    }

    #[tokio::test]
    async fn a_damaged_record_is_an_error_and_nothing_is_started() {
        let directory = tempfile::tempdir().unwrap();
        let record = directory.path().join("test.process");
        std::fs::write(&record, "{\"pid\":1").unwrap();
        let marker = directory.path().join("started");
        let command = script(&format!("touch {}", marker.display()), directory.path());
        let error = start(command).await.err().unwrap();
        assert_eq!(error.to_string(), "cannot stop the earlier process of task test");
        let expected = format!(
            "`{}` does not name a process; end the process of the task if it runs, and remove the file",
            record.display()
        );
        assert_eq!(error.source.to_string(), expected);
        assert!(!marker.exists());
    }

    async fn ends(task: &dyn Task) -> String {
        timeout(LONG, task.wait()).await.unwrap()
    }

    #[tokio::test]
    async fn a_task_reports_how_it_ended_and_keeps_its_last_lines() {
        for (script, end) in [
            ("echo out; echo err >&2; exit 3", "exited with status 3"),
            ("kill -9 $$", "was killed by signal 9"),
        ] {
            let task = shell(script).await;
            assert_eq!(ends(&*task).await, end, "{script}");
            assert_eq!(ends(&*task).await, end, "waiting again");
            task.stop(true).await.unwrap();
            let mut lines = task.last_lines();
            lines.sort();
            let expected: &[&str] = if end.contains("status") { &["err", "out"] } else { &[] };
            assert_eq!(lines, expected);
        }
    }

    #[tokio::test]
    async fn the_agents_environment_is_not_inherited() {
        let task = shell("/usr/bin/env").await;
        ends(&*task).await;
        let lines = task.last_lines();
        assert!(lines.contains(&"ONLY=this".to_owned()), "{lines:?}");
        assert!(!lines.iter().any(|line| line.starts_with("CARGO")), "{lines:?}");
    }

    #[tokio::test]
    async fn a_task_that_ignores_sigterm_is_killed_with_its_children() {
        let task = shell("trap '' TERM; echo ready; sleep 1000; sleep 1000").await;
        timeout(LONG, async {
            while task.last_lines().is_empty() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        task.stop(true).await.unwrap();
        assert_eq!(ends(&*task).await, "was killed by signal 9");
    }

    #[tokio::test]
    async fn standard_input_stays_open_while_the_task_runs() {
        let task = shell("read line; echo \"input ended: $?\"; exit 7").await;
        let early = timeout(Duration::from_millis(50), task.wait()).await;
        assert!(early.is_err(), "the task's input ended: {early:?}");
        task.stop(true).await.unwrap();
    }

    #[tokio::test]
    async fn a_missing_program_is_an_error_with_its_reason() {
        let command = TaskCommand {
            name: "absent".to_owned(),
            program: "/nowhere/at/all".into(),
            ..script("", Path::new("/nowhere"))
        };
        let error = start(command).await.err().unwrap();
        assert_eq!(error.to_string(), "cannot start task absent");
        assert_eq!(error.source.kind(), std::io::ErrorKind::NotFound);
    }
}
