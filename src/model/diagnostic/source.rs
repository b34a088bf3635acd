//! The source texts that labels refer to.
//!
//! A [`Span`] is a byte range in one text of a [`SourceMap`]. Lines and columns are computed only
//! for output. Columns count characters and start at 1, as in editors.
//!
//! A specification may contain secrets, and a diagnostic shows source lines. The parser marks
//! secrets with [`SourceMap::hide`]; output uses [`SourceMap::redacted_text`]. Each hidden character
//! becomes a placeholder of the same length in bytes, so spans and columns fit both texts.

use std::ops::Range;
use std::sync::Arc;

use super::lines::LineIndex;

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
    /// Returns the byte range.
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether another span is a part of this one.
    pub fn contains(self, part: Self) -> bool {
        self.source == part.source && self.start <= part.start && part.end <= self.end
    }

    /// Returns the smallest span that contains both. Ignores `other` if it belongs to another text.
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

/// The start of a span for output: line and column from 1, the column in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

#[derive(Clone)]
struct Source {
    name: String,
    text: Arc<str>,
    lines: Arc<LineIndex>,
    /// Sorted ranges that do not touch each other.
    hidden: Vec<Range<usize>>,
    is_withheld: bool,
}

/// Omits the text, which may contain secrets.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.text.len())
    }
}

/// All source texts of one run.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Arc<Source>>,
}

impl SourceMap {
    /// Adds a text under its display name (a path, or `<stdin>`).
    ///
    /// A text may have at most `u32::MAX` bytes; the readers of files enforce a lower limit.
    pub fn add(&mut self, name: impl Into<String>, text: impl Into<Arc<str>>) -> SourceId {
        let text = text.into();
        let lines = Arc::new(LineIndex::new(&text));
        let id = SourceId(offset(self.sources.len()));
        let name = name.into();
        self.sources.push(Arc::new(Source {
            name,
            text,
            lines,
            hidden: vec![],
            is_withheld: false,
        }));
        id
    }

    /// Marks a text of which nothing may be shown, not even in messages: it may be another file than
    /// the person who gave it knows.
    pub fn withhold(&mut self, id: SourceId) {
        Arc::make_mut(&mut self.sources[id.0 as usize]).is_withheld = true;
        self.hide(Self::span(id, 0..self.source(id).text.len()));
    }

    /// Returns whether nothing of a text may be shown.
    pub fn is_withheld(&self, id: SourceId) -> bool {
        self.source(id).is_withheld
    }

    /// Marks a range as secret: [`SourceMap::redacted_text`] does not contain it.
    pub fn hide(&mut self, span: Span) {
        let hidden = &mut Arc::make_mut(&mut self.sources[span.source.0 as usize]).hidden;
        let range = span.range();
        if range.is_empty() {
            return;
        }
        let from = hidden.partition_point(|other| other.end < range.start);
        let to = hidden.partition_point(|other| other.start <= range.end);
        let joined = hidden[from..to]
            .iter()
            .fold(range, |joined, other| joined.start.min(other.start)..joined.end.max(other.end));
        hidden.splice(from..to, [joined]);
    }

    /// Returns the text with hidden characters replaced. Lines and offsets are unchanged.
    pub fn redacted_text(&self, id: SourceId) -> Arc<str> {
        let source = self.source(id);
        if source.hidden.is_empty() {
            return Arc::clone(&source.text);
        }
        self.redacted_snippet(Self::span(id, 0..source.text.len())).into()
    }

    /// Returns the redacted text of a span; empty if the span lies outside its text.
    pub fn redacted_snippet(&self, span: Span) -> String {
        let mut hidden = self.hidden_ranges_from(span).iter().peekable();
        let snippet = self.snippet(span).char_indices().map(|(at, c)| {
            let at = span.start as usize + at;
            while hidden.next_if(|range| range.end <= at).is_some() {}
            let is_hidden = hidden.peek().is_some_and(|range| range.start <= at);
            if is_hidden { placeholder(c) } else { c }
        });
        snippet.collect()
    }

    /// Returns whether any character of the span is hidden.
    pub fn is_hidden(&self, span: Span) -> bool {
        let first = self.hidden_ranges_from(span).first();
        first.is_some_and(|range| range.start < span.range().end)
    }

    /// Returns the hidden ranges of a text, in ascending order.
    pub fn hidden_ranges(&self, id: SourceId) -> &[Range<usize>] {
        &self.source(id).hidden
    }

    /// Returns the hidden ranges of the text that end after the start of the span.
    fn hidden_ranges_from(&self, span: Span) -> &[Range<usize>] {
        let hidden = &self.source(span.source).hidden;
        &hidden[hidden.partition_point(|range| range.end <= span.start as usize)..]
    }

    /// Returns the display name of a text.
    pub fn name(&self, id: SourceId) -> &str {
        &self.source(id).name
    }

    /// Returns the whole text including secrets, for parsing only.
    pub fn text(&self, id: SourceId) -> &Arc<str> {
        &self.source(id).text
    }

    /// Returns the span of a byte range.
    pub fn span(id: SourceId, range: Range<usize>) -> Span {
        Span { source: id, start: offset(range.start), end: offset(range.end) }
    }

    /// Returns the text of a span including secrets; empty if the span lies outside its text.
    pub fn snippet(&self, span: Span) -> &str {
        self.source(span.source).text.get(span.range()).unwrap_or_default()
    }

    /// Returns line and column of the first character of a span.
    pub fn location(&self, span: Span) -> Location {
        let source = self.source(span.source);
        let (line, column) = source.lines.location(&source.text, span.start as usize);
        Location { line, column }
    }

    fn source(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }
}

/// Returns the replacement of a hidden character, with the same number of bytes. Line breaks stay.
fn placeholder(hidden: char) -> char {
    match (hidden, hidden.len_utf8()) {
        ('\n' | '\r', _) => hidden,
        (_, 1) => '*',
        (_, 2) => '·',
        (_, 3) => '•',
        _ => '𐄁',
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
        assert_eq!(at(" x"), Location { line: 2, column: 12 });
    }

    #[test]
    fn hidden_text_keeps_its_place_and_its_length() {
        let mut sources = SourceMap::default();
        let text = "a = \"hä日🦀x\"\nb = \"seen\"\n";
        let id = sources.add("volume.hcl", text);
        assert_eq!(&*sources.redacted_text(id), text);
        sources.hide(SourceMap::span(id, 4..17));
        let shown = sources.redacted_text(id);
        assert_eq!(&*shown, "a = **·•𐄁**\nb = \"seen\"\n");
        assert_eq!(shown.len(), text.len());
        assert_eq!(&*sources.redacted_snippet(SourceMap::span(id, 0..6)), "a = **");
        assert!(sources.is_hidden(SourceMap::span(id, 0..5)));
        assert!(!sources.is_hidden(SourceMap::span(id, 0..4)));
        assert!(!format!("{sources:?}").contains("seen"));
        for range in [21..23, 30..40, 22..24, 0..1, 3..5] {
            sources.hide(SourceMap::span(id, range));
        }
        assert_eq!(&*sources.redacted_text(id), "* =***·•𐄁**\nb =***een\"\n");
    }

    #[test]
    fn an_empty_text_has_a_first_line() {
        let mut sources = SourceMap::default();
        let id = sources.add("empty.hcl", "");
        assert_eq!(sources.location(SourceMap::span(id, 0..0)), Location { line: 1, column: 1 });
    }
}
