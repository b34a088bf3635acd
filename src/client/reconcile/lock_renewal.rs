//! Holds the lock of a set while work goes on.
//!
//! The renewal is a task of its own, so that a command that prints to a terminal or a pipe which takes nothing keeps its
//! lock: the runtime of a client has a thread besides the one that prints.
//!
//! A lost lock does not abort running calls. It is reported, and nothing new may start. While the server
//! is away, it is uncertain whether the lock is held, and steps wait ([`LockState`]).

use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinError;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::ports::{LedgerError, LedgerFailure, SetLock};
use nomad_csi_model::diagnostic::Code;

/// The pause before a failed renewal is tried again.
const RENEWAL_RETRY: Duration = Duration::from_secs(1);

/// Runs `work` while a lock is held, renews the lock, and releases it at the end.
///
/// The channel that `work` receives shows whether the lock is held. If a renewal is not answered, that is
/// uncertain for up to `patience`. Returns the result of `work`, and whether the lock was held to the end.
pub async fn hold_lock<T>(
    lock: Box<dyn SetLock>,
    patience: Duration,
    work: impl AsyncFnOnce(watch::Receiver<LockState>) -> T,
) -> (T, Result<(), LedgerError>) {
    let (state, is_held) = watch::channel(LockState::Held);
    let (is_done, ended) = oneshot::channel::<()>();
    let renewing = tokio::spawn(async move {
        let lost = tokio::select! {
            biased;
            _ = ended => None,
            error = renew(&*lock, patience, &state) => Some(error),
        };
        if lost.is_some() {
            state.send_replace(LockState::Lost);
        }
        (lock, lost)
    });
    let done = work(is_held).await;
    drop(is_done);
    match renewing.await {
        Ok((lock, None)) => (done, lock.release().await),
        Ok((_, Some(error))) => (done, Err(error)),
        Err(error) => (done, Err(renewal_ended(&error))),
    }
}

/// Renews a lock until that fails for good, or the lock must have expired.
async fn renew(
    lock: &dyn SetLock,
    patience: Duration,
    state: &watch::Sender<LockState>,
) -> LedgerError {
    let Some(time_to_live) = lock.time_to_live() else {
        return std::future::pending().await;
    };
    let mut renewed = Instant::now();
    let mut pause = time_to_live / 2;
    loop {
        sleep(pause).await;
        // The server counts from its reply, so the time of the request is the safe one.
        let asked = Instant::now();
        let expires = renewed + time_to_live;
        let mut renewing = std::pin::pin!(lock.renew());
        let answer = match timeout_at(expires, &mut renewing).await {
            Ok(answer) => Some(answer),
            Err(_) => {
                state.send_replace(LockState::Uncertain);
                timeout(patience, &mut renewing).await.ok()
            }
        };
        match answer {
            Some(Ok(())) => {
                state.send_replace(LockState::Held);
                renewed = asked;
                pause = (time_to_live / 2).saturating_sub(asked.elapsed());
            }
            Some(Err(error)) => {
                let left = time_to_live.saturating_sub(renewed.elapsed());
                if error.failure == LedgerFailure::LockLost || left.is_zero() {
                    return error;
                }
                pause = RENEWAL_RETRY.min(left);
            }
            None => return renewal_timed_out(time_to_live + patience),
        }
    }
}

fn renewal_ended(error: &JoinError) -> LedgerError {
    let message = format!("the renewal of the set's lock ended: {error}");
    LedgerError::new(LedgerFailure::LockLost, Code::LedgerLockLost, message)
}

fn renewal_timed_out(waited: Duration) -> LedgerError {
    let seconds = waited.as_secs();
    let message = format!(
        "the set's lock may have expired: the server did not renew it within {seconds} seconds"
    );
    LedgerError::new(LedgerFailure::LockLost, Code::LedgerLockLost, message)
}

/// The state of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockState {
    /// It is held.
    Held,
    /// The server does not answer its renewal, so it may have expired.
    Uncertain,
    /// It expired, or another command took it.
    Lost,
}

/// Waits until it is certain whether the lock is held, and returns whether it is.
pub(super) async fn is_held(state: &watch::Receiver<LockState>) -> bool {
    let mut state = state.clone();
    let certain = state.wait_for(|state| *state != LockState::Uncertain).await;
    certain.is_ok_and(|state| *state == LockState::Held)
}
