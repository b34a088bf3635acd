//! What a shim says to the agent that started it: one line on standard output, and nothing more.
//!
//! The end of the output without a line means that `launch` or the shim was killed before anything was decided; the
//! agent starts them again. The shim keeps the pipe open, so the agent reads a line and not to the end.

use std::io::{self, Write as _};

/// The line of a shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShimMessage {
    /// This shim started the task.
    Started,
    /// The run was started before.
    Attached,
    /// The stop was requested before the start.
    Cancelled,
    /// The task could not be started; the state has the reason.
    Failed,
    /// The run was not started, and has no state.
    Error(String),
}

impl ShimMessage {
    /// Returns the message in a line; `None` if the line is cut or unknown.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n')?;
        match line {
            "started" => Some(Self::Started),
            "attached" => Some(Self::Attached),
            "cancelled" => Some(Self::Cancelled),
            "failed" => Some(Self::Failed),
            other => {
                let reason = other.strip_prefix("error: ")?;
                Some(Self::Error(reason.to_owned()))
            }
        }
    }

    fn line(&self) -> String {
        match self {
            Self::Started => "started\n".to_owned(),
            Self::Attached => "attached\n".to_owned(),
            Self::Cancelled => "cancelled\n".to_owned(),
            Self::Failed => "failed\n".to_owned(),
            Self::Error(reason) => format!("error: {}\n", reason.replace('\n', " ")),
        }
    }

    /// Sends the message. The agent may be gone; then it reads the state.
    pub(super) fn send(&self) {
        let mut output = io::stdout().lock();
        let sent = output.write_all(self.line().as_bytes()).and_then(|()| output.flush());
        let _agent_is_gone = sent.is_err();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_each() {
        for message in [
            ShimMessage::Started,
            ShimMessage::Attached,
            ShimMessage::Cancelled,
            ShimMessage::Failed,
            ShimMessage::Error("no space left".to_owned()),
        ] {
            assert_eq!(ShimMessage::parse(&message.line()), Some(message));
        }
        let two_lines = ShimMessage::Error("a\nb".to_owned());
        assert_eq!(two_lines.line(), "error: a b\n");
    }

    #[test]
    fn a_cut_line_is_no_message() {
        for cut in ["", "start", "started", "error: no sp", "what\n"] {
            assert_eq!(ShimMessage::parse(cut), None, "{cut:?}");
        }
    }
}
