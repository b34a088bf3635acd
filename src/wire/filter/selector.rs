//! The path from a list item to one of its values.

use std::fmt;

use super::quotes::quoted;

/// The path to a value: a field of the list item, then keys of maps and places in lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selector(Vec<String>);

impl Selector {
    /// Creates a selector of a field and what is inside it.
    pub(super) fn new(field: String, inside: Vec<String>) -> Self {
        Self(std::iter::once(field).chain(inside).collect())
    }

    /// Returns the field, and the path inside it.
    pub(super) fn parts(&self) -> Option<(&str, &[String])> {
        let (field, inside) = self.0.split_first()?;
        Some((field, inside))
    }

    /// Returns the text that an unquoted value stands for.
    pub(super) fn into_value(self) -> String {
        self.0.join(".")
    }
}

/// Returns whether the text is a name that needs no quotes.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(is_name_character)
}

/// Returns whether a name can contain the character.
pub(super) fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '/')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((field, inside)) = self.parts() else {
            return Ok(());
        };
        f.write_str(field)?;
        for part in inside {
            if is_name(part) || is_number(part) {
                write!(f, ".{part}")?;
            } else {
                write!(f, "[{}]", quoted(part))?;
            }
        }
        Ok(())
    }
}
