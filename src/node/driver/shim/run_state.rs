//! `state.json`: where a run is, and what agents and shims do next.
//!
//! `starting` → `running` → `exited`, or `failed` or `source_lost` instead. The shim writes these; an agent writes
//! `lost` when the shim is gone without a final state. A final state is written only when no process of the task exists
//! and its mounts are gone: its reader may unpublish the volumes at once. It never changes again.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::process_id::ProcessId;
use crate::task_run::{LimitsReached, RunEnd, RunStatus};

/// The content of `state.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum RunState {
    /// The shim exists; the task's program does not run yet.
    Starting { shim: ProcessId },
    /// The task's program runs.
    Running { shim: ProcessId, task: ProcessId },
    /// The task ended; without both if it was stopped before it started.
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
        /// The state of an earlier version has none.
        #[serde(default, skip_serializing_if = "LimitsReached::is_none")]
        limits: LimitsReached,
    },
    /// The task could not be started.
    Failed { reason: String },
    /// The task was not started, because what must be at the source of a mount is not there.
    SourceLost { source: PathBuf, reason: String },
    /// The shim was gone before it wrote one of the other final states.
    Lost { reason: String },
}

impl RunState {
    /// The final state of a run that was stopped before its task was started.
    pub(super) const CANCELLED: Self =
        Self::Exited { code: None, signal: None, limits: LimitsReached::NONE };

    /// Returns the shim, unless the state is final.
    pub(super) fn shim(&self) -> Option<&ProcessId> {
        match self {
            Self::Starting { shim } | Self::Running { shim, .. } => Some(shim),
            Self::Exited { .. }
            | Self::Failed { .. }
            | Self::SourceLost { .. }
            | Self::Lost { .. } => None,
        }
    }

    /// Returns the state of a run whose task reached these limits.
    pub(super) fn with_limits(self, limits: LimitsReached) -> Self {
        match self {
            Self::Exited { code, signal, .. } => Self::Exited { code, signal, limits },
            Self::Starting { .. }
            | Self::Running { .. }
            | Self::Failed { .. }
            | Self::SourceLost { .. }
            | Self::Lost { .. } => self,
        }
    }

    /// Returns whether the state never changes again.
    pub(super) fn is_final(&self) -> bool {
        self.shim().is_none()
    }

    /// Returns the status that the port reports.
    pub(super) fn status(&self) -> RunStatus {
        let ended = match self {
            Self::Starting { .. } => return RunStatus::Starting,
            Self::Running { task, .. } => return RunStatus::Running { pid: task.pid },
            Self::Exited { code, signal, limits } => {
                RunEnd::Exited { code: *code, signal: *signal, limits: *limits }
            }
            Self::Failed { reason } => RunEnd::Failed { reason: reason.clone() },
            Self::SourceLost { source, reason } => {
                RunEnd::SourceLost { source: source.clone(), reason: reason.clone() }
            }
            Self::Lost { reason } => RunEnd::Lost { reason: reason.clone() },
        };
        RunStatus::Ended(ended)
    }
}

/// The next step of an agent that waits for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitStep {
    /// Report the end.
    Report(RunEnd),
    /// Wait for the end of this process, then settle the run.
    AwaitShim(ProcessId),
    /// Settle the run: its shim belongs to an earlier boot of the machine.
    Settle,
}

/// Decides what an agent does that waits for a run with this state.
pub(super) fn wait_step(state: &RunState, boot_id: &str) -> WaitStep {
    match (state.status(), state.shim()) {
        (RunStatus::Ended(end), _) => WaitStep::Report(end),
        (_, Some(shim)) if shim.boot_id == boot_id => WaitStep::AwaitShim(shim.clone()),
        (RunStatus::Starting | RunStatus::Running { .. }, _) => WaitStep::Settle,
    }
}

/// Returns the final state that an agent writes for a run whose shim is gone. The agent holds the lock of the run
/// and has read the state again, because the shim may have written its last word in the meantime: then there is none.
pub(super) fn settled(state: &RunState, boot_id: &str) -> Option<RunState> {
    let shim = state.shim()?;
    let reason = if shim.boot_id == boot_id {
        "its supervisor was killed, and the task with it"
    } else {
        "the machine was restarted"
    };
    Some(RunState::Lost { reason: reason.to_owned() })
}

/// The first step of a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShimStep {
    /// Report that the run was started before.
    Attach,
    /// Try again: the holder of the lock may die before it writes a state.
    TryAgain,
    /// Start the task.
    Begin,
}

/// Decides what a shim does. A run is started at most once: only under its lock, and only without a state. An agent that
/// finds a shim without a state writes that this shim is starting, and the shim may not have begun then.
pub(super) fn shim_step(holds_lock: bool, state: Option<&RunState>, own: &ProcessId) -> ShimStep {
    let state = state.filter(|state| !matches!(state, RunState::Starting { shim } if shim == own));
    match (state, holds_lock) {
        (Some(_), _) => ShimStep::Attach,
        (None, false) => ShimStep::TryAgain,
        (None, true) => ShimStep::Begin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "boot";

    fn process(pid: i32, boot_id: &str) -> ProcessId {
        ProcessId { pid, start_time: 7, boot_id: boot_id.to_owned() }
    }

    fn unfinished(boot_id: &str) -> [RunState; 2] {
        let (shim, task) = (process(10, boot_id), process(11, boot_id));
        [RunState::Starting { shim: shim.clone() }, RunState::Running { shim, task }]
    }

    fn finished() -> [RunState; 5] {
        let reason = || "because".to_owned();
        [
            RunState::Exited { code: Some(3), signal: None, limits: LimitsReached::NONE },
            RunState::CANCELLED,
            RunState::Failed { reason: reason() },
            RunState::SourceLost { source: "/data".into(), reason: reason() },
            RunState::Lost { reason: reason() },
        ]
    }

    #[test]
    fn a_final_state_is_reported_and_never_replaced() {
        for state in finished() {
            assert_eq!(settled(&state, BOOT), None, "{state:?}");
            assert!(matches!(wait_step(&state, BOOT), WaitStep::Report(_)));
        }
    }

    #[test]
    fn an_agent_waits_for_the_shim_of_this_boot_only() {
        for state in unfinished(BOOT) {
            let step = wait_step(&state, BOOT);
            assert_eq!(step, WaitStep::AwaitShim(process(10, BOOT)), "{state:?}");
        }
        for state in unfinished("earlier") {
            assert_eq!(wait_step(&state, BOOT), WaitStep::Settle, "{state:?}");
        }
    }

    #[test]
    fn a_lost_run_names_the_reason() {
        let reason = |boot: &str| match settled(&unfinished(boot)[1], BOOT) {
            Some(RunState::Lost { reason }) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(BOOT), "its supervisor was killed, and the task with it");
        assert_eq!(reason("earlier"), "the machine was restarted");
    }

    #[test]
    fn a_run_is_started_only_under_its_lock_and_without_a_state() {
        let own = process(12, BOOT);
        let found = RunState::Starting { shim: own.clone() };
        for state in [None, Some(&found)] {
            assert_eq!(shim_step(true, state, &own), ShimStep::Begin);
            assert_eq!(shim_step(false, state, &own), ShimStep::TryAgain);
        }
        for state in unfinished(BOOT).iter().chain(&finished()) {
            for holds_lock in [true, false] {
                assert_eq!(shim_step(holds_lock, Some(state), &own), ShimStep::Attach);
            }
        }
    }
}
