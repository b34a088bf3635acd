//! Whether the lock of a set is held.
//!
//! A lock that is not renewed in time may have expired, if the server is away. Nothing new starts then.
//! When the server responds again, a renewal shows whether the lock was held all the time.

use tokio::sync::watch;

/// Whether a lock is held.
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
