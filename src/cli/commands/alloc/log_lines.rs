//! The text of a log that arrives in pieces: whole characters, and the last lines of the first piece.

/// How many bytes a line is expected to have, as in Nomad.
pub(super) const LINE_LENGTH: u64 = 120;

/// Turns the pieces of a log into text.
pub(super) struct LogLines {
    /// How many lines of the first piece are shown; `None` for all.
    most: Option<usize>,
    pending: Vec<u8>,
}

impl LogLines {
    /// Creates a reader that shows at most these lines of the first piece.
    pub(super) fn new(most: Option<usize>) -> Self {
        Self {
            most,
            pending: vec![],
        }
    }

    /// Adds a piece and returns the text to show. The start of a character waits for its rest.
    pub(super) fn push(&mut self, piece: &[u8]) -> String {
        self.pending.extend_from_slice(piece);
        let complete = self.pending.len() - incomplete_end(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        match self.most.take() {
            Some(most) => last_lines(&text, most).to_owned(),
            None => text,
        }
    }

    /// Returns what is left at the end of the log.
    pub(super) fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Returns how many bytes at the end begin a character that is not complete.
fn incomplete_end(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    (from..bytes.len())
        .map(|at| &bytes[at..])
        .find(|end| {
            std::str::from_utf8(end)
                .is_err_and(|error| error.error_len().is_none() && error.valid_up_to() == 0)
        })
        .map_or(0, <[u8]>::len)
}

fn last_lines(text: &str, most: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let Some(before) = most.checked_sub(1) else {
        return "";
    };
    let start = body.rmatch_indices('\n').nth(before);
    start.map_or(text, |(at, _)| &text[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_lines_of_the_first_piece_are_shown() {
        for (most, expected) in [(0, ""), (1, "c\n"), (2, "b\nc\n"), (9, "a\nb\nc\n")] {
            let mut lines = LogLines::new(Some(most));
            assert_eq!(lines.push(b"a\nb\nc\n"), expected, "{most}");
            assert_eq!(lines.push(b"d\ne\n"), "d\ne\n");
        }
        assert_eq!(last_lines("a\nb", 1), "b");
    }

    #[test]
    fn a_character_that_two_pieces_share_is_shown_whole() {
        for split in 0..="aé😀z".len() {
            let (first, second) = "aé😀z".as_bytes().split_at(split);
            let mut lines = LogLines::new(None);
            let shown = lines.push(first) + &lines.push(second) + &lines.finish();
            assert_eq!(shown, "aé😀z", "{split}");
        }
        let mut cut = LogLines::new(None);
        assert_eq!(cut.push(&[b'a', 0xff, 0xe2]), "a\u{fffd}");
        assert_eq!(cut.finish(), "\u{fffd}");
    }
}
