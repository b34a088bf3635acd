//! One run of a plugin's process, and the calls that were sent to it.
//!
//! The supervisor ends a run when it knows that the process is gone: it waited for its child, or the
//! driver confirmed by process ID and start time that a predecessor ended. [`ProcessRun::end`] returns
//! after every pending call was dropped, and only then does the next process start, so no call of one
//! run reaches another. A broken connection says nothing about the process.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// One run of a process. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct ProcessRun {
    gone: CancellationToken,
    calls: TaskTracker,
}

impl ProcessRun {
    /// Announces a call. Returns `None` if the process is gone.
    pub(super) fn enter(&self) -> Option<TaskTrackerToken> {
        let token = self.calls.token();
        (!self.is_gone()).then_some(token)
    }

    /// Returns how many calls have been sent to the process and have no answer.
    pub fn pending_calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether the process is known to be gone.
    pub fn is_gone(&self) -> bool {
        self.gone.is_cancelled()
    }

    /// Waits until the process is known to be gone.
    pub async fn wait_until_gone(&self) {
        self.gone.cancelled().await;
    }

    /// Holds `value` until the process is gone. [`Self::end`] returns after it was dropped.
    pub(super) async fn hold_until_gone<T>(&self, value: T) {
        let token = self.calls.token();
        self.wait_until_gone().await;
        drop(value);
        drop(token);
    }

    /// Waits until no call to the process is pending. New calls must be refused before.
    pub(super) async fn drain(&self) {
        self.calls.close();
        self.calls.wait().await;
    }

    /// Records that the process is gone. Returns when no call to it is pending.
    pub async fn end(&self) {
        self.gone.cancel();
        self.drain().await;
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_run_ends_after_its_last_call() {
        let run = ProcessRun::default();
        let call = run.enter().unwrap();
        assert_eq!(run.pending_calls(), 1);
        let ended = run.end();
        tokio::pin!(ended);
        assert!(ended.as_mut().now_or_never().is_none());
        assert!(run.is_gone() && run.enter().is_none());
        drop(call);
        ended.await;
    }
}
