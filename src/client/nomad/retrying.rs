//! Repeats requests that the server cannot have carried out.
//!
//! A write is repeated only if the server refused it before acting on it. A read is also repeated
//! after a lost connection. Attempts go on for a limited time, and the pauses between them grow, with
//! jitter, so that clients do not return all together. If the server stops responding, requests wait
//! together ([`Outage`]). A server that has not responded yet may be a wrong address: then a refused
//! connection is not repeated, and a lost one only twice. Pauses use tokio's clock, which tests can stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::outage::{DEFAULT_WAIT, Outage};
use super::read_gate::ReadGate;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::retry::{RetryPolicy, Verdict};
use nomad_csi_ports::{IdSource as _, RandomIds};

/// The effect of a request: it reads, or it changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// It only reads.
    Read,
    /// It changes something.
    Write,
    /// It changes a volume that was read right before. It is not sent much later than that.
    VolumeWrite,
}

/// The error of one attempt, and whether the request can be repeated.
#[derive(Clone, Debug)]
pub(super) struct AttemptError {
    pub(super) error: ApiError,
    pub(super) verdict: Verdict,
}

impl AttemptError {
    pub(super) fn permanent(error: ApiError) -> Self {
        Self { error, verdict: Verdict::Permanent }
    }

    /// Returns whether to repeat the request after these attempts.
    fn may_repeat(&self, access: Access, attempts: &Attempts) -> bool {
        match self.verdict {
            Verdict::Retry | Verdict::RetryBriefly => true,
            Verdict::RetryLater => attempts.server_is_known,
            Verdict::RetryUnknownOutcome => {
                let few = attempts.count < MAX_FIRST_READS;
                access == Access::Read && (few || attempts.server_is_known)
            }
            Verdict::AlreadyDone | Verdict::FailedUnknownOutcome | Verdict::Permanent => false,
        }
    }

    /// Returns the error. A server that responded before has a right address, so its limit is named.
    fn explained(self, server_is_known: bool) -> ApiError {
        let is_lost = self.error.code == Code::ApiConnectionLost && self.error.status.is_none();
        let help = match server_is_known && is_lost {
            true => vec![CONNECTION_LIMIT_HELP.to_owned()],
            false => self.error.help,
        };
        ApiError { help, ..self.error }
    }

    /// Returns whether the server did not respond.
    fn is_silence(&self) -> bool {
        matches!(self.verdict, Verdict::RetryLater | Verdict::RetryUnknownOutcome)
    }

    /// Returns whether fewer connections may help.
    fn is_overload(&self) -> bool {
        match self.verdict {
            Verdict::RetryUnknownOutcome => true,
            Verdict::Retry | Verdict::RetryBriefly => self.error.status == Some(429),
            Verdict::AlreadyDone
            | Verdict::RetryLater
            | Verdict::FailedUnknownOutcome
            | Verdict::Permanent => false,
        }
    }
}

/// The attempts at one request.
struct Attempts {
    /// The begin of the first one, later by the time of waits for the server.
    start: Instant,
    count: u32,
    /// True if the server has responded in this session.
    server_is_known: bool,
}

impl Attempts {
    fn begin() -> Self {
        Self { start: Instant::now(), count: 0, server_is_known: false }
    }
}

const CONNECTION_LIMIT_HELP: &str = "run fewer commands at this address: Nomad allows 100 \
    connections per client address (`limits.http_max_conns_per_client`), which all programs share";

/// The time in which attempts at a request start that changes a volume: shorter than a set's lock lives.
const VOLUME_WRITE_BUDGET: Duration = Duration::from_secs(5);

/// Attempts at a read whose connection is lost before the server has responded at all.
const MAX_FIRST_READS: u32 = 3;

/// The state that the requests of a session share.
#[derive(Debug, Default)]
pub(super) struct Retrying {
    pub(super) reads: ReadGate,
    outage: Outage,
    is_known: AtomicBool,
}

impl Retrying {
    /// Requests that wait for the server in this way.
    pub(super) fn new(outage: Outage) -> Self {
        Self { outage, ..Self::default() }
    }

