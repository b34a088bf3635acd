//! What the runner of a task remembers beyond the life of the agent: `task.json` in the task's directory.
//!
//! The runs themselves are remembered by their directories. This file says what was decided about them: how often
//! the task was restarted, which end of a run was dealt with, and whether the task has ended. A damaged file counts
//! as none: the newest run is then decided once more.

use serde::{Deserialize, Serialize};

/// The version of the file that this program writes. It reads every version up to this one.
const VERSION: u32 = 1;

/// The restarts of a task in the current interval of its policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RestartWindow {
    /// The start of the interval in nanoseconds since the epoch; 0 before the first run.
    pub(super) started_at: i64,
    /// The restarts since then.
    pub(super) restarts: u32,
}

/// The record of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskRecord {
    version: u32,
    /// The driver of its runs.
    pub(super) driver: String,
    /// The restarts in the current interval.
    pub(super) window: RestartWindow,
    /// All restarts.
    pub(super) restarts: u32,
    /// The number of the newest run whose end was dealt with; 0 if there is none.
    pub(super) decided_run: u32,
    /// True if the task failed; `None` until it has ended for good.
    pub(super) has_failed: Option<bool>,
    /// The run whose plugin had no call under way when its agent stopped, and no other one since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) idle_run: Option<u32>,
}

impl TaskRecord {
    /// Creates the record of a task that never ran.
    pub(super) fn new(driver: &str) -> Self {
        Self {
            version: VERSION,
            driver: driver.to_owned(),
            window: RestartWindow::default(),
            restarts: 0,
            decided_run: 0,
            has_failed: None,
            idle_run: None,
        }
    }

    /// Reads a record; `None` if it is damaged or of a later version.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(text).ok()?;
        (record.version <= VERSION).then_some(record)
    }

    /// Returns the text of the record.
    ///
    /// # Errors
    /// Never: all its fields are texts and numbers.
    pub(super) fn to_text(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of an agent that did not know of idle plugins.
    #[test]
    fn an_earlier_record_is_read() {
        let text = r#"{"version":1,"driver":"exec","window":{"started_at":7,"restarts":0},"restarts":0,
            "decided_run":2,"has_failed":null}"#;
        let record = TaskRecord::parse(text.as_bytes()).unwrap();
        assert_eq!((record.decided_run, record.idle_run), (2, None));
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let mut record = TaskRecord::new("exec");
        record.window = RestartWindow { started_at: 7, restarts: 2 };
        record.has_failed = Some(false);
        let text = record.to_text().unwrap();
        assert_eq!(TaskRecord::parse(&text), Some(record.clone()));
        assert_eq!(TaskRecord::parse(&text[..text.len() / 2]), None);
        assert_eq!(TaskRecord::parse(b""), None);
        record.version = VERSION + 1;
        assert_eq!(TaskRecord::parse(&record.to_text().unwrap()), None);
    }
}
