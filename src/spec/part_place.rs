//! Finds a part of a value in the source text that the value is read from.
//!
//! Escapes, indentation and folds make the two differ, so positions in the value are none in the source. The part itself
//! is mostly written as it is read: the same occurrence of it is taken.

use std::ops::Range;

use nomad_csi_model::diagnostic::{SourceMap, Span};

/// Returns where a part of a value is in its source text; `None` if the source writes it otherwise.
pub(crate) fn place_of_part(
    source: &str,
    value: &str,
    part: &Range<usize>,
) -> Option<Range<usize>> {
    let text = value.get(part.clone())?;
    // In the source, the lines of a part may be indented.
    let text = text.lines().next().filter(|line| !line.is_empty())?;
    let before = value.match_indices(text).take_while(|(at, _)| *at < part.start).count();
    let (at, _) = source.match_indices(text).nth(before)?;
    Some(at..at + text.len())
}

/// A text and what it is read from. The text is short, because it is searched for each problem.
#[cfg_attr(test, derive(Debug))]
pub(crate) struct WrittenText {
    source: Box<str>,
    value: Box<str>,
}

impl WrittenText {
    const LONGEST: usize = 64 << 10;

    /// Keeps both texts; `None` if they are too long.
    pub(crate) fn new(source: &str, value: &str) -> Option<Self> {
        let is_short = source.len().max(value.len()) <= Self::LONGEST;
        is_short.then(|| Self { source: source.into(), value: value.into() })
    }

    /// Returns the text as it is read.
    pub(crate) fn value(&self) -> &str {
        &self.value
    }

    /// Returns the position of a part of a text whose source has this position; that of the whole if the part is not found.
    pub(crate) fn place_of(&self, part: &Range<u32>, whole: Span) -> Span {
        let found =
            place_of_part(&self.source, &self.value, &(part.start as usize..part.end as usize));
        found.map_or(whole, |found| {
            let start = whole.range().start;
            SourceMap::span(whole.source, start + found.start..start + found.end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_occurrence_of_a_part_is_found() {
        for (source, value, part, expected) in [
            ("\"a ${x}\"", "a ${x}", 2..6, Some(3)),
            ("\"$${x} ${x}\"", "$${x} ${x}", 6..10, Some(7)),
            ("\"\\t${x} ${x}\"", "\t${x} ${x}", 6..10, Some(8)),
            ("<<-E\n    a ${x\n    y}\n  E", "  a ${x\n  y}\n", 4..11, Some(11)),
            ("\"\\u0024{x}\"", "${x}", 0..4, None),
        ] {
            let found = place_of_part(source, value, &part).map(|found| found.start);
            assert_eq!(found, expected, "{source}");
        }
    }
}
