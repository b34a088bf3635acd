//! Forwards the output of a task to the log, line by line, and keeps the last lines.
//!
//! A task may write endless lines, invalid UTF-8 or terminal escapes. Each line is cut at
//! [`LINE_LIMIT`] and sanitized, and only the last [`KEPT_LINES`] lines stay in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The maximum length of a line in bytes. The rest is dropped.
const LINE_LIMIT: usize = 4096;
/// The number of lines to keep.
const KEPT_LINES: usize = 20;

/// The last lines of a task, shared by its streams.
#[derive(Clone, Debug, Default)]
pub(super) struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    fn push(&self, line: String) {
        let mut lines = self.0.lock();
        if lines.len() == KEPT_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns the lines, the newest last.
    pub(super) fn list(&self) -> Vec<String> {
        let lines = self.0.lock();
        lines.iter().cloned().collect()
    }
}

/// Reads `stream` to its end, logs each line at `debug` and keeps the last ones. A read error ends
/// the stream.
pub(super) async fn forward(mut stream: impl AsyncRead + Unpin, task: String, last: LastLines) {
    let mut splitter = LineSplitter::default();
    let mut buffer = vec![0; 8192];
    let mut emit = |line: String| {
        tracing::debug!(target: "nomad_csi::task", task = %task, "{line}");
        last.push(line);
    };
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        splitter.push(&buffer[..length], &mut emit);
    }
    splitter.finish(&mut emit);
}

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug, Default)]
pub(super) struct LineSplitter {
    line: Vec<u8>,
    cut: bool,
}

impl LineSplitter {
    pub(super) fn push(&mut self, bytes: &[u8], emit: &mut impl FnMut(String)) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = LINE_LIMIT - self.line.len();
            self.cut |= text.len() > room;
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() < part.len() {
                emit(self.take());
            }
        }
    }

    /// Emits the last line if it does not end in a newline.
    pub(super) fn finish(&mut self, emit: &mut impl FnMut(String)) {
        if !self.line.is_empty() {
            emit(self.take());
        }
    }

    fn take(&mut self) -> String {
        let mut text = sanitize(&self.line);
        if std::mem::take(&mut self.cut) {
            text.push('…');
        }
        self.line.clear();
        text
    }
}

/// Replaces control characters, which could move a cursor or end a line.
fn sanitize(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.trim_end_matches('\r')
        .chars()
        .map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(chunks: &[&[u8]]) -> Vec<String> {
        let (mut splitter, mut lines) = (LineSplitter::default(), vec![]);
        for chunk in chunks {
            splitter.push(chunk, &mut |line| lines.push(line));
        }
        splitter.finish(&mut |line| lines.push(line));
        lines
    }

    #[test]
    fn lines_end_at_newlines_independent_of_chunks() {
        assert_eq!(lines_of(&[b"a\nb", b"c\r\n", b"\nlast"]), ["a", "bc", "", "last"]);
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_one_is_complete() {
        let long = vec![b'x'; 3 * LINE_LIMIT];
        let lines = lines_of(&[&long, b"\nnext\n"]);
        assert_eq!(lines[0].chars().count(), LINE_LIMIT + 1);
        assert!(lines[0].ends_with('…'));
        assert_eq!(lines[1..], ["next"]);
    }

    #[test]
    fn escapes_and_invalid_utf8_are_replaced() {
        assert_eq!(lines_of(&[b"\x1b[2Jcleared \xff\tend"]), ["\u{fffd}[2Jcleared \u{fffd}\tend"]);
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let last = LastLines::default();
        for number in 0..KEPT_LINES + 5 {
            last.push(number.to_string());
        }
        assert_eq!(last.list().len(), KEPT_LINES);
        assert_eq!(last.list().last().map(String::as_str), Some("24"));
    }
}
