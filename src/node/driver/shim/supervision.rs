//! The decisions of a shim while its task runs. Pure.
//!
//! A stop sends the kill signal and starts a timer, also while the stage still prepares the task: the signal ends
//! a stage that hangs in a dead mount as well. The end of the task is the end of all its descendants. The run is over
//! when no process is left.

use std::time::Duration;

use super::super::process_id::ProcessId;
use super::messages::ShimMessage;
use super::pid_namespace::{Reaped, Remaining, TaskExit};
use super::run_state::RunState;
use super::stage_report::StageReport;
use crate::task_run::LimitsReached;

/// An event that a shim waits for.
#[derive(Debug)]
pub(super) enum ShimEvent {
    /// The agent or an operator requested the stop.
    StopRequested,
    /// The timer has expired.
    KillTimeout,
    /// The stage closed its socket.
    Reported(StageReport),
    /// Ended processes were collected.
    Reaped(Reaped),
}

/// The response to an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShimAction {
    /// Send the task its kill signal, and start the timer.
    SignalTask,
    /// Send SIGKILL to all processes.
    KillAll,
    /// Record that this process runs the task's program.
    RecordRunning(ProcessId),
}

/// The knowledge of a shim about its task.
#[derive(Debug, Default)]
pub(super) struct Supervision {
    report: Option<StageReport>,
    exit: Option<TaskExit>,
    is_stopping: bool,
    is_empty: bool,
}

/// The time in which the report and the output of a task that has ended must arrive. A busy disk holds them up for
/// seconds, and a process outside of the namespace for ever.
pub(super) const OUTPUT_GRACE: Duration = Duration::from_secs(10);

impl Supervision {
    /// Takes note of an event. Returns what to do.
    pub(super) fn on(&mut self, event: ShimEvent) -> Option<ShimAction> {
        match event {
            ShimEvent::StopRequested if self.is_stopping || self.exit.is_some() => None,
            ShimEvent::StopRequested => {
                self.is_stopping = true;
                Some(ShimAction::SignalTask)
            }
            ShimEvent::KillTimeout => Some(ShimAction::KillAll),
            ShimEvent::Reported(report) => {
                let action = match &report {
                    StageReport::Executed(task) if self.exit.is_none() => {
                        Some(ShimAction::RecordRunning(task.clone()))
                    }
                    StageReport::Executed(_)
                    | StageReport::Failed(_)
                    | StageReport::SourceLost(_)
                    | StageReport::Incomplete => None,
                };
                self.report = Some(report);
                action
            }
            ShimEvent::Reaped(reaped) => {
                self.is_empty = reaped.rest == Remaining::None;
                self.exit = Some(reaped.child?);
                Some(ShimAction::KillAll)
            }
        }
    }

    /// Returns whether no process is left.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns whether the stage has not reported yet.
    pub(super) fn awaits_report(&self) -> bool {
        self.report.is_none()
    }

    /// Returns the message for the agent, as soon as it is known.
    pub(super) fn message(&self) -> Option<ShimMessage> {
        match (&self.report, self.is_empty) {
            (Some(StageReport::Executed(_)), _) => Some(ShimMessage::Started),
            (_, false) => None,
            (_, true) if self.is_stopping => Some(ShimMessage::Cancelled),
            (_, true) => Some(ShimMessage::Failed),
        }
    }