    /// Sends a request until it succeeds, fails permanently, or the time is over. `probe` returns whether
    /// the server responds.
    pub(super) async fn send<T, F, P>(
        &self,
        access: Access,
        mut send: impl FnMut() -> F + Send,
        probe: impl Fn() -> P + Send,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, AttemptError>> + Send,
        P: Future<Output = bool> + Send,
    {
        let mut attempts = Attempts::begin();
        loop {
            let failed = match self.outage.attend(send(), &probe).await {
                Ok(value) => {
                    self.note_response();
                    if access == Access::Read {
                        self.reads.note_answer();
                    }
                    return Ok(value);
                }
                Err(failed) => failed,
            };
            self.note_failure(&failed);
            attempts.count += 1;
            attempts.server_is_known = self.is_known.load(Ordering::Relaxed);
            let is_repeated = failed.may_repeat(access, &attempts)
                && self.pause(access, &failed, &mut attempts, &probe).await;
            if !is_repeated {
                return Err(failed.explained(attempts.server_is_known));
            }
        }
    }

    /// Waits until a failed request may be sent again. Returns `false` if the time for that is over.
    async fn pause<P: Future<Output = bool> + Send>(
        &self,
        access: Access,
        failed: &AttemptError,
        attempts: &mut Attempts,
        probe: &impl Fn() -> P,
    ) -> bool {
        // One lost connection may be one too many. A second failure, or that of others, is an outage.
        let is_outage = failed.is_silence() && (attempts.count > 1 || self.outage.is_away());
        if is_outage && attempts.server_is_known && access != Access::VolumeWrite {
            let waiting = Instant::now();
            if !self.outage.wait(&failed.error, probe).await {
                return false;
            }
            attempts.start += waiting.elapsed();
        }
        let pause = RetryPolicy::CLIENT.delay(attempts.count - 1, RandomIds.jitter());
        let is_too_late = attempts.start.elapsed() + pause > self.budget(access, failed.verdict);
        // A blocking query may have waited for longer than that.
        if is_too_late && attempts.count >= MAX_FIRST_READS {
            return false;
        }
        tracing::debug!(code = %failed.error.code, ?pause, "retrying");
        tokio::time::sleep(pause).await;
        true
    }

    /// Returns whether the server stopped responding, and responded again.
    pub(super) fn has_recovered(&self) -> bool {
        self.outage.has_recovered()
    }

    /// Records what a failure says about the server.
    fn note_failure(&self, failed: &AttemptError) {
        if failed.error.status.is_some_and(|status| status < 500) {
            self.note_response();
        }
        if failed.is_overload() {
            self.reads.shrink();
        }
    }

    /// Records that the server responded.
    fn note_response(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.outage.end();
    }

    /// Returns the time in which attempts at one request start.
    fn budget(&self, access: Access, verdict: Verdict) -> Duration {
        if access == Access::VolumeWrite && verdict == Verdict::RetryLater {
            VOLUME_WRITE_BUDGET
        } else {
            self.outage.timeout().max(DEFAULT_WAIT)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use super::*;

    fn failed(verdict: Verdict) -> AttemptError {
        let error = ApiError::new(Code::ApiNoLeader, "no").status(500);
        AttemptError { error, verdict }
    }

    /// Counts the attempts at a request that always fails, and the probes of a server that is away.
    async fn attempts(access: Access, verdict: Verdict, is_known: bool) -> (u32, u32) {
        let (count, probes) = (AtomicU32::new(0), AtomicU32::new(0));
        let always = || async {
            count.fetch_add(1, Relaxed);
            Err::<(), _>(failed(verdict))
        };
        let away = || async {
            probes.fetch_add(1, Relaxed);
            false
        };
        let retrying = Retrying::default();
        retrying.is_known.store(is_known, Relaxed);
        let start = Instant::now();
        assert!(retrying.send(access, always, away).await.is_err());
        assert!(start.elapsed() <= DEFAULT_WAIT + Duration::from_secs(1));
        (count.into_inner(), probes.into_inner())
    }

    /// In 30 seconds there are at least six pauses and at most nine; in five at least three.
    #[tokio::test(start_paused = true)]
    async fn only_requests_without_effect_are_repeated() {
        use Verdict::{Permanent, Retry, RetryLater, RetryUnknownOutcome};
        for (access, verdict, is_known, expected, probes) in [
            (Access::Read, Permanent, true, 1..=1, 0..=0),
            (Access::Write, Permanent, true, 1..=1, 0..=0),
            (Access::Read, RetryUnknownOutcome, false, 3..=3, 0..=0),
            (Access::Read, RetryUnknownOutcome, true, 2..=2, 7..=11),
            (Access::Write, RetryUnknownOutcome, true, 1..=1, 0..=0),
            (Access::Read, RetryLater, false, 1..=1, 0..=0),
            (Access::Write, RetryLater, false, 1..=1, 0..=0),
            (Access::Write, RetryLater, true, 2..=2, 7..=11),
            (Access::VolumeWrite, RetryLater, true, 4..=6, 0..=0),
            (Access::Read, Retry, false, 7..=10, 0..=0),
            (Access::VolumeWrite, Retry, false, 7..=10, 0..=0),
        ] {
            let (count, probed) = attempts(access, verdict, is_known).await;
            assert!(
                expected.contains(&count) && probes.contains(&probed),
                "{access:?} {verdict:?} {is_known}: {count} {probed}"
            );
        }
    }

    /// A server that responds to others closes the connections of this request, as Nomad's limit does.
    #[tokio::test(start_paused = true)]
    async fn a_lost_request_is_repeated_while_the_server_responds_to_probes() {
        let count = AtomicU32::new(0);
        let always = || async {
            count.fetch_add(1, Relaxed);
            Err::<(), _>(failed(Verdict::RetryUnknownOutcome))
        };
        let retrying = Retrying::default();
        retrying.is_known.store(true, Relaxed);
        let sent = retrying.send(Access::Read, always, responds);
        assert!(sent.await.is_err());
        assert!((7..=10).contains(&count.into_inner()));
    }

    async fn responds() -> bool {
        true
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_with_success() {
        let count = AtomicU32::new(0);
        let retrying = Retrying::default();
        let request = || async {
            match count.fetch_add(1, Relaxed) {
                2 => Ok("done"),
                _ => Err(failed(Verdict::Retry)),
            }
        };
        let third = retrying.send(Access::Write, request, responds);
        assert_eq!(third.await, Ok("done"));
        assert!(retrying.is_known.into_inner());
    }

    #[tokio::test(start_paused = true)]
    async fn lost_connections_leave_fewer_reads_at_a_time() {
        let retrying = Retrying::default();
        let before = retrying.reads.limit();
        let lost = || async { Err::<(), _>(failed(Verdict::RetryUnknownOutcome)) };
        assert!(retrying.send(Access::Read, lost, responds).await.is_err());
        assert_eq!(retrying.reads.limit(), before / 8, "three attempts");
        for (access, expected) in [(Access::Write, 2), (Access::Read, 5)] {
            for _ in 0..9 {
                let answered = retrying.send(access, || async { Ok(()) }, responds);
                assert_eq!(answered.await, Ok(()));
            }
            assert_eq!(retrying.reads.limit(), expected, "{access:?}");
        }
    }
}
