//! What is written at a position of a text.

use std::ops::Range;

/// A place in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The keys and labels that lead to it.
    pub(crate) path: Vec<String>,
    /// What is there.
    pub(crate) target: Target,
}

/// What is at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A comment, a label, or what is not understood.
    Nothing,
    /// A key.
    Key(Written),
    /// A value of this key.
    Value(String, Written),
    /// A part of an expression.
    Expression(String, Written),
}

/// A word, or the content of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) range: Range<usize>,
    /// True if it is between quotes, or needs none.
    pub(crate) is_quoted: bool,
}

impl Cursor {
    pub(crate) fn nothing() -> Self {
        Self { path: vec![], target: Target::Nothing }
    }

    /// Returns the path for a search in tables.
    pub(crate) fn path(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }
}

/// Returns the word around an offset.
pub(crate) fn word_around(
    text: &str,
    offset: usize,
    is_part: impl Fn(char) -> bool,
) -> Range<usize> {
    let (before, after) = (text.get(..offset), text.get(offset..));
    let back = before.unwrap_or_default().trim_end_matches(&is_part).len();
    let rest = after.unwrap_or_default();
    let forth = rest.len() - rest.trim_start_matches(&is_part).len();
    back..offset + forth
}

/// Returns whether a character is part of a key.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns whether a character is part of a name in an expression: `var.env`.
pub(crate) fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.')
}

/// Returns what a value is at an offset in the content of a text: a template has expressions in it.
pub(crate) fn text_target(
    text: &str,
    content: Range<usize>,
    offset: usize,
    key: String,
    is_quoted: bool,
) -> Target {
    let before = text.get(content.start..offset).unwrap_or_default();
    let opened = before.rfind("${").map(|at| at + 2);
    let is_open = opened.is_some_and(|at| !before[at..].contains('}'));
    if is_open {
        let range = word_around(text, offset, is_name);
        return Target::Expression(key, Written { range, is_quoted: true });
    }
    Target::Value(key, Written { range: content, is_quoted })
}
