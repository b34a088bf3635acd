//! `mock_driver`: tasks that only pretend, for tests of everything above a driver.
//!
//! A task of this driver is an entry in memory with a script. It keeps the contract of the port but one part: it does
//! not outlive the agent, and a later agent does not know it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::task_run::{
    DriverConfig, LimitsReached, LogFile, LogSlice, MockScript, RunDriver, RunEnd, RunError,
    RunRequest, RunStart, RunStatus,
};
use nomad_csi_model::MountConfig;
use nomad_csi_ports::LogStream;

/// The signal of a task that is stopped.
const INTERRUPTED: i32 = 2;
/// The end of a run that was stopped before it started.
const CANCELLED: RunEnd = RunEnd::Exited { code: None, signal: None, limits: LimitsReached::NONE };
/// The end of a run that is killed.
const KILLED: RunEnd = RunEnd::Exited { code: None, signal: Some(9), limits: LimitsReached::NONE };

/// Pretends to run tasks.
#[derive(Debug, Default)]
pub struct MockDriver {
    runs: Mutex<BTreeMap<PathBuf, Arc<MockRun>>>,
}

#[derive(Debug)]
struct MockRun {
    stdout: String,
    stop: watch::Sender<bool>,
    end: watch::Sender<Option<RunEnd>>,
}

impl MockRun {
    fn new(stdout: String) -> Self {
        Self { stdout, stop: watch::Sender::new(false), end: watch::Sender::new(None) }
    }

    /// A run that ended at once.
    fn ended(end: RunEnd) -> Self {
        let run = Self::new(String::new());
        run.end.send_replace(Some(end));
        run
    }

    /// Ends the run, unless it has ended.
    fn end(&self, how: RunEnd) {
        self.end.send_if_modified(|end| {
            let is_new = end.is_none();
            end.get_or_insert(how);
            is_new
        });
    }

    fn was_cancelled(&self) -> bool {
        *self.end.borrow() == Some(CANCELLED)
    }
}

impl MockDriver {
    fn find(&self, run: &Path) -> Option<Arc<MockRun>> {
        let runs = self.runs.lock();
        runs.get(run).cloned()
    }

    /// Returns the run, and whether this call created it.
    fn find_or_insert(&self, run: &Path, mock: MockRun) -> (Arc<MockRun>, bool) {
        let mut runs = self.runs.lock();
        let mut is_new = false;
        let entry = runs.entry(run.to_owned()).or_insert_with(|| {
            is_new = true;
            Arc::new(mock)
        });
        (entry.clone(), is_new)
    }
}

/// Plays the script. Returns how the task ended.
async fn play(script: MockScript, mut stop: watch::Receiver<bool>) -> RunEnd {
    let stopped = stop.wait_for(|is_requested| *is_requested);
    if timeout(script.run_for, stopped).await.is_ok() {
        sleep(script.kill_after).await;
        return RunEnd::Exited {
            code: None,
            signal: Some(INTERRUPTED),
            limits: LimitsReached::NONE,
        };
    }
    let code = script.exit_signal.is_none().then_some(script.exit_code);
    RunEnd::Exited { code, signal: script.exit_signal, limits: LimitsReached::NONE }
}

#[async_trait]
impl RunDriver for MockDriver {
    fn mount_config(&self) -> MountConfig {
        MountConfig::None
    }

    async fn start(&self, run: &Path, request: RunRequest) -> Result<RunStart, RunError> {
        let script = check(&request)?;
        let mock = match &script.start_error {
            Some(reason) => MockRun::ended(RunEnd::Failed { reason: reason.clone() }),
            None => MockRun::new(script.stdout.clone()),
        };
        let (mock, is_new) = self.find_or_insert(run, mock);
        if !is_new {
            return Ok(if mock.was_cancelled() { RunStart::Cancelled } else { RunStart::Attached });
        }
        if script.start_error.is_some() {
            return Ok(RunStart::Failed);
        }
        tokio::spawn(async move {
            let end = play(script, mock.stop.subscribe()).await;
            mock.end(end);
        });
        Ok(RunStart::Started)
    }

    async fn status(&self, run: &Path) -> Result<Option<RunStatus>, RunError> {
        let status = |mock: Arc<MockRun>| match mock.end.borrow().clone() {
            Some(end) => RunStatus::Ended(end),
            None => RunStatus::Running { pid: 0 },
        };
        Ok(self.find(run).map(status))
    }

    async fn wait(&self, run: &Path) -> Result<RunEnd, RunError> {
        let not_started = || RunError::NotStarted { run: run.to_owned() };
        let mock = self.find(run).ok_or_else(not_started)?;
        let mut end = mock.end.subscribe();
        let end = end.wait_for(Option::is_some).await;
        end.ok().and_then(|end| end.clone()).ok_or_else(not_started)
    }

    async fn stop(&self, run: &Path) -> Result<(), RunError> {
        let (mock, _) = self.find_or_insert(run, MockRun::ended(CANCELLED));
        mock.stop.send_replace(true);
        Ok(())
    }

    async fn signal(&self, run: &Path, _: i32) -> Result<bool, RunError> {
        Ok(self.find(run).is_some_and(|mock| mock.end.borrow().is_none()))
    }

    async fn kill(&self, run: &Path) -> Result<(), RunError> {
        let (mock, _) = self.find_or_insert(run, MockRun::ended(CANCELLED));
        mock.end(KILLED);
        Ok(())
    }

    /// The runs of this driver have no processes.
    async fn recover(&self, _data: &Path) -> Result<Vec<PathBuf>, RunError> {
        Ok(vec![])
    }

