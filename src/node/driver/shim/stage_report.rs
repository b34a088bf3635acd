//! What a stage reports to its shim: its process in one line, a line when everything is prepared, then the reason if
//! it cannot become the task.
//!
//! The socket closes when the program of the task is executed. So two lines without a reason, and then the end of the
//! input, mean that the task runs. A stage that is killed while it prepares has reported one line.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::super::process_id::ProcessId;

/// The source of a mount that is not what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub(super) struct LostSource {
    /// The path of the source.
    pub(super) path: PathBuf,
    /// The reason.
    pub(super) reason: String,
}

/// The report of a stage after the end of its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StageReport {
    /// It became the task.
    Executed(ProcessId),
    /// It could not, for this reason.
    Failed(String),
    /// It did not, because a mount is gone.
    SourceLost(LostSource),
    /// It ended before it could report.
    Incomplete,
}

impl StageReport {
    /// The line before the task's program is executed.
    pub(super) const PREPARED: &str = "prepared\n";
    /// The prefix of a source that is lost, in place of a reason.
    const SOURCE_LOST: &str = "source lost: ";
    /// The number of bytes of a report that are kept.
    pub(super) const LIMIT: usize = 16 << 10;

    /// Returns the line that names the process.
    pub(super) fn first_line(process: &ProcessId) -> serde_json::Result<String> {
        Ok(serde_json::to_string(process)? + "\n")
    }

    /// Returns the text for the reason why the stage cannot become the task.
    pub(super) fn reason(error: &std::io::Error) -> String {
        let lost = error.get_ref().and_then(|inner| inner.downcast_ref());
        let lost = lost.and_then(|lost: &LostSource| serde_json::to_string(lost).ok());
        lost.map_or_else(|| error.to_string(), |lost| Self::SOURCE_LOST.to_owned() + &lost)
    }

    /// Returns what a stage reported.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let Some((process, rest)) = text.split_once('\n') else {
            return Self::Incomplete;
        };
        let Ok(process) = serde_json::from_str(process) else {
            return Self::Incomplete;
        };
        match (rest.strip_prefix(Self::PREPARED), rest) {
            (Some(""), _) => Self::Executed(process),
            (None, "") => Self::Incomplete,
            (Some(reason), _) | (None, reason) => Self::of_reason(reason),
        }
    }

    fn of_reason(reason: &str) -> Self {
        let lost = reason.strip_prefix(Self::SOURCE_LOST);
        match lost.and_then(|lost| serde_json::from_str(lost).ok()) {
            Some(lost) => Self::SourceLost(lost),
            None => Self::Failed(reason.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_the_process_and_perhaps_a_reason() {
        let process = ProcessId { pid: 5, start_time: 6, boot_id: "boot".to_owned() };
        let line = StageReport::first_line(&process).unwrap();
        let prepared = line.clone() + StageReport::PREPARED;
        let executed = StageReport::Executed(process);
        assert_eq!(StageReport::parse(prepared.as_bytes()), executed);
        for before in [&line, &prepared] {
            let failed = before.clone() + "no such file";
            let expected = StageReport::Failed("no such file".to_owned());
            assert_eq!(StageReport::parse(failed.as_bytes()), expected);
        }
        let lost =
            LostSource { path: "/a \"b\"\n".into(), reason: "nothing is mounted there".to_owned() };
        let text = StageReport::reason(&std::io::Error::other(lost.clone()));
        let report = StageReport::parse((line.clone() + &text).as_bytes());
        assert_eq!(report, StageReport::SourceLost(lost));
        for cut in ["", "\n", &line[..line.len() - 1], &line] {
            let report = StageReport::parse(cut.as_bytes());
            assert_eq!(report, StageReport::Incomplete, "{cut:?}");
        }
    }
}
