//! Blocking work of the start and the end, off the threads that serve.

use crate::diagnostic::{Code, Diagnostic, Diagnostics};

/// Runs `work` on a thread that may block.
///
/// # Errors
/// If it panicked: a defect of ours.
pub(super) async fn run<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Diagnostics> {
    tokio::task::spawn_blocking(work).await.map_err(|stopped| {
        Diagnostic::error(
            Code::Internal,
            format!("a step of the agent's start did not end: {stopped}"),
        )
        .into()
    })
}
