//! Runs blocking work of the start and the stop on blocking threads.

use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// Runs `work` on a thread that may block.
///
/// # Errors
/// If it panicked, which is a bug.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Diagnostics> {
    nomad_csi_ports::run_blocking(move || Ok(work())).await.map_err(|stopped| {
        Diagnostic::error(
            Code::Internal,
            format!("a step of the agent's start or stop failed: {stopped}"),
        )
        .into()
    })
}
