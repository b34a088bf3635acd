//! [`Diagnostic`], one error or warning: what happened to which object, why, and what to do.

use super::code::Code;
use super::source::Span;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The operation continues, but ignores something or has an unexpected effect.
    Warning,
    /// The operation cannot continue.
    Error,
}

/// A marked place in a source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The text beside the place; may be empty.
    pub text: String,
}

/// A step on the way from a volume to the place of a problem: the block that declares it, the class that gives the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrailStep {
    /// The text before the place: "in volume `db[0]`, from `count` at".
    pub text: String,
    /// The place, if there is one.
    pub span: Option<Span>,
}

/// A suggested replacement for the text of `span`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// The text to replace.
    pub span: Span,
    /// The new text, of one or more lines.
    pub text: String,
    /// The introduction of the suggestion: "a similar access mode exists".
    pub title: String,
}

/// One problem: what happened to which object, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The stable code of this kind of problem.
    pub code: Code,
    /// Error or warning.
    pub severity: Severity,
    /// The headline without a full stop: what happened to which object.
    pub message: String,
    /// Marked places; the first is the cause.
    pub labels: Vec<Label>,
    /// How a volume that a block generates leads to the first place.
    pub trail: Vec<TrailStep>,
    /// Remedies, one sentence each.
    pub help: Vec<String>,
    /// Reasons and facts, one sentence each, and a server's error text verbatim.
    pub notes: Vec<String>,
    /// Remedies with a text of several lines to copy.
    pub block: Option<String>,
    /// A suggested correction.
    pub replacement: Option<Replacement>,
}

impl Diagnostic {
    /// Creates an error.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// Creates a warning.
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
            trail: vec![],
            help: vec![],
            notes: vec![],
            block: None,
            replacement: None,
        }
    }

    /// Marks a place. The first place is the cause.
    #[must_use]
    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds a step of the trail.
    #[must_use]
    pub fn step(mut self, text: impl Into<String>, span: Option<Span>) -> Self {
        self.trail.push(TrailStep { text: text.into(), span });
        self
    }

    /// Adds an instruction.
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

    /// Sets an instruction with a text to copy. A name in the text is quoted, and none of its lines is one here.
    #[must_use]
    pub fn block(mut self, text: impl Into<String>) -> Self {
        self.block = Some(text.into());
        self
    }

    /// Sets the suggested correction.
    #[must_use]
    pub fn replace(
        mut self,
        span: Span,
        text: impl Into<String>,
        title: impl Into<String>,
    ) -> Self {
        self.replacement = Some(Replacement { span, text: text.into(), title: title.into() });
        self
    }
}
