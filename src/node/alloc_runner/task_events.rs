//! The events of tasks, with Nomad's kinds, texts and details.

use std::collections::BTreeMap;
use std::time::Duration;

use super::restart::nanoseconds;
use crate::task_run::{LimitReached, LimitsReached, RunEnd};
use nomad_csi_model::{GoDuration, PluginId, TaskEvent};

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Occurrence<'a> {
    /// The node received it.
    Received,
    /// Its directories are made.
    Preparing,
    /// It waits for a volume, with the reason.
    WaitsForVolume(&'a str),
    /// The mount of a volume that it has vanished, with the reason.
    VolumeLost(&'a str),
    /// Its allocation cannot run, with the reason.
    SetupFailed(&'a str),
    /// It started.
    Started,
    /// A run ended.
    Ended(&'a RunEnd),
    /// It runs again after a pause.
    Restarting {
        /// The reason.
        reason: &'a str,
        /// The pause.
        delay: Duration,
    },
    /// It has failed for good.
    NotRestarting {
        /// The reason.
        reason: &'a str,
    },
    /// The agent restarts it, for this reason.
    RestartSignaled(&'a str),
    /// The plugin that it runs became healthy.
    PluginHealthy(&'a PluginId),
    /// The plugin that it runs became unhealthy, for this reason.
    PluginUnhealthy(&'a str),
    /// It gets its kill signal.
    Killing {
        /// How long it may take to end.
        timeout: Duration,
    },
    /// It ended after its kill signal.
    Killed,
    /// Another task of the group failed, and this one is stopped.
    SiblingFailed(&'a str),
    /// The leader ended, and this task is stopped.
    LeaderEnded,
    /// The main tasks ended, and this sidecar is stopped.
    MainTasksEnded,
}

impl Occurrence<'_> {
    /// Returns the event of this occurrence at a time in nanoseconds since the epoch.
    pub(super) fn at(&self, now: i64) -> TaskEvent {
        let details = self.details();
        TaskEvent {
            at: now,
            kind: self.kind().to_owned(),
            message: self.message(),
            details: details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Received => "Received",
            Self::Preparing | Self::WaitsForVolume(_) => "Task Setup",
            Self::SetupFailed(_) => "Setup Failure",
            Self::Started => "Started",
            Self::VolumeLost(_) => "Volume Lost",
            Self::Ended(RunEnd::Failed { .. } | RunEnd::SourceLost { .. }) => "Driver Failure",
            Self::Ended(RunEnd::Exited { .. } | RunEnd::Lost { .. }) => "Terminated",
            Self::Restarting { .. } => "Restarting",
            Self::NotRestarting { .. } => "Not Restarting",
            Self::RestartSignaled(_) => "Restart Signaled",
            Self::PluginHealthy(_) => "Plugin became healthy",
            Self::PluginUnhealthy(_) => "Plugin became unhealthy",
            Self::Killing { .. } => "Killing",
            Self::Killed => "Killed",
            Self::SiblingFailed(_) => "Sibling Task Failed",
            Self::LeaderEnded => "Leader Task Dead",
            Self::MainTasksEnded => "Main Tasks Dead",
        }
    }

    fn message(&self) -> String {
        match self {
            Self::Received => "Task received by client".to_owned(),
            Self::Preparing => "Building Task Directory".to_owned(),
            Self::WaitsForVolume(reason) => format!("Waiting: {reason}"),
            Self::VolumeLost(reason) => format!("{reason}; it is mounted again"),
            Self::SetupFailed(reason) => format!("failed to setup alloc: {reason}"),
            Self::Started => "Task started by client".to_owned(),
            Self::Ended(end) => ended_message(end),
            Self::Restarting { delay, .. } => format!("Task restarting in {}", go(*delay)),
            Self::NotRestarting { reason } | Self::RestartSignaled(reason) => (*reason).to_owned(),
            Self::PluginHealthy(plugin) => format!("plugin: {plugin}"),
            Self::PluginUnhealthy(reason) => format!("Error: {reason}"),
            Self::Killing { timeout } => {
                format!("Sent interrupt. Waiting {} before force killing", go(*timeout))
            }
            Self::Killed => "Task successfully killed".to_owned(),
            Self::SiblingFailed(sibling) => format!("Task's sibling {sibling:?} failed"),
            Self::LeaderEnded => "Leader Task in Group dead".to_owned(),
            Self::MainTasksEnded => "Main tasks in the group died".to_owned(),
        }
    }

    fn details(&self) -> BTreeMap<&'static str, String> {
        match self {
            Self::Preparing | Self::WaitsForVolume(_) => [("message", self.message())].into(),
            Self::SetupFailed(reason) => {
                [("setup_error", (*reason).to_owned()), ("fails_task", "true".to_owned())].into()
            }
            Self::Ended(RunEnd::Exited { code, signal, limits }) => {
                let mut details = BTreeMap::from([
                    ("exit_code", shell_status(*code, *signal).to_string()),
                    ("signal", signal.unwrap_or_default().to_string()),
                ]);
                if limits.memory.is_some() {
                    details.insert("oom_killed", "true".to_owned());
                }
                let reached = limits_message(limits);
                details.extend(reached.map(|message| ("exit_message", message)));
                details
            }
            Self::Ended(RunEnd::Failed { reason } | RunEnd::SourceLost { reason, .. }) => {
                [("driver_error", reason.clone())].into()
            }
            Self::VolumeLost(reason) => [("message", (*reason).to_owned())].into(),
            Self::Ended(RunEnd::Lost { reason }) => [("exit_message", reason.clone())].into(),
            Self::Restarting { reason, delay } => [
                ("restart_reason", (*reason).to_owned()),
                ("start_delay", nanoseconds(*delay).to_string()),
            ]
            .into(),
            Self::NotRestarting { reason } => {
                [("restart_reason", (*reason).to_owned()), ("fails_task", "true".to_owned())].into()
            }
            Self::RestartSignaled(reason) => [("restart_reason", (*reason).to_owned())].into(),
            Self::Killing { timeout } => [("kill_timeout", go(*timeout).to_string())].into(),
            Self::SiblingFailed(sibling) => [("failed_sibling", (*sibling).to_owned())].into(),
            Self::Received
            | Self::Started
            | Self::PluginHealthy(_)
            | Self::PluginUnhealthy(_)
            | Self::Killed
            | Self::LeaderEnded
            | Self::MainTasksEnded => BTreeMap::new(),
        }
    }
}

fn ended_message(end: &RunEnd) -> String {
    match end {
        RunEnd::Exited { code, signal, limits } => {
            let status = format!("Exit Code: {}", shell_status(*code, *signal));
            let signal = signal.map(|signal| format!("Signal: {signal}"));
            let reached = limits_message(limits);
            let reached = reached.map(|reached| format!("Exit Message: \"{reached}\""));
            let parts = [Some(status), signal, reached].into_iter().flatten();
            parts.collect::<Vec<_>>().join(", ")
        }
        RunEnd::Failed { reason } | RunEnd::SourceLost { reason, .. } => reason.clone(),
        RunEnd::Lost { reason } => format!("the task was lost: {reason}"),
    }
}

/// Returns which limits a task reached, and what to do; `None` if it reached none.
fn limits_message(limits: &LimitsReached) -> Option<String> {
    let memory = limits.memory.map(|LimitReached { count, limit }| {
        let processes = match count {
            1 => "1 process was".to_owned(),
            count => format!("{count} processes were"),
        };
        let limit = limit >> 20;
        format!(
            "OOM Killed: {processes} killed at the memory limit of {limit} MiB; raise `memory` or `memory_max` of the \
             task's `resources`"
        )
    });
    let processes = limits.processes.map(|LimitReached { count, limit }| {
        let times = match count {
            1 => "once".to_owned(),
            count => format!("{count} times"),
        };
        format!(
            "the limit of {limit} processes and threads was reached {times}; a task that needs more has to be divided \
             into several"
        )
    });
    let reached: Vec<_> = memory.into_iter().chain(processes).collect();
    (!reached.is_empty()).then(|| reached.join("; "))
}

/// Returns the status that a shell shows: 128 and the signal for a task that a signal killed.
fn shell_status(code: Option<i32>, signal: Option<i32>) -> i32 {
    code.unwrap_or_else(|| signal.map_or(0, |signal| 128 + signal))
}

fn go(duration: Duration) -> GoDuration {
    GoDuration(nanoseconds(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(occurrence: &Occurrence<'_>) -> String {
        let event = occurrence.at(1);
        let details: Vec<_> =
            event.details.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{} | {} | {}", event.kind, event.message, details.join(" "))
    }

    #[test]
    fn events_have_nomads_kinds_texts_and_details() {
        let killed = RunEnd::Exited { code: None, signal: Some(2), limits: LimitsReached::NONE };
        let memory = LimitReached { count: 1, limit: 32 << 20 };
        let out_of_memory = RunEnd::Exited {
            code: None,
            signal: Some(9),
            limits: LimitsReached { memory: Some(memory), processes: None },
        };
        let bomb = RunEnd::Exited {
            code: Some(1),
            signal: None,
            limits: LimitsReached {
                memory: Some(LimitReached { count: 2, ..memory }),
                processes: Some(LimitReached { count: 3, limit: 4096 }),
            },
        };
        let failed = RunEnd::Failed { reason: "no such file".to_owned() };
        let delay = Duration::from_nanos(18_243_597_739);
        for (occurrence, expected) in [
            (Occurrence::Received, "Received | Task received by client | "),
            (
                Occurrence::Ended(&killed),
                "Terminated | Exit Code: 130, Signal: 2 | exit_code=130 signal=2",
            ),
            (
                Occurrence::Ended(&out_of_memory),
                "Terminated | Exit Code: 137, Signal: 9, Exit Message: \"OOM Killed: 1 process was killed at the memory \
                 limit of 32 MiB; raise `memory` or `memory_max` of the task's `resources`\" | exit_code=137 \
                 exit_message=OOM Killed: 1 process was killed at the memory limit of 32 MiB; raise `memory` or \
                 `memory_max` of the task's `resources` oom_killed=true signal=9",
            ),
            (
                Occurrence::Ended(&bomb),
                "Terminated | Exit Code: 1, Exit Message: \"OOM Killed: 2 processes were killed at the memory limit of \
                 32 MiB; raise `memory` or `memory_max` of the task's `resources`; the limit of 4096 processes and \
                 threads was reached 3 times; a task that needs more has to be divided into several\" | exit_code=1 \
                 exit_message=OOM Killed: 2 processes were killed at the memory limit of 32 MiB; raise `memory` or \
                 `memory_max` of the task's `resources`; the limit of 4096 processes and threads was reached 3 times; \
                 a task that needs more has to be divided into several oom_killed=true signal=0",
            ),
            (
                Occurrence::Ended(&failed),
                "Driver Failure | no such file | driver_error=no such file",
            ),
            (
                Occurrence::Restarting { reason: "Restart within policy", delay },
                "Restarting | Task restarting in 18.243597739s | restart_reason=Restart within policy \
                 start_delay=18243597739",
            ),
            (
                Occurrence::Killing { timeout: Duration::from_secs(2) },
                "Killing | Sent interrupt. Waiting 2s before force killing | kill_timeout=2s",
            ),
            (
                Occurrence::SiblingFailed("web"),
                "Sibling Task Failed | Task's sibling \"web\" failed | failed_sibling=web",
            ),
        ] {
            assert_eq!(shown(&occurrence), expected);
        }
    }
}
