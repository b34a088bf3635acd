//! Sending again what certainly did nothing.
//!
//! A write that may have been sent is never repeated (`nomad-http-api` 10.1 point 11): only what a
//! server refused before it looked is, and reads also after a connection was lost. The number of
//! attempts is bounded; pauses grow, with chance in them, so that many clients do not come back at
//! once. Waiting is tokio's, so that tests can pause it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use backon::{ExponentialBuilder, Retryable as _};

use crate::ports::ApiError;
use crate::retry::Verdict;

/// Whether a request changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It only looks.
    Read,
    /// It changes something.
    Write,
}

/// A failure, and whether the request may be sent again.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub(super) error: ApiError,
    pub(super) verdict: Verdict,
}

impl Failed {
    pub(super) fn for_good(error: ApiError) -> Self {
        Self {
            error,
            verdict: Verdict::Permanent,
        }
    }

    /// Whether to send it again after so many attempts.
    fn may_repeat(&self, access: Access, attempts: u32) -> bool {
        let uncertain = self.verdict.may_have_happened();
        let harmless = !uncertain || (access == Access::Read && attempts < LOST);
        self.verdict.is_repeated() && harmless
    }
}

/// Six pauses, about 0.2, 0.4, 0.8, 1.6, 3.2 and 5 seconds and up to as much again: an election of
/// a leader, or a rush of connections, is mostly over by then.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(200))
    .with_max_delay(Duration::from_secs(5))
    .with_max_times(6)
    .with_jitter();

/// A read whose connection was lost is attempted so often: an address that is no server's loses
/// every one, and should not take long to say so.
const LOST: u32 = 3;

/// Attempts something until it succeeds, fails for good, or has been tried often enough.
pub(super) async fn attempt<T, F>(
    access: Access,
    mut once: impl FnMut() -> F + Send,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, Failed>> + Send,
{
    let attempts = AtomicU32::new(0);
    let counted = || {
        attempts.fetch_add(1, Relaxed);
        once()
    };
    counted
        .retry(PAUSES)
        .sleep(tokio::time::sleep)
        .when(|failed: &Failed| failed.may_repeat(access, attempts.load(Relaxed)))
        .notify(|failed: &Failed, pause| {
            tracing::debug!(code = %failed.error.code, ?pause, "will be sent again");
        })
        .await
        .map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;

    fn failed(verdict: Verdict) -> Failed {
        let error = ApiError {
            code: Code::ApiNoLeader,
            status: Some(500),
            message: "no".into(),
            help: vec![],
            server_text: None,
        };
        Failed { error, verdict }
    }

    /// How often something is attempted that always fails so.
    async fn attempts(access: Access, verdict: Verdict) -> u32 {
        let count = AtomicU32::new(0);
        let always = || async {
            count.fetch_add(1, Relaxed);
            Err::<(), _>(failed(verdict))
        };
        assert!(attempt(access, always).await.is_err());
        count.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_did_nothing_is_sent_again() {
        for (access, verdict, expected) in [
            (Access::Read, Verdict::Permanent, 1),
            (Access::Write, Verdict::Permanent, 1),
            (Access::Read, Verdict::RetryUnknownOutcome, 3),
            (Access::Write, Verdict::RetryUnknownOutcome, 1),
            (Access::Read, Verdict::Retry, 7),
            (Access::Write, Verdict::Retry, 7),
        ] {
            assert_eq!(
                attempts(access, verdict).await,
                expected,
                "{access:?} {verdict:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_are_bounded_and_a_success_ends_them() {
        let start = tokio::time::Instant::now();
        assert_eq!(attempts(Access::Write, Verdict::Retry).await, 7);
        let waited = start.elapsed();
        assert!((11..24).contains(&waited.as_secs()), "{waited:?}");

        let count = AtomicU32::new(0);
        let third = attempt(Access::Write, || async {
            match count.fetch_add(1, Relaxed) {
                2 => Ok("done"),
                _ => Err(failed(Verdict::Retry)),
            }
        });
        assert_eq!(third.await, Ok("done"));
    }
}
