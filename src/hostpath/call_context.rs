//! The logged call that the current task works for.

use std::sync::Arc;

use super::shared::CallInProgress;

tokio::task_local! {
    /// The call. Work on another thread holds it until it is done.
    pub(super) static CALL: Option<Arc<CallInProgress>>;
}

/// Returns the logged call of the current task; `None` without a log.
pub(super) fn current_call() -> Option<Arc<CallInProgress>> {
    CALL.try_with(Clone::clone).ok().flatten()
}
