//! One controller call with all its attempts: the only loop over the controllers of a plugin.
//!
//! A call that changes something is never cancelled while the plugin may work on it. One that hangs gives its permit
//! back, so that other volumes need not wait for it. At the deadline the client gets an error, and the
//! late answer still counts. After a call that may have been sent, no other instance is called.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use super::forward_error::{ForwardError, ForwardOutcome};
use super::plugin_call_queues::CallPermit;
use nomad_csi_model::AllocId;
use nomad_csi_model::retry::{RetryPolicy, Verdict};
use nomad_csi_ports::{IdSource, PluginError, Rpc, StatusCode};

/// The limits of controller calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardLimits {
    /// Pauses between attempts.
    pub policy: RetryPolicy,
    /// How long a call without an answer keeps its permit. Then it hangs, and other calls of its class go on.
    pub hung_after: Duration,
    /// When the client gets an answer, retries included.
    pub deadline: Duration,
}

impl ForwardLimits {
    /// How long a call without an answer keeps its permit.
    pub const HUNG_AFTER: Duration = Duration::from_secs(15);
}

impl Default for ForwardLimits {
    /// As long as external-attacher waits for an attempt, and five minutes for a request.
    fn default() -> Self {
        Self {
            policy: RetryPolicy::CONTROLLER,
            hung_after: Self::HUNG_AFTER,
            deadline: Duration::from_secs(300),
        }
    }
}

/// The handling of a call that is not answered in time.
#[derive(Clone, Copy)]
pub(super) enum OnDeadline<'a> {
    /// It has no effect, so it is cancelled.
    Cancel,
    /// It may still take effect, so its answer is awaited.
    Await {
        /// The permit of the call.
        permit: &'a CallPermit,
        /// Gets the failure that the client is answered with.
        report: &'a (dyn Fn(ForwardError) + Send + Sync),
    },
}

/// One call with its attempts.
pub(super) struct RepeatedCall<'a> {
    rpc: Rpc,
    allocs: &'a [AllocId],
    limits: ForwardLimits,
    deadline: Instant,
    late: OnDeadline<'a>,
    progress: CallProgress,
}

/// The results of the attempts so far.
#[derive(Default)]
struct CallProgress {
    /// The instance that may have the call, or its effect. No other instance is called.
    bound_to: Option<AllocId>,
    last: Option<PluginError>,
    /// How often the plugin had no room for the call.
    exhausted: u32,
}

/// How often a call is repeated that the plugin has no room for: a limit of rate is over then, and a full pool is
/// reported.
const EXHAUSTED_RETRIES: u32 = 5;

/// The end of one attempt.
enum Attempt<T> {
    NotSent,
    Answered(Result<T, PluginError>),
    /// The call was cancelled at the deadline.
    Cancelled,
}

/// The step after a failed attempt.
enum RetryAction {
    /// Return the error.
    GiveUp,
    /// The instance is unreachable: call the next one immediately.
    TryNextInstance,
    /// Pause, then start again with the first instance.
    Pause,
}

impl<'a> RepeatedCall<'a> {
    /// A call to these instances, whose deadline counts from now.
    pub(super) fn new(
        rpc: Rpc,
        allocs: &'a [AllocId],
        limits: ForwardLimits,
        late: OnDeadline<'a>,
    ) -> Self {
        Self {
            rpc,
            allocs,
            limits,
            deadline: Instant::now() + limits.deadline,
            late,
            progress: CallProgress::default(),
        }
    }

    /// Repeats `attempt`, which returns `None` if the instance has no connection.
    ///
    /// # Errors
    /// With the last answer and the known effect.
    pub(super) async fn run<T, F, A>(
        mut self,
        attempt: F,
        ids: &dyn IdSource,
    ) -> Result<T, ForwardError>
    where
        F: Fn(AllocId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        let mut pass = 0_u32;
        loop {
            if let Some(end) = self.one_pass(&attempt).await {
                return end;
            }
            let pause = self.limits.policy.delay(pass, ids.jitter());
            if !self.wait_for_next_pass(pause).await {
                return Err(self.timed_out());
            }
            pass = pass.saturating_add(1);
        }
    }

    /// Returns whether there is time for another pass.
    async fn wait_for_next_pass(&self, pause: Duration) -> bool {
        let ready = async {
            tokio::time::sleep(pause).await;
            if let OnDeadline::Await { permit, .. } = self.late {
                permit.reacquire().await;
            }
        };
        timeout_at(self.deadline, ready).await.is_ok() && Instant::now() < self.deadline
    }

