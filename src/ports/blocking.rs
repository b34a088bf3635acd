//! Work that blocks runs on threads for such work, and its panic is an error like any other.

use std::io;

/// Runs work on a thread that may block. It finishes even if the caller stops waiting.
///
/// # Errors
/// Returns the error of the work. Fails if the work panics, or the runtime stops before it begins.
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
