//! Work on a set while its lock is held.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::SetSelection;
use crate::ports::{LedgerError, LockHolder, SetLock};
use crate::reconcile::ledger::{LockEvent, LockWait, SetLedger};
use crate::reconcile::lock_renewal::{LockState, hold_lock};
use nomad_csi_model::diagnostic::Severity;

/// How long a command waits for the lock of a set.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Takes the lock of a set, reads the set, and runs `work` on it.
///
/// The token that `work` receives is cancelled when the user interrupts or the lock is lost. Nothing
/// new may begin then.
///
/// # Errors
/// If the ledger cannot be used, or another command holds the lock for too long; and those of `work`.
pub(super) async fn with_set_lock<T>(
    context: &WorkflowContext<'_>,
    selection: &SetSelection,
    work: impl AsyncFnOnce(&mut SetLedger, &CancellationToken) -> Result<T, WorkflowError>,
) -> Result<T, WorkflowError> {
    let locking = async {
        let set = selection.open().await?;
        lock_set(context, &set).await
    };
    let lock = context.unless_interrupted(locking).await??;
    let stop = context.interrupt.child_token();
    let (done, released) = hold_lock(lock, context.server_wait, async |state| {
        let working = async {
            // The previous holder of the lock may have changed the set.
            let mut set = selection.open().await?;
            set.hold(state.clone());
            work(&mut set, &stop).await
        };
        tokio::select! {
            done = working => done,
            never = stop_when_lost(state.clone(), &stop) => never,
        }
    })
    .await;
    // If the server is away, the lock expires, or the next command takes it over.
    if let Err(error) = released
        && !error.code.means_server_away()
    {
        let mut warning = error.diagnostic().note("completed changes are not undone");
        warning.severity = Severity::Warning;
        context.reporter.diagnostic(warning);
    }
    done
}

async fn lock_set(
    context: &WorkflowContext<'_>,
    set: &SetLedger,
) -> Result<Box<dyn SetLock>, LedgerError> {
    let holder = LockHolder {
        by: context.actor.clone(),
        since: context.clock.now(),
        process: context.processes.own(),
    };
    let name = set.set().name();
    let report = |event: LockEvent<'_>| match event {
        LockEvent::Waiting(other) => {
            context.reporter.waiting_for_lock(name, other, LOCK_TIMEOUT);
        }
        LockEvent::HolderEnded(other) => {
            let by = &other.by;
            let line = format!("set {name}: taking over the lock of {by}, which has ended");
            context.reporter.status(&line);
        }
    };
    let wait = LockWait { timeout: LOCK_TIMEOUT, processes: Some(&*context.processes) };
    set.lock(&holder, wait, report).await
}

async fn stop_when_lost<T>(mut state: watch::Receiver<LockState>, stop: &CancellationToken) -> T {
    let lost = state.wait_for(|state| *state == LockState::Lost);
    if lost.await.is_ok() {
        stop.cancel();
    }
    std::future::pending().await
}