    /// Calls the instances in order. Returns `None` if they must be called again after a pause.
    async fn one_pass<T, F, A>(&mut self, attempt: &F) -> Option<Result<T, ForwardError>>
    where
        F: Fn(AllocId) -> A + Send + Sync,
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
        T: Send,
    {
        for alloc in self.allocs {
            if self.progress.bound_to.as_ref().is_some_and(|bound| bound != alloc) {
                continue;
            }
            let error = match self.answer(alloc, attempt(alloc.clone())).await {
                Attempt::NotSent => continue,
                Attempt::Answered(Ok(value)) => return Some(Ok(value)),
                Attempt::Answered(Err(error)) => error,
                Attempt::Cancelled => return Some(Err(self.timed_out())),
            };
            self.note_failure(alloc, &error);
            match self.progress.retry_action(&error) {
                RetryAction::GiveUp => {
                    let outcome = self.outcome();
                    return Some(Err(ForwardError::Failed { error, outcome }));
                }
                RetryAction::TryNextInstance => {}
                RetryAction::Pause => return None,
            }
        }
        None
    }

    /// Waits for the answer: at most until the deadline for a call that changes nothing, and until the
    /// call ends for others.
    async fn answer<T, A>(&self, alloc: &AllocId, attempt: A) -> Attempt<T>
    where
        A: Future<Output = Option<Result<T, PluginError>>> + Send,
    {
        let answer = match self.late {
            OnDeadline::Cancel => match timeout_at(self.deadline, attempt).await {
                Ok(answer) => answer,
                Err(_) => return Attempt::Cancelled,
            },
            OnDeadline::Await { permit, report } => {
                let mut attempt = pin!(attempt);
                let overdue = self.while_overdue(alloc, permit, report);
                tokio::select! {
                    biased;
                    answer = &mut attempt => answer,
                    () = overdue => attempt.await,
                }
            }
        };
        answer.map_or(Attempt::NotSent, Attempt::Answered)
    }

    /// Lets other calls pass when the call hangs, and answers the client at the deadline. Both happen while the call
    /// goes on.
    async fn while_overdue(
        &self,
        alloc: &AllocId,
        permit: &CallPermit,
        report: &(dyn Fn(ForwardError) + Send + Sync),
    ) {
        let slow = async {
            tokio::time::sleep(self.limits.hung_after).await;
            warn!(csi.rpc = %self.rpc, alloc.id = %alloc, after = ?self.limits.hung_after,
                "the plugin has not answered; the agent waits and lets other calls pass");
            permit.release();
        };
        let late = async {
            tokio::time::sleep_until(self.deadline).await;
            warn!(csi.rpc = %self.rpc, alloc.id = %alloc, after = ?self.limits.deadline,
                "the plugin has not answered; its client gets an error, and the agent waits");
            report(self.timed_out_as(ForwardOutcome::Unknown));
        };
        tokio::join!(slow, late);
    }

    fn note_failure(&mut self, alloc: &AllocId, error: &PluginError) {
        debug!(alloc.id = %alloc, csi.rpc = %error.rpc, code = error.code.as_str(),
            verdict = ?error.verdict, "the call failed");
        let is_change = matches!(self.late, OnDeadline::Await { .. });
        if error.verdict.may_have_taken_effect() && is_change {
            self.progress.bound_to = Some(alloc.clone());
        }
        self.progress.last = Some(error.clone());
    }

    fn outcome(&self) -> ForwardOutcome {
        match self.progress.bound_to {
            Some(_) => ForwardOutcome::Unknown,
            None => ForwardOutcome::NoEffect,
        }
    }

    fn timed_out(&self) -> ForwardError {
        self.timed_out_as(self.outcome())
    }

    fn timed_out_as(&self, outcome: ForwardOutcome) -> ForwardError {
        ForwardError::TimedOut {
            rpc: self.rpc,
            after: self.limits.deadline,
            last: self.progress.last.clone(),
            outcome,
        }
    }
}

impl CallProgress {
    fn retry_action(&mut self, error: &PluginError) -> RetryAction {
        if error.verdict == Verdict::RetryBriefly {
            self.exhausted += 1;
            if self.exhausted > EXHAUSTED_RETRIES {
                return RetryAction::GiveUp;
            }
        }
        if !error.verdict.is_retried() {
            return RetryAction::GiveUp;
        }
        next_instance(error)
    }
}

fn next_instance(error: &PluginError) -> RetryAction {
    match error.code {
        StatusCode::Unavailable => RetryAction::TryNextInstance,
        StatusCode::Ok
        | StatusCode::Cancelled
        | StatusCode::Unknown
        | StatusCode::InvalidArgument
        | StatusCode::DeadlineExceeded
        | StatusCode::NotFound
        | StatusCode::AlreadyExists
        | StatusCode::PermissionDenied
        | StatusCode::ResourceExhausted
        | StatusCode::FailedPrecondition
        | StatusCode::Aborted
        | StatusCode::OutOfRange
        | StatusCode::Unimplemented
        | StatusCode::Internal
        | StatusCode::DataLoss
        | StatusCode::Unauthenticated => RetryAction::Pause,
    }
}
