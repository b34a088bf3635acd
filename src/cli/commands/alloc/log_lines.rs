//! The text of a log that arrives in pieces: whole characters, and the last lines of the first piece.
//!
//! The printed text must contain no command for the runner of a pipeline, and each piece is looked at by itself. So what may begin a
//! command waits for the next piece.

use crate::cli::ui::{command_start, ends_blank};

/// How many bytes a line is expected to have, as in Nomad.
pub(super) const LINE_LENGTH: u64 = 120;

/// Turns the pieces of a log into text.
pub(super) struct LogLines {
    /// How many lines of the first piece are shown; `None` for all.
    limit: Option<usize>,
    pending: Vec<u8>,
    /// The text that may begin a command.
    held: String,
    /// True if the line so far has only blanks.
    is_blank: bool,
}

impl LogLines {
    /// Creates a reader that shows at most these lines of the first piece.
    pub(super) fn new(limit: Option<usize>) -> Self {
        Self { limit, pending: vec![], held: String::new(), is_blank: true }
    }

    /// Adds a piece and returns the text to show. The start of a character or of a command waits for its rest.
    pub(super) fn push(&mut self, piece: &[u8]) -> String {
        self.pending.extend_from_slice(piece);
        let complete = self.pending.len() - incomplete_end(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let text = match self.limit.take() {
            Some(limit) => last_lines(&text, limit).to_owned(),
            None => text,
        };
        let mut shown = std::mem::take(&mut self.held) + &text;
        let held = command_start(&shown, self.is_blank);
        self.held = shown.split_off(shown.len() - held);
        self.is_blank = ends_blank(&shown, self.is_blank);
        shown
    }

    /// Returns what is left at the end of the log.
    pub(super) fn finish(self) -> String {
        self.held + &String::from_utf8_lossy(&self.pending)
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

fn last_lines(text: &str, limit: usize) -> &str {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let Some(before) = limit.checked_sub(1) else {
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
        for (limit, expected) in [(0, ""), (1, "c\n"), (2, "b\nc\n"), (9, "a\nb\nc\n")] {
            let mut lines = LogLines::new(Some(limit));
            assert_eq!(lines.push(b"a\nb\nc\n"), expected, "{limit}");
            assert_eq!(lines.push(b"d\ne\n"), "d\ne\n");
        }
        assert_eq!(last_lines("a\nb", 1), "b");
    }

    /// Each piece is printed without commands by itself.
    #[test]
    fn a_command_that_two_pieces_share_is_broken_up() {
        use crate::cli::ui::without_commands;
        for text in [
            "::error::x\n",
            "a\n  ::error::x\n",
            "\u{1b}[31m::error::x\n",
            "a ##vso[task]x\n",
            "##[error]x",
            "####vso[x",
            ":\u{1b}[31m:error x::y",
            "#\u{1b}[0m#[error]x",
            "##\u{1b}[1mvso[x",
        ] {
            let whole = without_commands(text);
            assert_ne!(whole, text);
            for split in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                for second in split..=text.len() {
                    let mut lines = LogLines::new(None);
                    let pieces = [&text[..split], &text[split..second], &text[second..]];
                    let shown = pieces.map(|piece| without_commands(&lines.push(piece.as_bytes())));
                    let shown = shown.concat() + &without_commands(&lines.finish());
                    // A colour that is cut is shown as text, and then the line does not begin with the command.
                    let colour = text.find('\u{1b}');
                    let end = text.find('m').unwrap_or(0);
                    let is_cut = |at: usize| colour.is_some_and(|colour| at > colour && at <= end);
                    let is_cut_colour = is_cut(split) || is_cut(second);
                    let again = without_commands(&shown);
                    assert!(is_cut_colour || again == shown, "{split} {second}: {shown:?}");
                }
            }
        }
        let mut lines = LogLines::new(None);
        let shown = ["a: b:", "c #", " d:", "\n:", " e"].map(|piece| lines.push(piece.as_bytes()));
        assert_eq!(shown, ["a: b:", "c ", "# d:", "\n", ": e"]);
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
