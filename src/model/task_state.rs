//! The state of an allocation and its tasks as a node reports it, in Nomad's words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::alloc::ClientStatus;
use super::secret_values::SecretValues;

/// Where a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskPhase {
    /// It has not started.
    #[default]
    Pending,
    /// It runs, or waits for its restart.
    Running,
    /// It has ended and will not start again.
    Dead,
}

impl TaskPhase {
    /// Returns Nomad's word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Dead => "dead",
        }
    }
}

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskEvent {
    /// The time in nanoseconds since the epoch.
    pub at: i64,
    /// The kind in Nomad's words, such as `Started` or `Setup Failure`.
    pub kind: String,
    /// A description of the event, for people.
    pub message: String,
    /// The details that programs read, such as `exit_code`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub details: BTreeMap<String, String>,
}

/// A task as its node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskState {
    /// Where it is.
    pub phase: TaskPhase,
    /// True if it failed for good.
    pub has_failed: bool,
    /// How often it was restarted.
    pub restarts: u32,
    /// The time of the last restart, in nanoseconds since the epoch.
    pub last_restart: Option<i64>,
    /// The time of the first start, in nanoseconds since the epoch.
    pub started_at: Option<i64>,
    /// The time of the end, in nanoseconds since the epoch.
    pub finished_at: Option<i64>,
    /// The newest events, oldest first; at most [`TaskState::MAX_EVENTS`].
    pub events: Vec<TaskEvent>,
}

impl TaskState {
    /// How many events are kept, as in Nomad.
    pub const MAX_EVENTS: usize = 10;

    /// Adds an event and forgets the oldest beyond the limit.
    pub fn push(&mut self, event: TaskEvent) {
        self.events.push(event);
        let excess = self.events.len().saturating_sub(Self::MAX_EVENTS);
        self.events.drain(..excess);
    }
}

/// An allocation as its node sees it. A terminal status means that no process and no mount of any of its tasks
/// exists, so its volumes can be unpublished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocReport {
    /// The status.
    pub status: ClientStatus,
    /// Why, for people; Nomad's text where it has one, such as `Tasks are running`.
    pub description: String,
    /// The tasks by name.
    pub tasks: BTreeMap<String, TaskState>,
}

impl AllocReport {
    /// Hides these values in everything that the report says.
    pub fn hide(&mut self, values: &SecretValues) {
        let hide = |text: &mut String| {
            if let Some(hidden) = values.hidden_in(text) {
                *text = hidden;
            }
        };
        let Self { status: _, description, tasks } = self;
        hide(description);
        for event in tasks.values_mut().flat_map(|task| &mut task.events) {
            let TaskEvent { at: _, kind: _, message, details } = event;
            hide(message);
            details.values_mut().for_each(hide);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_events_are_forgotten() {
        let mut task = TaskState::default();
        for at in 0..12 {
            task.push(TaskEvent {
                at,
                kind: "Started".into(),
                message: String::new(),
                details: BTreeMap::new(),
            });
        }
        let times: Vec<i64> = task.events.iter().map(|event| event.at).collect();
        assert_eq!(times, (2..12).collect::<Vec<_>>());
    }
}
