//! A turn in a lane, within a time.

use std::hash::Hash;
use std::time::Duration;

use super::error::ServerError;
use super::lanes::{Lane, Lanes};

/// Waits for a turn on `key`, which errors call `what`.
///
/// # Errors
/// If the line is full, or the time is up: who waits too long gets an error, never a turn that is
/// none (W04).
pub(super) async fn turn<K: Clone + Eq + Hash>(
    lanes: &Lanes<K>,
    key: K,
    what: String,
    longest: Duration,
) -> Result<Lane<K>, ServerError> {
    match tokio::time::timeout(longest, lanes.enter(key)).await {
        Ok(Ok(lane)) => Ok(lane),
        Ok(Err(full)) => Err(ServerError::LineFull { what, full }),
        Err(_) => Err(ServerError::WaitedTooLong {
            what,
            waited: longest,
        }),
    }
}
