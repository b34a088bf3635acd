//! Reports the progress of an allocation to the server.
//!
//! The newest report counts: one that could not be delivered is replaced by the next, so nothing queues. The
//! terminal report is repeated until the server has it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use super::desired::Desired;
use super::progress::AllocProgress;
use nomad_csi_model::retry::RetryPolicy;
use nomad_csi_model::{AllocId, AllocReport};
use nomad_csi_ports::ControlPlane;

/// The pauses between attempts to deliver a report.
const RETRY: RetryPolicy =
    RetryPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// Reports until the server has a terminal report, or does not know the allocation any more.
pub(super) async fn report_progress(
    control: &dyn ControlPlane,
    alloc: &AllocId,
    mut delivered: Option<AllocReport>,
    mut progress: watch::Receiver<AllocProgress>,
    mut desired: watch::Receiver<Desired>,
) {
    let mut failures = 0;
    loop {
        let report = progress.borrow_and_update().report();
        let is_last = report.status.is_terminal();
        let outcome = match delivered.as_ref() == Some(&report) {
            true => Ok(()),
            false => control.report(alloc, report.clone()).await,
        };
        let Err(error) = outcome else {
            if is_last {
                return;
            }
            failures = 0;
            delivered = Some(report);
            if progress.changed().await.is_err() {
                return;
            }
            continue;
        };
        // The server will not accept any report of it.
        if *desired.borrow_and_update() == Desired::Forgotten {
            return;
        }
        tracing::warn!(alloc.id = %alloc, %error, "the report was not delivered");
        let pause = RETRY.delay(failures, 1.0);
        failures = failures.saturating_add(1);
        let forgotten = desired.wait_for(|desired| *desired == Desired::Forgotten);
        let _is_forgotten = timeout(pause, forgotten).await.is_ok();
    }
}
