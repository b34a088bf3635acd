//! One run of a task, as the runner of the task sees it: started, waited for, stopped.
//!
//! A stop is passed on to the driver, also while the run starts. When the driver fails, it is asked again, because
//! nothing else knows whether a process of the task is left.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::super::plugin_tasks::PluginSupervision;
use super::super::process_run::ProcessRun;
use super::run_outcome::RunOutcome;
use super::task_events::Occurrence;
use super::task_runner::TaskRunner;
use crate::task_run::{RunEnd, RunError, RunRequest, RunStart};
use nomad_csi_model::retry::RetryPolicy;

/// The pauses between calls of the driver that fail.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
/// How often a start is tried before it counts as a failed run.
const START_ATTEMPTS: u32 = 3;

/// Why an operator's request ends a run, in the events of the task.
const RESTART_REQUESTED: &str = "an operator requested a restart";

/// Why a run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StopCause {
    /// The task stops for good.
    Stopped,
    /// Its plugin has failed, or a volume is lost.
    GivenUp,
    /// An operator restarts the task.
    Restarted,
}

impl TaskRunner {
    /// Starts a run if it has a request, and waits for its end. A stop is passed on to it. A plugin that does not become
    /// healthy is stopped, and so is a run that has lost a volume.
    pub(super) async fn observe(
        &self,
        number: u32,
        request: Option<RunRequest>,
        plugin: &mut Option<PluginSupervision>,
    ) -> RunOutcome {
        self.update(|task, _| task.has_run = true);
        let outcome = self.observe_run(number, request, plugin).await;
        self.update(|task, _| task.has_run = false);
        outcome
    }

    async fn observe_run(
        &self,
        number: u32,
        request: Option<RunRequest>,
        plugin: &mut Option<PluginSupervision>,
    ) -> RunOutcome {
        let run = self.directory.run(number);
        // A request for an earlier run.
        self.restart.forget_request();
        let process = match plugin {
            Some(plugin) => plugin.begin_run(&self.directory, number).await,
            None => ProcessRun::default(),
        };
        let started = CancellationToken::new();
        let mut running = std::pin::pin!(self.start_and_wait_or_kill(&run, request, &started));
        let cause = tokio::select! {
            biased;
            () = self.stop.cancelled() => StopCause::Stopped,
            () = self.watch_plugin(plugin.as_mut(), &process, &started) => StopCause::GivenUp,
            () = self.volume_lost() => StopCause::GivenUp,
            () = self.restart.requested() => {
                self.update(|task, now| {
                    task.push(&Occurrence::RestartSignaled(RESTART_REQUESTED), now);
                });
                StopCause::Restarted
            }
            outcome = &mut running => {
                process.end().await;
                return outcome;
            }
        };
        if let Some(plugin) = plugin.as_ref().filter(|_| cause == StopCause::Stopped) {
            tokio::select! {
                () = plugin.wait_for_successor() => {}
                outcome = &mut running => {
                    process.end().await;
                    return as_stopped(outcome, cause);
                }
            }
        }
        let timeout = self.kill_timeout();
        if let Some(plugin) = plugin {
            tokio::select! {
                () = plugin.finish_calls(&process, timeout) => {}
                outcome = &mut running => {
                    process.end().await;
                    return as_stopped(outcome, cause);
                }
            }
        }
        self.update(|task, now| task.push(&Occurrence::Killing { timeout }, now));
        let outcome = self.stop_run(&run, running).await;
        process.end().await;
        as_stopped(outcome, cause)
    }

    /// Stops a run, and returns how it ends.
    async fn stop_run(
        &self,
        run: &Path,
        mut running: Pin<&mut impl Future<Output = RunOutcome>>,
    ) -> RunOutcome {
        let stopped = self.repeat("stop", async || self.driver.stop(run).await);
        tokio::select! {
            outcome = &mut running => return outcome,
            () = stopped => {}
        }
        running.await
    }

