//! Repeats requests that the server cannot have carried out.
//!
//! A write is repeated only if the server refused it before acting on it. A read is also repeated
//! after a lost connection. The number of attempts is bounded, and the pauses between them grow,
//! with jitter, so that clients do not return all together. Pauses use tokio's clock, which tests
//! can stop.

use crate::ports::{ApiError, IdSource as _, RandomIds};
use crate::retry::{RetryPolicy, Verdict};

/// Whether a request changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It only reads.
    Read,
    /// It changes something.
    Write,
}

/// The error of one attempt, and whether the request can be repeated.
#[derive(Clone, Debug)]
pub(super) struct AttemptError {
    pub(super) error: ApiError,
    pub(super) verdict: Verdict,
}

impl AttemptError {
    pub(super) fn permanent(error: ApiError) -> Self {
        Self {
            error,
            verdict: Verdict::Permanent,
        }
    }

    /// Returns whether to repeat the request after this many attempts.
    fn may_repeat(&self, access: Access, attempts: u32) -> bool {
        let outcome_unknown = self.verdict.may_have_taken_effect();
        let is_safe = !outcome_unknown || (access == Access::Read && attempts < MAX_LOST_READS);
        self.verdict.is_retried() && is_safe && attempts < MAX_ATTEMPTS
    }
}

/// Attempts at one request: enough for a leader election or a burst of connections to end.
const MAX_ATTEMPTS: u32 = 7;

/// Attempts at a read whose connection is lost: a wrong address loses every one.
const MAX_LOST_READS: u32 = 3;

/// Sends a request until it succeeds, fails permanently, or reaches the limit of attempts.
pub(super) async fn with_retries<T, F>(
    access: Access,
    mut send: impl FnMut() -> F + Send,
) -> Result<T, ApiError>
where
    F: Future<Output = Result<T, AttemptError>> + Send,
{
    let mut attempts = 0;
    loop {
        let failed = match send().await {
            Ok(value) => return Ok(value),
            Err(failed) => failed,
        };
        attempts += 1;
        if !failed.may_repeat(access, attempts) {
            return Err(failed.error);
        }
        let pause = RetryPolicy::CLIENT.delay(attempts - 1, RandomIds.jitter());
        tracing::debug!(code = %failed.error.code, ?pause, "retrying");
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;
    use crate::diagnostic::Code;

    fn failed(verdict: Verdict) -> AttemptError {
        let error = ApiError {
            code: Code::ApiNoLeader,
            status: Some(500),
            message: "no".into(),
            help: vec![],
            notes: vec![],
            server_text: None,
        };
        AttemptError { error, verdict }
    }

    /// Counts the attempts at a request that always fails.
    async fn attempts(access: Access, verdict: Verdict) -> u32 {
        let count = AtomicU32::new(0);
        let always = || async {
            count.fetch_add(1, Relaxed);
            Err::<(), _>(failed(verdict))
        };
        assert!(with_retries(access, always).await.is_err());
        count.into_inner()
    }

    #[tokio::test(start_paused = true)]
    async fn only_requests_without_effect_are_repeated() {
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
    async fn pauses_are_bounded_and_end_with_success() {
        let start = tokio::time::Instant::now();
        assert_eq!(attempts(Access::Write, Verdict::Retry).await, 7);
        let waited = start.elapsed();
        assert!((11..24).contains(&waited.as_secs()), "{waited:?}");

        let count = AtomicU32::new(0);
        let third = with_retries(Access::Write, || async {
            match count.fetch_add(1, Relaxed) {
                2 => Ok("done"),
                _ => Err(failed(Verdict::Retry)),
            }
        });
        assert_eq!(third.await, Ok("done"));
    }
}
