//! Repeats a step whose request was certainly not sent, once the server responds again.
//!
//! A volume is checked right before its change. A server that was away may have been changed by others
//! meanwhile, so the whole step is repeated, with its check. The read in between waits for the server, as
//! long as the client waits. The step of an apply that was interrupted is not repeated.

use std::time::Duration;

use tokio::time::Instant;

use super::execution::Execution;
use super::outcome::{Outcome, Status};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::NamespacedId;

/// How often a step is tried.
const ATTEMPTS: u32 = 5;
/// How old a check may be when its change is sent: less than the lock of a set lives.
const OLDEST_CHECK: Duration = Duration::from_secs(10);

/// Takes a step until its request is sent, or the server does not come back.
pub(super) async fn until_sent(
    execution: &Execution<'_>,
    key: &NamespacedId,
    step: impl AsyncFn() -> Outcome,
) -> Outcome {
    let mut outcome = step().await;
    for _ in 1..ATTEMPTS {
        if !matches!(outcome.status, Status::ServerAway(_)) || execution.stop.is_cancelled() {
            break;
        }
        let is_back = tokio::select! {
            read = execution.api.read_volume(key) => read.is_ok(),
            () = execution.stop.cancelled() => false,
        };
        if !is_back {
            break;
        }
        outcome = step().await;
    }
    outcome
}

/// The check of a volume right before its change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check(Instant);

impl Check {
    /// A check that begins now.
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Refuses a change whose check is too old.
    ///
    /// # Errors
    /// Returns the status of a step that is repeated with a new check.
    pub(super) fn require_recent(self, key: &NamespacedId) -> Result<(), Status> {
        if self.0.elapsed() <= OLDEST_CHECK {
            return Ok(());
        }
        let seconds = OLDEST_CHECK.as_secs();
        let message = format!(
            "volume {} was not changed: the server needed more than {seconds} seconds from the check \
             of the volume to its change",
            key.quoted()
        );
        let code = Code::ApplyServerAway;
        let slow = Diagnostic::error(code, message).help(code.advice());
        Err(Status::ServerAway(slow))
    }
}
