//! The wait of a session's requests for a server that stops responding.
//!
//! All requests of a session wait here together. One of them probes the server with one light read at a
//! time, and the others wait for its result. The wait counts from the first failure, so all of them end
//! together, and a request that is sent later fails at once, until the server responds.
//!
//! A server can also keep its connections and not respond. A request that waits for long is therefore followed by
//! one probe, and if that gets no response either, the silence is reported. The request goes on: its change may be
//! under way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use crate::ports::{ApiError, ServerWait};
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_ports::{IdSource as _, RandomIds};

/// The time that requests wait unless a command says how long: enough for a leader election, a restart,
/// or a burst of connections to end.
pub(super) const DEFAULT_WAIT: Duration = Duration::from_secs(30);

/// How long a request waits before the server is probed.
const SILENCE: Duration = Duration::from_secs(10);
/// How long that probe waits.
const PROBE_WAIT: Duration = Duration::from_secs(5);

/// The wait of one session.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    timeout: Duration,
    /// Observes the wait; `None` to wait in silence.
    wait: Option<ServerWait>,
    /// Held by the request that is probing.
    probing: Semaphore,
    state: Mutex<State>,
    /// How often the server has responded.
    responses: AtomicU64,
    has_recovered: AtomicBool,
}

/// The state of the server as the requests know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It responds, as far as known.
    Responding,
    /// It keeps its connections, and has not responded since then.
    Silent { since: Instant },
    /// It has not responded since then.
    Away { since: Instant, gave_up: bool },
}

impl Default for Outage {
    fn default() -> Self {
        Self {
            server: String::new(),
            timeout: DEFAULT_WAIT,
            wait: None,
            probing: Semaphore::new(1),
            state: Mutex::new(State::Responding),
            responses: AtomicU64::new(0),
            has_recovered: AtomicBool::new(false),
        }
    }
}

impl Outage {
    /// Waits as a command says.
    pub(super) fn waiting(server: &str, wait: ServerWait) -> Self {
        Self {
            server: server.to_owned(),
            timeout: wait.timeout,
            wait: Some(wait),
            ..Self::default()
        }
    }

    /// The longest wait.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns whether a probe has failed since the server last responded.
    pub(super) fn is_away(&self) -> bool {
        matches!(*self.state(), State::Away { .. })
    }

    /// Records that the server has responded.
    pub(super) fn end(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        let before = std::mem::replace(&mut *self.state(), State::Responding);
        let (State::Silent { since } | State::Away { since, .. }) = before else {
            return;
        };
        self.has_recovered.store(true, Ordering::Relaxed);
        if let Some(wait) = &self.wait {
            wait.observer.server_back(&self.server, since.elapsed());
        }
    }

    /// Returns whether the server stopped responding, and responded again.
    pub(super) fn has_recovered(&self) -> bool {
        self.has_recovered.load(Ordering::Relaxed)
    }

    /// Carries out an attempt, and reports if the server is silent in the meantime.
    pub(super) async fn attend<A, F>(&self, attempt: A, probe: impl Fn() -> F) -> A::Output
    where
        A: Future + Send,
        F: Future<Output = bool> + Send,
    {
        let mut attempt = std::pin::pin!(attempt);
        let (start, responses) = (Instant::now(), self.responses.load(Ordering::Relaxed));
        if let Ok(ended) = timeout(SILENCE, attempt.as_mut()).await {
            return ended;
        }
        let is_silent = async {
            let turn = self.probing.try_acquire();
            let others = self.responses.load(Ordering::Relaxed) != responses;
            turn.is_ok() && !others && !timeout(PROBE_WAIT, probe()).await.unwrap_or(false)
        };
        tokio::select! {
            biased;
            ended = attempt.as_mut() => return ended,
            is_silent = is_silent => if is_silent {
                self.report_silence(start);
            },
        }
        attempt.await
    }

    /// Reports that the server has been silent since then, once until it responds.
    fn report_silence(&self, since: Instant) {
        {
            let mut state = self.state();
            if *state != State::Responding {
                return;
            }
            *state = State::Silent { since };
        }
        if let Some(wait) = &self.wait {
            wait.observer.server_silent(&self.server, since.elapsed());
        }
    }

    /// Waits until the server responds to a probe. Returns `false` if it does not in time.
    pub(super) async fn wait<F>(&self, why: &ApiError, probe: impl Fn() -> F) -> bool
    where
        F: Future<Output = bool> + Send,
    {
        let responses = self.responses.load(Ordering::Relaxed);
        // The semaphore is never closed.
        let _turn = self.probing.acquire().await.ok();
        for attempt in 0.. {
            if self.responses.load(Ordering::Relaxed) != responses {
                return true;
            }
            if self.has_given_up() {
                return false;
            }
            if probe().await {
                self.end();
                return true;
            }
            let left = self.timeout.saturating_sub(self.begin(why).elapsed());
            if left.is_zero() {
                break;
            }
            let pause = RetryPolicy::CLIENT.delay(attempt, RandomIds.jitter());
            sleep(pause.min(left)).await;
        }
        self.give_up();
        false
    }

    /// Records that the server does not respond. Returns since when.
    fn begin(&self, why: &ApiError) -> Instant {
        let now = Instant::now();
        {
            let mut state = self.state();
            if let State::Away { since, .. } = *state {
                return since;
            }
            *state = State::Away { since: now, gave_up: false };
        }
        if let Some(wait) = &self.wait {
            wait.observer.server_unreachable(&self.server, why, self.timeout);
        }
        now
    }

    /// Returns whether the longest wait is over.
    fn has_given_up(&self) -> bool {
        matches!(*self.state(), State::Away { gave_up: true, .. })
    }

    fn give_up(&self) {
        let is_first = match &mut *self.state() {
            State::Away { gave_up, .. } => !std::mem::replace(gave_up, true),
            State::Responding | State::Silent { .. } => false,
        };
        if let (true, Some(wait)) = (is_first, &self.wait) {
            wait.observer.gave_up(&self.server);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests;
