//! Finds a part of a value in the source text that the value is read from.
//!
//! Escapes, indentation and folds make the two differ, so positions in the value are none in the source. The part itself
//! is mostly written as it is read: the same occurrence of it is taken.

use std::ops::Range;

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
