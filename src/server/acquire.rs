//! Acquires a permit of a [`KeyedLimiter`] within a time limit.

use std::hash::Hash;
use std::time::Duration;

use super::error::ServerError;
use super::keyed_limiter::{KeyedLimiter, KeyedPermit};

/// Waits for a permit on `key`, which errors call `name`.
///
/// # Errors
/// If the queue is full or the time is up.
pub(super) async fn acquire<K: Clone + Eq + Hash>(
    limiter: &KeyedLimiter<K>,
    key: K,
    name: String,
    limit: Duration,
) -> Result<KeyedPermit<K>, ServerError> {
    match tokio::time::timeout(limit, limiter.acquire(key)).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(error)) => Err(ServerError::QueueFull { name, error }),
        Err(_) => Err(ServerError::QueueTimeout {
            name,
            waited: limit,
        }),
    }
}
