//! Waits for a permit within a time limit.

use std::future::Future;
use std::time::Duration;

use super::error::ServerError;
use super::keyed_locks::QueueFull;

/// Waits for the permit that `acquiring` returns, for something that errors call `name`.
///
/// # Errors
/// If the queue is full or the time is up.
pub(super) async fn within<P>(
    limit: Duration,
    name: String,
    acquiring: impl Future<Output = Result<P, QueueFull>>,
) -> Result<P, ServerError> {
    match tokio::time::timeout(limit, acquiring).await {
        Ok(Ok(permit)) => Ok(permit),
        Ok(Err(error)) => Err(ServerError::QueueFull { name, error }),
        Err(_) => Err(ServerError::QueueTimeout { name, waited: limit }),
    }
}