    async fn last_lines(
        &self,
        run: &Path,
        stream: LogStream,
        limit: usize,
    ) -> Result<Vec<String>, RunError> {
        let Some(mock) = self.find(run).filter(|_| stream == LogStream::Stdout) else {
            return Ok(vec![]);
        };
        let lines: Vec<_> = mock.stdout.lines().map(ToOwned::to_owned).collect();
        Ok(lines[lines.len().saturating_sub(limit)..].to_vec())
    }

    async fn log_files(&self, run: &Path, stream: LogStream) -> Result<Vec<LogFile>, RunError> {
        let found = self.find(run).filter(|_| stream == LogStream::Stdout);
        let file = found.map(|mock| LogFile {
            number: 0,
            size: u64::try_from(mock.stdout.len()).unwrap_or(u64::MAX),
        });
        Ok(file.into_iter().collect())
    }

    async fn read_log(
        &self,
        run: &Path,
        stream: LogStream,
        slice: LogSlice,
    ) -> Result<Vec<u8>, RunError> {
        let found = self.find(run).filter(|_| stream == LogStream::Stdout);
        let text = found.map(|mock| mock.stdout.clone()).unwrap_or_default();
        let skip = usize::try_from(slice.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(slice.limit).unwrap_or(usize::MAX);
        Ok(text.into_bytes().into_iter().skip(skip).take(limit).collect())
    }
}

/// Returns the script of a request.
fn check(request: &RunRequest) -> Result<MockScript, RunError> {
    let refused = |reason: &str| RunError::Refused {
        task: request.task.clone(),
        driver: request.config.driver(),
        reason: reason.to_owned(),
    };
    let DriverConfig::Mock(script) = &request.config else {
        return Err(refused("this is driver `mock_driver`"));
    };
    if request.mounts.is_empty() {
        return Ok(script.clone());
    }
    Err(refused("`mock_driver` runs no processes and cannot mount a volume; use driver `exec`"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::task_run::{LogLimits, TaskMount};
    use nomad_csi_model::{PropagationMode, Resources};

    fn request(script: MockScript) -> RunRequest {
        RunRequest {
            alloc: "a".into(),
            resources: Resources::default(),
            task: "web".to_owned(),
            config: DriverConfig::Mock(script),
            environment: BTreeMap::new(),
            user: None,
            mounts: vec![],
            hidden: vec![],
            kill_signal: 15,
            kill_timeout: Duration::ZERO,
            logs: LogLimits::default(),
            earlier_runs: vec![],
        }
    }

    fn script() -> MockScript {
        MockScript {
            run_for: Duration::from_secs(10),
            exit_code: 3,
            stdout: "one\ntwo\n".to_owned(),
            ..MockScript::default()
        }
    }

    const RUN: &str = "/run-1";

    async fn start(driver: &MockDriver, script: MockScript) -> RunStart {
        driver.start(Path::new(RUN), request(script)).await.unwrap()
    }

    async fn end(driver: &MockDriver) -> String {
        driver.wait(Path::new(RUN)).await.unwrap().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_runs_as_long_as_its_script_says() {
        let driver = MockDriver::default();
        let begun = tokio::time::Instant::now();
        assert_eq!(start(&driver, script()).await, RunStart::Started);
        assert_eq!(start(&driver, script()).await, RunStart::Attached);
        let status = driver.status(Path::new(RUN)).await.unwrap();
        assert_eq!(status, Some(RunStatus::Running { pid: 0 }));
        assert_eq!(end(&driver).await, "exited with status 3");
        assert_eq!(begun.elapsed(), Duration::from_secs(10));
        let lines = driver.last_lines(Path::new(RUN), LogStream::Stdout, 1);
        assert_eq!(lines.await.unwrap(), ["two"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_takes_the_time_that_the_script_says() {
        let driver = MockDriver::default();
        let slow = MockScript { kill_after: Duration::from_secs(2), ..script() };
        start(&driver, slow).await;
        let begun = tokio::time::Instant::now();
        driver.stop(Path::new(RUN)).await.unwrap();
        assert_eq!(end(&driver).await, "was killed by signal 2");
        assert_eq!(begun.elapsed(), Duration::from_secs(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_script_can_fail_in_every_way() {
        for (script, expected, reason) in [
            (
                MockScript { exit_signal: Some(11), ..script() },
                RunStart::Started,
                "was killed by signal 11",
            ),
            (
                MockScript { start_error: Some("no image".to_owned()), ..script() },
                RunStart::Failed,
                "could not be started: no image",
            ),
        ] {
            let driver = MockDriver::default();
            assert_eq!(start(&driver, script).await, expected);
            assert_eq!(end(&driver).await, reason);
        }
    }

    #[tokio::test]
    async fn a_run_that_is_stopped_before_its_start_does_not_start() {
        let driver = MockDriver::default();
        driver.stop(Path::new(RUN)).await.unwrap();
        assert_eq!(start(&driver, script()).await, RunStart::Cancelled);
        assert_eq!(end(&driver).await, "was stopped before it started");
    }

    #[tokio::test]
    async fn mounts_are_refused_in_words() {
        let mut request = request(script());
        request.mounts.push(TaskMount {
            source: "/volumes/db".into(),
            destination: "/data".into(),
            read_only: false,
            propagation: PropagationMode::Private,
            identity: None,
        });
        let driver = MockDriver::default();
        assert_eq!(driver.mount_config().as_str(), "none");
        let refused = driver.start(Path::new(RUN), request).await.unwrap_err();
        assert_eq!(
            refused.to_string(),
            "cannot start task `web` with driver `mock_driver`: `mock_driver` runs no processes and cannot mount a \
             volume; use driver `exec`"
        );
    }
}
