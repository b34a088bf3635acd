//! The texts that a label can point into.
//!
//! A [`Span`] is a range of bytes in one text of a [`SourceMap`]. Lines and columns are computed
//! only when something is shown: columns count characters, not bytes, and start at 1, as editors do.

use std::ops::Range;
use std::sync::Arc;

/// One text of a [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(u32);

/// A range of bytes in one text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// First byte after the range.
    pub end: u32,
}

impl Span {
    /// The range as indexes into the text.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The smallest span that holds both; `other` is ignored if it lies in another text.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.source != other.source {
            return self;
        }
        Self {
            source: self.source,
            start: self.start.min(other.start),
            end: self.end.max(other.end),
        }
    }
}

/// Where a span starts, as a person counts: both from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

#[derive(Debug)]
struct Source {
    name: String,
    text: Arc<str>,
    line_starts: Vec<u32>,
}

/// All texts of one run.
#[derive(Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a text under the name that a person knows it by (a path, or `<stdin>`).
    ///
    /// A text may have at most `u32::MAX` bytes: whoever reads files refuses larger ones before.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0)
            .chain(newlines.map(|(at, _)| offset(at + 1)))
            .collect();
        let id = SourceId(offset(self.sources.len()));
        self.sources.push(Source {
            name: name.into(),
            text,
            line_starts,
        });
        id
    }

    /// The name that the text was added under.
    pub fn name(&self, id: SourceId) -> &str {
        &self.source(id).name
    }

    /// The whole text.
    pub fn text(&self, id: SourceId) -> &Arc<str> {
        &self.source(id).text
    }

    /// A span over bytes `range` of a text.
    pub fn span(id: SourceId, range: Range<usize>) -> Span {
        Span {
            source: id,
            start: offset(range.start),
            end: offset(range.end),
        }
    }

    /// The text under a span; empty if the span does not lie in its text.
    pub fn snippet(&self, span: Span) -> &str {
        self.source(span.source)
            .text
            .get(span.range())
            .unwrap_or_default()
    }

    /// Line and column of a span's first character.
    pub fn location(&self, span: Span) -> Location {
        let source = self.source(span.source);
        let line = source
            .line_starts
            .partition_point(|start| *start <= span.start)
            .max(1);
        let line_start = source.line_starts[line - 1] as usize;
        let before = source
            .text
            .get(line_start..span.start as usize)
            .unwrap_or_default();
        Location {
            line,
            column: before.chars().count() + 1,
        }
    }

    fn source(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }
}

fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_and_start_at_one() {
        let mut sources = SourceMap::default();
        let text = "a = 1\nnäme = \"日本\" x";
        let id = sources.add("volume.hcl", text);
        let at = |needle: &str| {
            let start = text.find(needle).expect("needle is in the text");
            sources.location(SourceMap::span(id, start..start + needle.len()))
        };
        assert_eq!(at("a = 1"), Location { line: 1, column: 1 });
        assert_eq!(at("näme"), Location { line: 2, column: 1 });
        assert_eq!(at("\"日"), Location { line: 2, column: 8 });
        assert_eq!(
            at(" x"),
            Location {
                line: 2,
                column: 12
            }
        );
    }

    #[test]
    fn an_empty_text_has_a_first_line() {
        let mut sources = SourceMap::default();
        let id = sources.add("empty.hcl", "");
        assert_eq!(
            sources.location(SourceMap::span(id, 0..0)),
            Location { line: 1, column: 1 }
        );
    }
}
