//! Conversion of the states of tasks.

use std::collections::BTreeMap;

use crate::task_state::{TaskEventDocument, TaskStateDocument};
use crate::time;
use nomad_csi_model::{TaskEvent, TaskState};

/// Converts the tasks of an allocation to JSON. Without tasks it is `null`, as before a node reports.
pub fn task_states_to_wire(
    tasks: &BTreeMap<String, TaskState>,
) -> Option<BTreeMap<String, TaskStateDocument>> {
    let documents = tasks.iter().map(|(name, task)| (name.clone(), task_state_to_wire(task)));
    (!tasks.is_empty()).then(|| documents.collect())
}

/// Converts the state of a task to JSON.
pub fn task_state_to_wire(task: &TaskState) -> TaskStateDocument {
    let at = |time: Option<i64>| time.and_then(time::to_wire);
    TaskStateDocument {
        events: task.events.iter().map(event_to_wire).collect(),
        failed: task.has_failed,
        finished_at: at(task.finished_at),
        last_restart: at(task.last_restart),
        restarts: u64::from(task.restarts),
        started_at: at(task.started_at),
        state: task.phase.as_str().to_owned(),
    }
}

fn event_to_wire(event: &TaskEvent) -> TaskEventDocument {
    TaskEventDocument {
        details: event.details.clone(),
        display_message: event.message.clone(),
        time: event.at,
        event_type: event.kind.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use nomad_csi_model::TaskPhase;

    #[test]
    fn a_task_is_written_in_nomads_words() {
        let task = TaskState {
            phase: TaskPhase::Running,
            restarts: 2,
            started_at: Some(1_500_000_000),
            events: vec![TaskEvent {
                at: 7,
                kind: "Terminated".into(),
                message: "Exit Code: 1".into(),
                details: [("exit_code".to_owned(), "1".to_owned())].into(),
            }],
            ..TaskState::default()
        };
        let written = task_states_to_wire(&[("web".to_owned(), task)].into());
        assert_eq!(
            json!(written),
            json!({"web": {
                "Events": [{"Details": {"exit_code": "1"}, "DisplayMessage": "Exit Code: 1", "Time": 7,
                    "Type": "Terminated"}],
                "Failed": false, "FinishedAt": null, "LastRestart": null, "Restarts": 2,
                "StartedAt": "1970-01-01T00:00:01.5Z", "State": "running",
            }})
        );
        assert_eq!(task_states_to_wire(&BTreeMap::new()), None);
    }
}
