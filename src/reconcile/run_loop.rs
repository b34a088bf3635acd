//! The loop of `reconcile`: look, act if that is wanted, wait, and look again.
//!
//! Level-triggered: a round reads everything anew and depends on nothing that an earlier one found. A
//! blocking query only makes the next round come sooner; one that ends for nothing costs a look, and
//! one that cannot be had costs promptness, since a round comes at least once in every interval
//! whatever happens. After a change nothing is done for a moment, so that a hundred changes make one
//! round. When rounds fail, the pauses grow, so that a server that comes back is not met by everybody
//! at once.
//!
//! Decided here is only when; what a round is, the caller says. Ends when it is told to stop: a round
//! that runs is waited for, and ends what it began.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::model::Namespace;
use crate::ports::{IdSource, VolumeQuery, VolumeWatch, WatchRequest};

/// The pause between two rounds, however much changes.
const SETTLE: Duration = Duration::from_secs(2);
/// The longest pause after failures, unless the interval is longer.
const LONGEST: Duration = Duration::from_secs(5 * 60);

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundEnd {
    /// Everything that was to be known is known.
    Done,
    /// Something could not be found out or done.
    Failed,
}

/// Why a round is begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is the first.
    Start,
    /// The server says that something changed.
    Change,
    /// The interval is over.
    Period,
    /// The one before failed.
    Retry,
}

impl Cause {
    /// Its word in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Change => "change",
            Self::Period => "period",
            Self::Retry => "retry",
        }
    }
}

/// Runs rounds until it is told to stop.
pub async fn run_loop(
    watch: &dyn VolumeWatch,
    interval: Duration,
    ids: &dyn IdSource,
    stop: &CancellationToken,
    mut round: impl AsyncFnMut(Cause) -> RoundEnd,
) {
    let mut watching = Watching::default();
    let mut failures = 0;
    let mut cause = Cause::Start;
    while !stop.is_cancelled() {
        // From before the round on, so that nothing is missed that changes meanwhile.
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

/// The interval, and after failures twice as long each time, up to five minutes; a fifth shorter or
/// longer by chance.
fn pause(failures: u32, interval: Duration, jitter: f64) -> Duration {
    if failures == 0 {
        return interval;
    }
    let longest = LONGEST.max(interval);
    let doubled = interval.saturating_mul(1 << failures.min(10).saturating_sub(1));
    doubled
        .min(longest)
        .mul_f64(0.8 + 0.4 * jitter.clamp(0.0, 1.0))
}

/// From where changes are waited for.
#[derive(Default)]
struct Watching {
    /// `None` where the server cannot be asked: then the period alone decides.
    index: Option<u64>,
}

impl Watching {
    fn query() -> VolumeQuery {
        VolumeQuery {
            namespace: Namespace::new(Namespace::ALL),
            prefix: None,
            plugin: None,
        }
    }

    /// Learns where the server is, unless that is known; for no longer than an interval.
    async fn begin(&mut self, watch: &dyn VolumeWatch, interval: Duration) {
        if self.index.is_some() {
            return;
        }
        let query = Self::query();
        let wait = WatchRequest {
            index: None,
            max_wait: interval,
        };
        let asked = tokio::time::timeout(interval, watch.watch_volumes(&query, wait));
        self.index = match asked.await {
            Ok(Ok(answer)) => Some(answer.index),
            Ok(Err(error)) => {
                tracing::debug!(error = %error, "changes cannot be waited for; the interval decides");
                None
            }
            Err(_) => None,
        };
    }

    /// Waits until something changed; for ever where that cannot be known.
    async fn change(&mut self, watch: &dyn VolumeWatch, interval: Duration) {
        let query = Self::query();
        while let Some(index) = self.index {
            let wait = WatchRequest {
                index: Some(index),
                max_wait: interval,
            };
            let asked = Instant::now();
            match watch.watch_volumes(&query, wait).await {
                Ok(answer) => {
                    self.index = Some(answer.index);
                    if answer.changed {
                        return;
                    }
                    // A server that does not wait is not asked in a circle.
                    sleep_until(asked + SETTLE).await;
                }
                Err(error) => {
                    tracing::debug!(error = %error, "waiting for changes failed; the interval decides");
                    self.index = None;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
