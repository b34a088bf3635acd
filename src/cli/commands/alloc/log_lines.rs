//! The text of a log that arrives in pieces: whole characters, and whole lines if it starts within one.
//!
//! The printed text must contain no command for the runner of a pipeline, and each piece is looked at by itself. So what may begin a
//! command waits for the next piece.

use crate::cli::ui::{command_start, ends_blank, without_colours};

/// The longest text that waits for the next piece with its colours.
const LONGEST_HELD: usize = 1024;

/// Turns the pieces of a log into text.
pub(super) struct LogLines {
    /// True until the end of the line in which the log starts.
    skips_line: bool,
    pending: Vec<u8>,
    /// The text that may begin a command.
    held: String,
    /// True if the line so far has only blanks.
    is_blank: bool,
}

impl LogLines {
    /// Creates a reader of a log from its start.
    pub(super) fn new() -> Self {
        Self { skips_line: false, pending: vec![], held: String::new(), is_blank: true }
    }

    /// Creates a reader that shows nothing up to the first line end.
    pub(super) fn after_line_end() -> Self {
        Self { skips_line: true, ..Self::new() }
    }

    /// Adds a piece and returns the text to show. The start of a character or of a command waits for its rest.
    pub(super) fn push(&mut self, piece: &[u8]) -> String {
        let piece = match self.skips_line {
            false => piece,
            true => match piece.iter().position(|byte| *byte == b'\n') {
                Some(end) => {
                    self.skips_line = false;
                    piece.get(end + 1..).unwrap_or_default()
                }
                None => &[],
            },
        };
        self.pending.extend_from_slice(piece);
        let complete = self.pending.len() - incomplete_end(&self.pending);
        let bytes: Vec<u8> = self.pending.drain(..complete).collect();
        let text = String::from_utf8_lossy(&bytes);
        let mut shown = std::mem::take(&mut self.held) + &text;
        let held = command_start(&shown, self.is_blank);
        self.held = shown.split_off(shown.len() - held);
        // Only colours make it long.
        if self.held.len() > LONGEST_HELD {
            self.held = without_colours(&self.held);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_starts_within_a_line_is_shown_from_the_next_one() {
        for split in 0..="ab\nc\n".len() {
            let (first, second) = b"ab\nc\n".split_at(split);
            let mut lines = LogLines::after_line_end();
            let shown = lines.push(first) + &lines.push(second) + &lines.push(b"d\n");
            assert_eq!(shown + &lines.finish(), "c\nd\n", "{split}");
        }
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
                    let mut lines = LogLines::new();
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
        let mut lines = LogLines::new();
        let shown = ["a: b:", "c #", " d:", "\n:", " e"].map(|piece| lines.push(piece.as_bytes()));
        assert_eq!(shown, ["a: b:", "c ", "# d:", "\n", ": e"]);
    }

    /// A task can write the start of a command, and then colours without an end.
    #[test]
    fn what_waits_for_the_next_piece_is_bounded() {
        let colours = "\u{1b}[0m".repeat(200);
        for start in [":", "#", "##vso"] {
            let mut lines = LogLines::new();
            assert_eq!(lines.push(start.as_bytes()), "");
            for _ in 0..100 {
                assert_eq!(lines.push(colours.as_bytes()), "", "{start}");
                assert!(lines.held.len() <= LONGEST_HELD, "{start}: {}", lines.held.len());
            }
            assert_eq!(lines.push(b" x"), format!("{start} x"));
        }
    }

    #[test]
    fn a_character_that_two_pieces_share_is_shown_whole() {
        for split in 0..="aé😀z".len() {
            let (first, second) = "aé😀z".as_bytes().split_at(split);
            let mut lines = LogLines::new();
            let shown = lines.push(first) + &lines.push(second) + &lines.finish();
            assert_eq!(shown, "aé😀z", "{split}");
        }
        let mut cut = LogLines::new();
        assert_eq!(cut.push(&[b'a', 0xff, 0xe2]), "a\u{fffd}");
        assert_eq!(cut.finish(), "\u{fffd}");
    }
}
