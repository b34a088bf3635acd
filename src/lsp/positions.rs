//! Positions of the protocol: a line, and a number of UTF-8 or UTF-16 units in it.
//!
//! Every offset has a position, and every position an offset: one behind the end of its line is the end of the line, and one
//! inside a character is the start of the character.

use serde::{Deserialize, Serialize};

/// The units that columns count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Bytes.
    Utf8,
    /// What editors count that say nothing else.
    #[default]
    Utf16,
}

impl Encoding {
    /// Returns its name in the protocol.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Utf8 => "utf-8",
            Self::Utf16 => "utf-16",
        }
    }

    fn units(self, text: &str) -> usize {
        match self {
            Self::Utf8 => text.len(),
            Self::Utf16 => text.chars().map(char::len_utf16).sum(),
        }
    }
}

/// A position in a text, from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The units before it in the line.
    pub character: u32,
}

/// A part of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Range {
    /// Its first position.
    pub start: Position,
    /// The position behind it.
    pub end: Position,
}

impl Range {
    /// Returns whether two ranges share a position.
    pub(crate) fn touches(&self, other: &Self) -> bool {
        self.start <= other.end && other.start <= self.end
    }
}

/// The lines of a text.
pub(crate) struct Lines<'t> {
    text: &'t str,
    encoding: Encoding,
    /// The start of each line.
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(crate) fn new(text: &'t str, encoding: Encoding) -> Self {
        let bytes = text.as_bytes();
        let mut starts = vec![0];
        for (at, byte) in bytes.iter().enumerate() {
            let is_end = match byte {
                b'\n' => true,
                b'\r' => bytes.get(at + 1) != Some(&b'\n'),
                _ => false,
            };
            if is_end {
                starts.push(at + 1);
            }
        }
        Self { text, encoding, starts }
    }

    /// Returns the position of an offset in bytes.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = floor(self.text, offset);
        let line = self.starts.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.starts.get(line).copied().unwrap_or_default();
        let before = self.text.get(start..offset).unwrap_or_default();
        Position { line: number(line), character: number(self.encoding.units(before)) }
    }

    /// Returns the range of a range of bytes.
    pub(crate) fn range(&self, range: &std::ops::Range<usize>) -> Range {
        Range { start: self.position(range.start), end: self.position(range.end.max(range.start)) }
    }

    /// Returns the offset in bytes of a position.
    pub(crate) fn offset(&self, position: Position) -> usize {
        let Some(line) = self.line(position.line as usize) else {
            return self.text.len();
        };
        let content = self.text.get(line.clone()).unwrap_or_default();
        let content = content.trim_end_matches(['\n', '\r']);
        let mut left = position.character as usize;
        for (at, c) in content.char_indices() {
            let units = match self.encoding {
                Encoding::Utf8 => c.len_utf8(),
                Encoding::Utf16 => c.len_utf16(),
            };
            if left < units {
                return line.start + at;
            }
            left -= units;
        }
        line.start + content.len()
    }

    fn line(&self, index: usize) -> Option<std::ops::Range<usize>> {
        let start = *self.starts.get(index)?;
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        Some(start..end)
    }
}

/// Returns the start of the character at an offset.
pub(crate) fn floor(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn columns_count_the_units_of_the_encoding() {
        let text = "a = \"ä🦀x\"\r\nb\rc\n";
        let x = text.find('x').unwrap_or_default();
        for (encoding, character) in [(Encoding::Utf8, 11), (Encoding::Utf16, 8)] {
            let lines = Lines::new(text, encoding);
            assert_eq!(lines.position(x), Position { line: 0, character });
            assert_eq!(lines.offset(Position { line: 0, character }), x);
            let of = |line, character| lines.offset(Position { line, character });
            assert_eq!(of(0, 99), text.find('\r').unwrap_or_default());
            assert_eq!(&text[of(1, 0)..of(1, 9)], "b");
            assert_eq!(&text[of(2, 0)..of(2, 9)], "c");
            assert_eq!(of(3, 5), text.len());
            assert_eq!(of(99, 0), text.len());
        }
        // A position inside of a character is its start.
        let crab = text.find('🦀').unwrap_or_default();
        let inside = Position { line: 0, character: 7 };
        assert_eq!(Lines::new(text, Encoding::Utf16).offset(inside), crab);
    }

    proptest! {
        #[test]
        fn an_offset_has_a_position_that_leads_back(text in "[aä🦀\n\r \"]{0,30}", at in 0usize..100) {
            for encoding in [Encoding::Utf8, Encoding::Utf16] {
                let lines = Lines::new(&text, encoding);
                let at = floor(&text, at);
                // Between the two characters of a line end there is no position.
                prop_assume!(!(text[..at].ends_with('\r') && text[at..].starts_with('\n')));
                prop_assert_eq!(lines.offset(lines.position(at)), at);
            }
        }
    }
}
