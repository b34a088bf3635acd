//! Frames of a task's log: JSON objects one after another, with the data in base64.
//!
//! A frame without data keeps the connection alive. A reader gets the response in pieces that end
//! anywhere, so it keeps what follows the last complete frame for the next piece.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::decode::{DecodeError, decode};

/// A frame of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct LogFrameDocument {
    /// The data in base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// The log file, such as `alloc/logs/web.stdout.0`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// Why the data continues elsewhere: the file was truncated or deleted.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file_event: String,
    /// The offset in the file after the data.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: i64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(offset: &i64) -> bool {
    *offset == 0
}

impl LogFrameDocument {
    /// Creates a frame with data that ends at this offset of the file.
    pub fn new(data: &[u8], file: &str, offset: i64) -> Self {
        Self {
            data: STANDARD.encode(data),
            file: file.to_owned(),
            file_event: String::new(),
            offset,
        }
    }

    /// Returns the data; `None` if it is not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.data).ok()
    }
}

/// Why a log cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogFrameProblem {
    /// A frame is longer than the limit.
    #[error("a frame is longer than {0} bytes")]
    TooLong(usize),
    /// The text between two frames is not a frame.
    #[error("a frame is not as expected: {0}")]
    Invalid(DecodeError),
    /// The data of a frame is not base64.
    #[error("the data of a frame is not base64")]
    NotBase64,
}

/// Finds the frames in a response that arrives in pieces.
#[derive(Debug, Default)]
pub struct LogFrames {
    pending: Vec<u8>,
}

impl LogFrames {
    /// The longest frame that is read. Nomad sends at most 64 KiB of data in one.
    pub const MAX_FRAME: usize = 1 << 20;

    /// Adds a piece of the response, and returns the data of the frames that it completes.
    ///
    /// # Errors
    /// If a frame is too long, or is not a frame. Nothing more can be read then.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<u8>, LogFrameProblem> {
        self.pending.extend_from_slice(piece);
        let mut data = vec![];
        let mut at = 0;
        while let Some(end) = end_of_object(&self.pending[at..]) {
            let frame: LogFrameDocument =
                decode(&self.pending[at..at + end]).map_err(LogFrameProblem::Invalid)?;
            data.extend(frame.bytes().ok_or(LogFrameProblem::NotBase64)?);
            at += end;
        }
        self.pending.drain(..at);
        match self.pending.len() > Self::MAX_FRAME {
            true => Err(LogFrameProblem::TooLong(Self::MAX_FRAME)),
            false => Ok(data),
        }
    }

    /// Returns whether the response ended between two frames.
    pub fn is_complete(&self) -> bool {
        self.pending.iter().all(u8::is_ascii_whitespace)
    }
}

/// Returns where the first JSON object ends; `None` if it is incomplete. A frame has no object in it.
fn end_of_object(text: &[u8]) -> Option<usize> {
    let mut in_text = false;
    let mut is_escaped = false;
    for (at, byte) in text.iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if in_text => is_escaped = true,
            b'"' => in_text = !in_text,
            b'}' if !in_text => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDED: &str = concat!(
        r#"{"Data":"b3V0IDExMgo=","File":"alloc/logs/w.stdout.0","Offset":788}{}"#,
        r#"{"Data":"b3V0IDExMwo=","File":"alloc/logs/w.stdout.0","Offset":796}{}"#
    );

    #[test]
    fn recorded_frames_are_read_in_pieces_of_every_length() {
        for length in 1..=RECORDED.len() {
            let mut frames = LogFrames::default();
            let mut data = vec![];
            for piece in RECORDED.as_bytes().chunks(length) {
                data.extend(frames.push(piece).expect("the frames are valid"));
            }
            assert!(frames.is_complete());
            assert_eq!(String::from_utf8_lossy(&data), "out 112\nout 113\n", "{length}");
        }
    }

    #[test]
    fn a_frame_is_written_as_it_was_recorded() {
        let frame = LogFrameDocument::new(b"out 112\n", "alloc/logs/w.stdout.0", 788);
        let text = serde_json::to_string(&frame).expect("cannot encode");
        assert_eq!(text, RECORDED[..RECORDED.find("{}").expect("no heartbeat")]);
        let empty = serde_json::to_string(&LogFrameDocument::default()).expect("cannot encode");
        assert_eq!(empty, "{}");
    }

    #[test]
    fn a_response_that_is_no_log_is_an_error() {
        let mut frames = LogFrames::default();
        assert_eq!(frames.push(br#"{"Data":"*"}"#), Err(LogFrameProblem::NotBase64));
        let long = vec![b' '; LogFrames::MAX_FRAME + 1];
        let problem = LogFrames::default().push(&long);
        assert_eq!(problem, Err(LogFrameProblem::TooLong(LogFrames::MAX_FRAME)));
        let problem = LogFrames::default().push(b"<html>}");
        assert!(matches!(problem, Err(LogFrameProblem::Invalid(_))));
        let mut cut = LogFrames::default();
        assert_eq!(cut.push(br#"{"Data":"b3"#), Ok(vec![]));
        assert!(!cut.is_complete());
    }
}
