//! What is wrong with an expression, without the file that it is in.
//!
//! Equal expressions share one tree, so a problem holds positions relative to the text of the
//! expression. The caller adds the place of the text, and makes the diagnostic.

use std::borrow::Cow;
use std::ops::Range;

use super::place::TextPlace;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};

/// A problem of one expression.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
#[derive(Clone)]
pub(crate) struct Problem {
    /// The kind of the problem.
    pub(crate) code: Code,
    /// The position in the text of the expression.
    pub(crate) at: Range<u32>,
    /// The headline.
    pub(crate) message: String,
    /// The text at the position; may be empty.
    pub(crate) label: String,
    /// The position of what the position repeats.
    pub(crate) first: Option<Range<u32>>,
    /// A fact that explains the problem.
    pub(crate) note: Option<String>,
    /// What to do about it.
    pub(crate) help: Option<String>,
}

impl Problem {
    /// Creates a problem without label and help.
    pub(super) fn new(code: Code, at: Range<u32>, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, at, message, label: String::new(), first: None, note: None, help: None }
    }

    /// Returns the diagnostic of the expression at a place.
    pub(crate) fn into_diagnostic(self, place: TextPlace) -> Diagnostic {
        self.into_diagnostic_with(|part| place.of(part))
    }

    /// Returns the diagnostic of the expression whose parts have these places.
    pub(crate) fn into_diagnostic_with(self, place_of: impl Fn(&Range<u32>) -> Span) -> Diagnostic {
        let problem =
            Diagnostic::error(self.code, self.message).label(place_of(&self.at), self.label);
        let problem = match self.first {
            Some(first) => problem.label(place_of(&first), "first here"),
            None => problem,
        };
        let problem = match self.note {
            Some(note) => problem.note(note),
            None => problem,
        };
        match self.help {
            Some(help) => problem.help(help),
            None => problem,
        }
    }

    /// Adds the text at the position.
    #[must_use]
    pub(super) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    /// Adds the position of what is repeated.
    #[must_use]
    pub(super) fn repeats(mut self, first: Range<u32>) -> Self {
        self.first = Some(first);
        self
    }

    /// Adds a fact.
    #[must_use]
    pub(super) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Adds what to do.
    #[must_use]
    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Returns a suggestion, or `other` if no name is similar.
pub(crate) fn suggestion<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
    other: &str,
) -> String {
    // The time to compare grows with both lengths, and a map may have many keys.
    const MOST_COMPARED: usize = 1_000;
    const LONGEST: usize = 100;
    if word.len() > LONGEST {
        return other.to_owned();
    }
    let short = names.into_iter().take(MOST_COMPARED).filter(|name| name.len() <= LONGEST);
    nomad_csi_model::diagnostic::closest_match(word, short)
        .map_or_else(|| other.to_owned(), |near| format!("did you mean `{near}`?"))
}

/// Returns the beginning of a text, for a message.
pub(super) fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}
