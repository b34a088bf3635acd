//! The context of every workflow.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::error::WorkflowError;
use super::reporter::Reporter;
use crate::ports::{ClusterApi, ProcessTable, SecretSource};
use nomad_csi_plan::Actor;
use nomad_csi_ports::Clock;

/// The context of every workflow.
pub struct WorkflowContext<'a> {
    /// The server.
    pub api: &'a dyn ClusterApi,
    /// Shows what the workflow does.
    pub reporter: &'a dyn Reporter,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Values of referenced secrets.
    pub secrets: Arc<dyn SecretSource>,
    /// Cancelled when the user interrupts: nothing new begins then.
    pub interrupt: &'a CancellationToken,
    /// The author recorded in ledgers.
    pub actor: Actor,
    /// The largest number of volumes that are worked on at the same time.
    pub parallelism: usize,
    /// The processes of this machine.
    pub processes: Arc<dyn ProcessTable>,
    /// How long the command waits for a server that stops responding.
    pub server_wait: Duration,
}

impl WorkflowContext<'_> {
    /// Waits for work that can be abandoned at any time, such as a read.
    ///
    /// # Errors
    /// If the user interrupts first.
    pub async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = T>,
    ) -> Result<T, WorkflowError> {
        tokio::select! {
            biased;
            () = self.interrupt.cancelled() => Err(WorkflowError::interrupted()),
            done = work => Ok(done),
        }
    }

    /// Returns whether the user has interrupted.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_cancelled()
    }
}
