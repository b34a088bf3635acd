//! What is told: a [`Diagnostic`], and [`Diagnostics`], which collects and never stops at the first.

use super::code::Code;
use super::source::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Something is ignored or will surprise; the work goes on.
    Warning,
    /// The work cannot go on.
    Error,
}

/// A place in a text and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// Said beside the place; may be empty.
    pub text: String,
}

/// A correction that could be written in place of `span`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// What to replace.
    pub span: Span,
    /// The text to put there; may have several lines.
    pub text: String,
    /// One sentence that introduces it: "a similar access mode exists".
    pub title: String,
}

/// One problem: what happened to which object, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The word that names this kind of problem for ever.
    pub code: Code,
    /// Whether the work can go on.
    pub severity: Severity,
    /// One sentence without a full stop: what happened to which object.
    pub message: String,
    /// Places; the first is the one that is at fault.
    pub labels: Vec<Label>,
    /// What to do, a sentence each.
    pub help: Vec<String>,
    /// Why, and other facts, a sentence each; a server's own words, verbatim.
    pub notes: Vec<String>,
    /// A correction that can be shown as changed lines.
    pub replacement: Option<Replacement>,
}

impl Diagnostic {
    /// An error with its message.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning with its message.
    pub fn warning(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    fn new(severity: Severity, code: Code, message: impl Into<String>) -> Self {
        let message = message.into();
        Self {
            code,
            severity,
            message,
            labels: vec![],
            help: vec![],
            notes: vec![],
            replacement: None,
        }
    }

    /// Points at a place; the first place is the one at fault.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label {
            span,
            text: text.into(),
        });
        self
    }

    /// Adds what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Adds a fact.
    #[must_use]
    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    /// Adds a correction; there is at most one.
    #[must_use]
    pub fn replace(
        mut self,
        span: Span,
        text: impl Into<String>,
        title: impl Into<String>,
    ) -> Self {
        self.replacement = Some(Replacement {
            span,
            text: text.into(),
            title: title.into(),
        });
        self
    }
}

/// Problems in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Adds one.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
    }

    /// Adds all of another collection.
    pub fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.list
            .iter()
            .any(|diagnostic| diagnostic.severity == Severity::Error)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// Puts them in the order of their places, so that a reader goes through a file once; those
    /// without a place come first.
    pub fn sort(&mut self) {
        self.list
            .sort_by_key(|diagnostic| diagnostic.labels.first().map(|label| label.span));
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            list: vec![diagnostic],
        }
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(list: I) -> Self {
        Self {
            list: list.into_iter().collect(),
        }
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}