    /// Like [`Self::start_and_wait`]. The run is killed when an operator cuts the task off from a volume, whatever else
    /// goes on: it may already be asked to stop.
    async fn start_and_wait_or_kill(
        &self,
        run: &Path,
        request: Option<RunRequest>,
        started: &CancellationToken,
    ) -> RunOutcome {
        let mut waiting = std::pin::pin!(self.start_and_wait(run, request, started));
        tokio::select! {
            biased;
            () = self.cut_off() => {}
            outcome = &mut waiting => return outcome,
        }
        let killed = self.repeat("kill", async || self.driver.kill(run).await);
        tokio::select! {
            outcome = &mut waiting => return outcome,
            () = killed => {}
        }
        waiting.await
    }

    async fn start_and_wait(
        &self,
        run: &Path,
        request: Option<RunRequest>,
        started: &CancellationToken,
    ) -> RunOutcome {
        match request {
            Some(request) => {
                if let Some(outcome) = self.start_run(run, request).await {
                    return outcome;
                }
            }
            None => self.show_start(false),
        }
        started.cancel();
        match self.repeat_wait(run).await {
            Some(end) => RunOutcome::Ended(end),
            None => RunOutcome::NeverStarted,
        }
    }

    /// Starts a run. Returns its outcome if it has no end that can be waited for.
    async fn start_run(&self, run: &Path, request: RunRequest) -> Option<RunOutcome> {
        let mut attempt = 0;
        let error = loop {
            match self.driver.start(run, request.clone()).await {
                Ok(RunStart::Started) => {
                    self.show_start(true);
                    return None;
                }
                Ok(RunStart::Attached) => {
                    self.show_start(false);
                    return None;
                }
                Ok(RunStart::Cancelled | RunStart::Failed) => return None,
                Err(RunError::Refused { reason, .. }) => return Some(RunOutcome::Refused(reason)),
                Err(error) if self.stop.is_cancelled() || attempt + 1 >= START_ATTEMPTS => {
                    break error;
                }
                Err(error) => self.warn("start", &error),
            }
            let pause = RETRY.delay(attempt, 1.0);
            let _is_stopped = timeout(pause, self.stop.cancelled()).await.is_ok();
            attempt += 1;
        };
        // Otherwise a part of the failed start could still become the task, beside the next run.
        self.repeat("stop", async || self.driver.stop(run).await).await;
        let end = self.repeat_wait(run).await;
        let reason = error.to_string();
        Some(RunOutcome::Ended(end.unwrap_or(RunEnd::Failed { reason })))
    }

    /// Waits for the end of a run; `None` if it was never started.
    pub(super) async fn repeat_wait(&self, run: &Path) -> Option<RunEnd> {
        let end = self.repeat("wait for", async || match self.driver.wait(run).await {
            Err(RunError::NotStarted { .. }) => Ok(None),
            Ok(end) => Ok(Some(end)),
            Err(error) => Err(error),
        });
        end.await
    }

    /// Repeats a call until it succeeds.
    pub(super) async fn repeat<T, E: std::fmt::Display, F: Future<Output = Result<T, E>>>(
        &self,
        action: &str,
        mut call: impl FnMut() -> F,
    ) -> T {
        let mut attempt = 0;
        loop {
            match call().await {
                Ok(value) => return value,
                Err(error) => self.warn(action, &error),
            }
            sleep(RETRY.delay(attempt, 1.0)).await;
            attempt += 1;
        }
    }

    /// Logs that a call failed.
    pub(super) fn warn(&self, action: &str, error: &dyn std::fmt::Display) {
        let directory = self.directory.path().display();
        tracing::warn!(%directory, %error, "cannot {action} the task; trying again");
    }
}

/// Returns the outcome of a run that was stopped for this cause.
fn as_stopped(outcome: RunOutcome, cause: StopCause) -> RunOutcome {
    match outcome {
        RunOutcome::Ended(end) => match cause {
            StopCause::Stopped => RunOutcome::Stopped(end),
            StopCause::GivenUp => RunOutcome::GivenUp(end),
            StopCause::Restarted => RunOutcome::Restarted(end),
        },
        RunOutcome::GivenUp(_)
        | RunOutcome::Restarted(_)
        | RunOutcome::Stopped(_)
        | RunOutcome::NeverStarted
        | RunOutcome::Refused(_) => outcome,
    }
}
