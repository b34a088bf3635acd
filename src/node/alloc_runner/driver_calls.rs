//! The calls of a task's driver, repeated until the driver knows.
//!
//! A start that failed is stopped before the next one: a part of it could still become the task.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::task_runner::{RunOutcome, TaskRunner};
use crate::ports::{RunEnd, RunError, RunRequest, RunStart};
use crate::retry::RetryPolicy;

/// The pauses between calls of the driver that fail.
const RETRY: RetryPolicy = RetryPolicy {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};
/// How often a start is tried before it counts as a failed run.
const START_ATTEMPTS: u32 = 3;

impl TaskRunner {
    /// Starts a run. Returns its outcome if it has no end that can be waited for.
    pub(super) async fn start_run(&self, run: &Path, request: RunRequest) -> Option<RunOutcome> {
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
        self.repeat("stop", async || self.driver.stop(run).await)
            .await;
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

    pub(super) fn warn(&self, action: &str, error: &dyn std::fmt::Display) {
        let directory = self.directory.path().display();
        tracing::warn!(%directory, %error, "cannot {action} the task; trying again");
    }
}
