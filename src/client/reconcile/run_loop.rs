//! The loop of `reconcile`: run a round, wait, and run the next one.
//!
//! Level-triggered: a round depends on nothing that an earlier round found. A blocking query makes the
//! next round come sooner. At least one round runs per interval. After a change the loop pauses briefly,
//! so that many changes make one round. After failures the pauses grow, with jitter.
//!
//! The caller provides the round. When the loop is stopped, a running round ends first.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ports::{VolumeQuery, VolumeWatch, WatchRequest};
use nomad_csi_model::Namespace;
use nomad_csi_ports::IdSource;

/// The shortest pause between two rounds.
const SETTLE: Duration = Duration::from_secs(2);
/// The longest pause after failures, unless the interval is longer.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// The round succeeded.
    Done,
    /// The round failed.
    Failed,
}

/// Why a round runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is the first round.
    Start,
    /// Something changed on the server.
    Change,
    /// The interval passed.
    Period,
    /// The round before failed.
    Retry,
}

impl Cause {
    /// Returns the word for logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Change => "change",
            Self::Period => "period",
            Self::Retry => "retry",
        }
    }
}

/// Runs rounds until `stop` is cancelled.
pub async fn run_loop(
    watch: &dyn VolumeWatch,
    interval: Duration,
    ids: &dyn IdSource,
    stop: &CancellationToken,
    mut round: impl AsyncFnMut(Cause) -> RoundEnd,
) {
    let mut watching = ChangeWatch::default();
    let mut failures = 0;
    let mut cause = Cause::Start;
    while !stop.is_cancelled() {
        // Watch from before the round, so that no change during the round is missed.
        tokio::select! {
            () = stop.cancelled() => return,
            () = watching.begin(watch, interval) => {}
        }
        let ended = round(cause).await;
        let now = Instant::now();
        failures = match ended {
            RoundEnd::Done => 0,
            RoundEnd::Failed => failures + 1,
        };
        let pause = pause(failures, interval, ids.jitter());
        let next = async {
            if failures > 0 {
                sleep_until(now + pause).await;
                return Cause::Retry;
            }
            tokio::select! {
                () = sleep_until(now + pause) => Cause::Period,
                () = watching.change(watch, interval) => {
                    sleep_until(now + SETTLE.min(pause)).await;
                    Cause::Change
                }
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            next = next => cause = next,
        }
    }
}

/// Returns the interval. After failures it doubles each time, up to five minutes, with 20% jitter.
fn pause(failures: u32, interval: Duration, jitter: f64) -> Duration {
    if failures == 0 {
        return interval;
    }
    let longest = LONGEST.max(interval);
    let doubled = interval.saturating_mul(1 << failures.min(10).saturating_sub(1));
    doubled.min(longest).mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

/// The state of the watch for changes.
#[derive(Default)]
struct ChangeWatch {
    /// The index to watch from. `None` if the server cannot be watched.
    index: Option<u64>,
}

impl ChangeWatch {
    fn query() -> VolumeQuery {
        VolumeQuery {
            namespace: Namespace::new(Namespace::ALL),
            prefix: None,
            plugin: None,
            filter: None,
        }
    }

    /// Reads the index to watch from, unless it is known, within one interval.
    async fn begin(&mut self, watch: &dyn VolumeWatch, interval: Duration) {
        if self.index.is_some() {
            return;
        }
        let query = Self::query();
        let wait = WatchRequest { index: None, max_wait: interval };
        let asked = tokio::time::timeout(interval, watch.watch_volumes(&query, wait));
        self.index = match asked.await {
            Ok(Ok(answer)) => Some(answer.index),
            Ok(Err(error)) => {
                tracing::debug!(error = %error, "cannot watch for changes; rounds follow the interval");
                None
            }
            Err(_) => None,
        };
    }

    /// Waits until something changes. Never returns if the server cannot be watched.
    async fn change(&mut self, watch: &dyn VolumeWatch, interval: Duration) {
        let query = Self::query();
        while let Some(index) = self.index {
            let wait = WatchRequest { index: Some(index), max_wait: interval };
            let asked = Instant::now();
            match watch.watch_volumes(&query, wait).await {
                Ok(answer) => {
                    self.index = Some(answer.index);
                    if answer.changed {
                        return;
                    }
                    // A server that replies immediately is not queried in a tight loop.
                    sleep_until(asked + SETTLE).await;
                }
                Err(error) => {
                    tracing::debug!(error = %error, "watching for changes failed; rounds follow the interval");
                    self.index = None;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