    /// Returns the final state of a run without processes.
    pub(super) fn final_state(&self) -> RunState {
        let failed = |reason: &str| RunState::Failed { reason: reason.to_owned() };
        match (&self.report, self.exit) {
            (Some(StageReport::Failed(reason)), _) => failed(reason),
            (Some(StageReport::SourceLost(lost)), _) => {
                RunState::SourceLost { source: lost.path.clone(), reason: lost.reason.clone() }
            }
            (_, None) => failed("its process disappeared"),
            (Some(StageReport::Executed(_)), Some(TaskExit { code, signal }))
            | (_, Some(TaskExit { code, signal: signal @ Some(_) })) => {
                RunState::Exited { code, signal, limits: LimitsReached::NONE }
            }
            (_, Some(TaskExit { signal: None, .. })) => {
                failed("its process ended without a reason before it executed the command")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task() -> ProcessId {
        ProcessId { pid: 5, start_time: 6, boot_id: "boot".to_owned() }
    }

    fn reaped(child: Option<TaskExit>, rest: Remaining) -> ShimEvent {
        ShimEvent::Reaped(Reaped { child, rest })
    }

    const STATUS_3: TaskExit = TaskExit { code: Some(3), signal: None };
    const SIGNAL_15: TaskExit = TaskExit { code: None, signal: Some(15) };

    #[test]
    fn the_end_of_the_task_is_the_end_of_its_descendants() {
        let mut supervision = Supervision::default();
        let executed = ShimEvent::Reported(StageReport::Executed(task()));
        assert_eq!(supervision.on(executed), Some(ShimAction::RecordRunning(task())));
        assert_eq!(supervision.message(), Some(ShimMessage::Started));
        let ended = supervision.on(reaped(Some(STATUS_3), Remaining::Running));
        assert_eq!(ended, Some(ShimAction::KillAll));
        assert!(!supervision.is_empty());
        assert_eq!(supervision.on(reaped(None, Remaining::None)), None);
        assert!(supervision.is_empty());
        let state = RunState::Exited { code: Some(3), signal: None, limits: LimitsReached::NONE };
        assert_eq!(supervision.final_state(), state);
    }

    #[test]
    fn a_task_that_ends_before_its_report_is_read_was_started() {
        let mut supervision = Supervision::default();
        supervision.on(reaped(Some(STATUS_3), Remaining::None));
        assert!(supervision.awaits_report());
        let executed = ShimEvent::Reported(StageReport::Executed(task()));
        assert_eq!(supervision.on(executed), None, "it does not run any more");
        assert_eq!(supervision.message(), Some(ShimMessage::Started));
        assert!(supervision.final_state().is_final());
    }

    #[test]
    fn a_stop_signals_once_and_kills_everything_at_the_timeout() {
        let mut supervision = Supervision::default();
        let stop = || ShimEvent::StopRequested;
        assert_eq!(supervision.on(stop()), Some(ShimAction::SignalTask));
        assert_eq!(supervision.on(stop()), None);
        let timeout = supervision.on(ShimEvent::KillTimeout);
        assert_eq!(timeout, Some(ShimAction::KillAll));
    }

    #[test]
    fn a_stage_that_is_stopped_is_no_failure() {
        let mut supervision = Supervision::default();
        supervision.on(ShimEvent::StopRequested);
        supervision.on(reaped(Some(SIGNAL_15), Remaining::None));
        supervision.on(ShimEvent::Reported(StageReport::Incomplete));
        assert_eq!(supervision.message(), Some(ShimMessage::Cancelled));
        let state = RunState::Exited { code: None, signal: Some(15), limits: LimitsReached::NONE };
        assert_eq!(supervision.final_state(), state);
    }

    #[test]
    fn a_stage_without_a_task_is_a_failure_with_a_reason() {
        for (report, reason) in [
            (StageReport::Failed("no space".to_owned()), "no space"),
            (
                StageReport::Incomplete,
                "its process ended without a reason before it executed the command",
            ),
        ] {
            let mut supervision = Supervision::default();
            assert_eq!(supervision.on(ShimEvent::Reported(report)), None);
            assert_eq!(supervision.message(), None, "a process is left");
            supervision.on(reaped(Some(STATUS_3), Remaining::None));
            assert_eq!(supervision.message(), Some(ShimMessage::Failed));
            let reason = reason.to_owned();
            assert_eq!(supervision.final_state(), RunState::Failed { reason });
        }
    }
}
