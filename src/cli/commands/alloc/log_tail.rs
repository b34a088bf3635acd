//! The last lines of a log.
//!
//! A server is asked for bytes from the end of a log, and lines have any length. So more bytes are read until they have the
//! lines, or are the whole log. Up to [`LONGEST`] are read; then fewer lines are shown.

use nomad_csi_client::ports::{ApiError, ClusterApi, LogRequest};

/// The bytes that are read first.
const FIRST: u64 = 4096;
/// The most bytes that are read.
const LONGEST: u64 = 16 << 20;

/// The last lines of a log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogTail {
    /// Their bytes.
    pub bytes: Vec<u8>,
    /// True if the log has nothing before them.
    pub is_whole: bool,
}

/// Reads the last lines of the log that `request` names.
///
/// # Errors
/// If the server refuses.
pub(super) async fn read_tail(
    api: &dyn ClusterApi,
    request: &LogRequest,
    lines: usize,
) -> Result<LogTail, ApiError> {
    let mut from_end = FIRST;
    loop {
        let request = LogRequest { follows: false, from_end: Some(from_end), ..request.clone() };
        let bytes = read_all(api, &request).await?;
        let is_whole = length(&bytes) < from_end;
        if let Some(tail) = last_lines(&bytes, lines, is_whole || from_end >= LONGEST) {
            let is_whole = is_whole && tail.len() == bytes.len();
            return Ok(LogTail { bytes: tail.to_vec(), is_whole });
        }
        from_end = from_end.saturating_mul(4).min(LONGEST);
    }
}

/// Reads a log up to its end now, and no more than the longest tail and what is written in the meantime.
async fn read_all(api: &dyn ClusterApi, request: &LogRequest) -> Result<Vec<u8>, ApiError> {
    let mut log = api.open_log(request).await?;
    let mut bytes = vec![];
    while let Some(piece) = log.next_piece().await? {
        bytes.extend_from_slice(&piece);
        if length(&bytes) >= 2 * LONGEST {
            break;
        }
    }
    Ok(bytes)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Returns the last lines; `None` if the bytes begin within one of them. If they are all there is to see, fewer lines are an
/// answer.
fn last_lines(bytes: &[u8], lines: usize, is_all: bool) -> Option<&[u8]> {
    let Some(before) = lines.checked_sub(1) else {
        return Some(&[]);
    };
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match ends.map(|(at, _)| at).nth(before) {
        Some(at) => bytes.get(at + 1..),
        None => is_all.then_some(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_whole_or_more_bytes_are_read() {
        let last = |text: &'static str, lines, is_all| {
            last_lines(text.as_bytes(), lines, is_all)
                .map(|found| std::str::from_utf8(found).unwrap())
        };
        for (text, lines, expected) in [
            ("a\nb\nc\n", 0, Some("")),
            ("a\nb\nc\n", 1, Some("c\n")),
            ("a\nb\nc\n", 2, Some("b\nc\n")),
            ("a\nb\nc\n", 3, None),
            ("a\nb", 1, Some("b")),
            ("", 1, None),
        ] {
            assert_eq!(last(text, lines, false), expected, "{text:?} {lines}");
        }
        assert_eq!(last("a\nb\nc\n", 9, true), Some("a\nb\nc\n"));
        assert_eq!(last("", 1, true), Some(""));
    }
}
