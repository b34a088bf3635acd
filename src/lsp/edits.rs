//! Changes of a text, as an editor sends them, and the change that makes one text of another.

use serde::{Deserialize, Serialize};

use super::positions::{Encoding, Lines, Range};

/// A change of a text: of a part, or of all.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TextChange {
    /// The part that is replaced; `None` for all.
    pub range: Option<Range>,
    /// The new text.
    pub text: String,
}

/// A replacement of a part of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextEdit {
    pub(crate) range: Range,
    pub(crate) new_text: String,
}

/// Returns a text after a change.
pub(crate) fn changed(text: &str, change: &TextChange, encoding: Encoding) -> String {
    let Some(range) = change.range else {
        return change.text.clone();
    };
    let lines = Lines::new(text, encoding);
    let start = lines.offset(range.start);
    let end = lines.offset(range.end).max(start);
    let (before, after) = (text.get(..start), text.get(end..));
    format!("{}{}{}", before.unwrap_or_default(), change.text, after.unwrap_or_default())
}

/// Returns the edits that make one text of another: of the lines that differ, so that the cursor of the editor stays.
pub(crate) fn difference(old: &str, new: &str, encoding: Encoding) -> Vec<TextEdit> {
    if old == new {
        return vec![];
    }
    let lines = |text: &'_ str| text.split_inclusive('\n').map(str::len).collect::<Vec<_>>();
    let (old_lines, new_lines) = (lines(old), lines(new));
    let mut start = 0;
    for (one, other) in old_lines.iter().zip(&new_lines) {
        if one != other || old.get(start..start + one) != new.get(start..start + one) {
            break;
        }
        start += one;
    }
    let (mut old_end, mut new_end) = (old.len(), new.len());
    for (one, other) in old_lines.iter().rev().zip(new_lines.iter().rev()) {
        let (old_start, new_start) = (old_end - one, new_end - other);
        let is_equal = old.get(old_start..old_end) == new.get(new_start..new_end);
        if !is_equal || old_start < start || new_start < start {
            break;
        }
        (old_end, new_end) = (old_start, new_start);
    }
    let range = Lines::new(old, encoding).range(&(start..old_end));
    let new_text = new.get(start..new_end).unwrap_or_default().to_owned();
    vec![TextEdit { range, new_text }]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(old: &str, edits: &[TextEdit]) -> String {
        edits.iter().fold(old.to_owned(), |text, edit| {
            let change = TextChange { range: Some(edit.range), text: edit.new_text.clone() };
            changed(&text, &change, Encoding::Utf16)
        })
    }

    #[test]
    fn only_the_lines_that_differ_are_replaced() {
        let edits = difference("a\nb\nc\n", "a\nx\ny\nc\n", Encoding::Utf16);
        assert_eq!(edits.len(), 1);
        assert_eq!((edits[0].range.start.line, edits[0].range.end.line), (1, 2));
        assert_eq!(edits[0].new_text, "x\ny\n");
        assert_eq!(difference("a\n", "a\n", Encoding::Utf8), []);
    }

    proptest! {
        #[test]
        fn the_edits_make_the_new_text(old in "[ab\n]{0,20}", new in "[ab\n]{0,20}") {
            prop_assert_eq!(applied(&old, &difference(&old, &new, Encoding::Utf16)), new);
        }
    }
}
