//! The position of the text of an expression in its file.

use std::ops::Range;

use nomad_csi_model::diagnostic::Span;

/// The position of the text of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextPlace {
    /// The text stands in the file as it is read.
    Exact(Span),
    /// The file writes the text in another way, such as with escapes: only the whole has a position.
    Whole(Span),
}

impl TextPlace {
    /// Returns the position of a part of the text.
    pub(crate) fn of(self, part: &Range<u32>) -> Span {
        match self {
            Self::Whole(span) => span,
            Self::Exact(span) => Span {
                start: span.start.saturating_add(part.start).min(span.end),
                end: span.start.saturating_add(part.end).min(span.end),
                ..span
            },
        }
    }
}
