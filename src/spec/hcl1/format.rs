//! Formats HCL: changes the white space between tokens, and nothing else.
//!
//! A line is indented by two spaces below the line that opened its bracket. Items of one line that follow each other have
//! their `=` in one column, and their comments too, unless that column is far to the right. Tokens, comments,
//! here-documents and expressions of HCL2 stay as they are; lines are never joined, split or ordered. Of several empty lines
//! one is left. All lines end as the first one does, except those within a token.

use std::ops::Range;

use super::token::{Kind, Scanner, comment_length};
use crate::parse_error::ParseError;

/// A token or a comment.
#[derive(Clone, Copy)]
struct Piece {
    kind: PieceKind,
    start: usize,
    end: usize,
    /// The number of line breaks before it.
    breaks: usize,
    /// True if white space is before it.
    is_apart: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceKind {
    Token(Kind),
    /// An expression of HCL2, which has other tokens.
    Expression,
    Comment,
}

/// The last column in which anything is aligned. One long key must not widen a thousand lines.
const LAST_COLUMN: usize = 120;

/// How many times larger a text may become by its indentation.
const MOST_GROWTH: usize = 4;

/// A text of this many bytes is never too large.
const MIN_LIMIT: usize = 1 << 20;

/// The pieces of one line.
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a line")]
struct Line {
    pieces: Range<usize>,
    level: usize,
    /// True if it is a whole item, `key = value`.
    is_item: bool,
    /// True if its last piece is a comment after something else.
    has_comment: bool,
    /// True if a piece has several lines.
    is_long: bool,
    /// True if the end of a text is not certain.
    is_doubtful: bool,
}

/// Returns the text with its white space in order. `expressions` are the places of its expressions, in ascending order.
///
/// # Errors
/// If the text has something that is no token.
pub(crate) fn format(text: &str, expressions: &[Range<usize>]) -> Result<String, ParseError> {
    let pieces = pieces(text, expressions)?;
    let lines = lines(text, &pieces);
    let line_end = line_end(text, &pieces);
    let mut written = Written { text, pieces: &pieces, line_end, out: String::new() };
    written.out.reserve(text.len() + text.len() / 8);
    let mut at = 0;
    while at < lines.len() {
        at = written.run(&lines, at);
        if written.is_too_large() {
            let start = pieces.first().map_or(0, |piece| piece.start);
            return Err(ParseError::syntax(
                start..start,
                "indentation would make the text more than four times as long",
            ));
        }
    }
    Ok(written.out)
}

/// Returns the places of all tokens, expressions and comments. The format changes none of them.
///
/// # Errors
/// See [`format`].
pub(crate) fn places(
    text: &str,
    expressions: &[Range<usize>],
) -> Result<Vec<Range<usize>>, ParseError> {
    Ok(pieces(text, expressions)?.iter().map(|piece| piece.start..piece.end).collect())
}

/// Returns how lines end: as the first one that ends between two pieces, because others belong to a piece and stay.
fn line_end(text: &str, pieces: &[Piece]) -> &'static str {
    let starts = pieces.iter().skip(1).map(|piece| piece.start).chain([text.len()]);
    let gaps = pieces.iter().zip(starts).filter_map(|(piece, start)| text.get(piece.end..start));
    let ends = gaps.filter_map(|gap| gap.split_once('\n'));
    let first = ends.map(|(before, _)| before).next();
    match first.or_else(|| Some(text.split_once('\n')?.0)) {
        Some(before) if before.ends_with('\r') => "\r\n",
        Some(_) | None => "\n",
    }
}

fn pieces(text: &str, expressions: &[Range<usize>]) -> Result<Vec<Piece>, ParseError> {
    let mut scanner = Scanner::new(text);
    let mut pieces = Vec::with_capacity(text.len() / 6);
    let mut expressions = expressions.iter().peekable();
    loop {
        let before = scanner.at;
        scanner.skip_blanks()?;
        let start = scanner.at;
        while expressions.next_if(|range| range.start < start).is_some() {}
        if let Some(range) = expressions.next_if(|range| range.start == start && !range.is_empty())
        {
            let (breaks, is_apart) = comments(text, before..start, &mut pieces);
            let end = without_return(text, start..range.end);
            pieces.push(Piece { kind: PieceKind::Expression, start, end, breaks, is_apart });
            scanner.at = range.end;
            continue;
        }
        let token = scanner.next()?;
        let (breaks, is_apart) = comments(text, before..token.start, &mut pieces);
        if token.kind == Kind::End {
            return Ok(pieces);
        }
        let kind = PieceKind::Token(token.kind);
        let end = match token.kind {
            Kind::Heredoc => without_return(text, token.range()),
            _ => token.end,
        };
        pieces.push(Piece { kind, start: token.start, end, breaks, is_apart });
    }
}

/// Returns the end of a piece without the first half of a line break.
fn without_return(text: &str, range: Range<usize>) -> usize {
    let written = text.get(range.clone()).map(|written| written.trim_end_matches('\r').len());
    written.map_or(range.end, |length| range.start + length)
}

/// Adds the comments of a gap. Returns the line breaks after the last one, and whether there is white space.
fn comments(text: &str, gap: Range<usize>, pieces: &mut Vec<Piece>) -> (usize, bool) {
    let mut at = gap.start;
    loop {
        let rest = &text[at..gap.end];
        let blank = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        let blanks = rest.len() - blank.len();
        let breaks = rest[..blanks].bytes().filter(|byte| *byte == b'\n').count();
        at += blanks;
        let length = comment_length(blank).unwrap_or(0);
        if length == 0 {
            return (breaks, blanks > 0);
        }
        let end = (at + length).min(gap.end);
        pieces.push(Piece {
            kind: PieceKind::Comment,
            start: at,
            end: without_return(text, at..end),
            breaks,
            is_apart: blanks > 0,
        });
        at = end;
    }
}

fn is_open(kind: PieceKind) -> bool {
    matches!(kind, PieceKind::Token(Kind::OpenBrace | Kind::OpenBracket | Kind::Other('(')))
}

fn is_close(kind: PieceKind) -> bool {
    matches!(kind, PieceKind::Token(Kind::CloseBrace | Kind::CloseBracket | Kind::Other(')')))
}

fn is_word(kind: PieceKind) -> bool {
    matches!(kind, PieceKind::Token(Kind::Identifier | Kind::Text))
}

fn lines(text: &str, pieces: &[Piece]) -> Vec<Line> {
    let mut lines = vec![];
    // The level of the line on which each open bracket is.
    let mut open: Vec<usize> = vec![];
    let mut start = 0;
    while let Some(first) = pieces.get(start) {
        let rest = &pieces[start + 1..];
        let length = 1 + rest.iter().take_while(|piece| piece.breaks == 0).count();
        let line = &pieces[start..start + length];
        let mut level = open.last().map_or(0, |level| level + 1);
        let mut starts = is_close(first.kind);
        let mut depth = 0usize;
        let mut is_balanced = true;
        for piece in line {
            if is_close(piece.kind) {
                let opened_at = open.pop().unwrap_or(0);
                if starts {
                    level = opened_at;
                }
                is_balanced &= depth > 0;
                depth = depth.saturating_sub(1);
                continue;
            }
            starts = false;
            if is_open(piece.kind) {
                open.push(level);
                depth += 1;
            }
        }
        let is_long = line.iter().any(|piece| has_break(text, piece));
        let assigned =
            line.get(1).is_some_and(|piece| piece.kind == PieceKind::Token(Kind::Assign));
        lines.push(Line {
            pieces: start..start + length,
            level,
            is_item: is_word(first.kind) && assigned && is_balanced && depth == 0 && !is_long,
            has_comment: length > 1
                && line.last().is_some_and(|piece| piece.kind == PieceKind::Comment),
            is_long,
            is_doubtful: line.iter().any(|piece| is_doubtful(text, piece)),
        });
        start += length;
    }
    lines
}

fn has_break(text: &str, piece: &Piece) -> bool {
    match piece.kind {
        PieceKind::Token(Kind::Heredoc) => true,
        PieceKind::Token(Kind::Text) | PieceKind::Expression | PieceKind::Comment => {
            text.as_bytes()[piece.start..piece.end].contains(&b'\n')
        }
        PieceKind::Token(_) => false,
    }
}

/// Returns whether a text ends within `%{`, where a quote need not be its end.
fn is_doubtful(text: &str, piece: &Piece) -> bool {
    if piece.kind != PieceKind::Token(Kind::Text) {
        return false;
    }
    let written = &text[piece.start..piece.end];
    written.rfind("%{").is_some_and(|at| !written[at..].contains('}'))
}

struct Written<'t> {
    text: &'t str,
    pieces: &'t [Piece],
    line_end: &'static str,
    out: String,
}

impl Written<'_> {
    /// Writes the lines from `start` that are aligned with each other. Returns the line after them.
    fn run(&mut self, lines: &[Line], start: usize) -> usize {
        let first = &lines[start];
        let follows = |line: &&Line| {
            let next = self.pieces.get(line.pieces.start);
            next.is_some_and(|piece| piece.breaks == 1) && line.level == first.level
        };
        let rest = lines[start + 1..].iter();
        let length = 1 + match first.is_item && !first.is_doubtful {
            true => {
                rest.take_while(|line| line.is_item && !line.is_doubtful && follows(line)).count()
            }
            false => 0,
        };
        let run = &lines[start..start + length];
        let key = |line: &Line| self.pieces.get(line.pieces.start).map_or(0, |key| self.width(key));
        let widest = if first.is_item { run.iter().map(key).max().unwrap_or(0) } else { 0 };
        let indent = 2 * first.level;
        let column = if indent + widest < LAST_COLUMN { widest } else { 0 };
        let mut at = 0;
        while at < run.len() {
            let is_aligned = |line: &&Line| line.has_comment && !line.is_long && !line.is_doubtful;
            let count = run[at..].iter().take_while(is_aligned).count();
            let widths = run[at..at + count].iter().map(|line| self.line_width(line, column));
            let widest = widths.max().unwrap_or(0);
            let comments = if indent + widest < LAST_COLUMN { widest } else { 0 };
            for line in &run[at..at + count.max(1)] {
                let is_first = start + at == 0 && line.pieces.start == 0;
                self.line(line, column, comments, is_first);
            }
            at += count.max(1);
        }
        start + length
    }

    fn width(&self, piece: &Piece) -> usize {
        let text = &self.text[piece.start..piece.end];
        if text.is_ascii() { text.len() } else { text.chars().count() }
    }

    /// Returns the width of a line without its indentation and its comment.
    fn line_width(&self, line: &Line, column: usize) -> usize {
        let mut pieces = line.pieces.clone();
        pieces.end -= usize::from(line.has_comment);
        let start = pieces.start;
        let widths = pieces.map(|at| {
            let gap = if at == start { 0 } else { self.gap(line, at, column) };
            gap + self.pieces.get(at).map_or(0, |piece| self.width(piece))
        });
        widths.sum()
    }

    /// Returns whether the text would grow too much, so that no more of it is written.
    fn is_too_large(&self) -> bool {
        self.out.len() > self.text.len().saturating_mul(MOST_GROWTH).max(MIN_LIMIT)
    }

    fn line(&mut self, line: &Line, column: usize, comments: usize, is_first: bool) {
        if self.is_too_large() {
            return;
        }
        let Some(pieces) = self.pieces.get(line.pieces.clone()) else {
            return;
        };
        let [first, .., last] = pieces else {
            if let [only] = pieces {
                self.start(line, only, is_first);
                self.out.push_str(&self.text[only.start..only.end]);
                self.out.push_str(self.line_end);
            }
            return;
        };
        self.start(line, first, is_first);
        if line.is_doubtful {
            self.out.push_str(&self.text[first.start..last.end]);
            self.out.push_str(self.line_end);
            return;
        }
        let mut width = 0;
        for (at, piece) in line.pieces.clone().zip(pieces) {
            let is_comment = line.has_comment && at + 1 == line.pieces.end;
            let gap = match at == line.pieces.start {
                true => 0,
                false if is_comment && !line.is_long => comments.saturating_sub(width) + 1,
                false => self.gap(line, at, column),
            };
            self.out.extend(std::iter::repeat_n(' ', gap));
            self.out.push_str(&self.text[piece.start..piece.end]);
            width += gap + self.width(piece);
        }
        self.out.push_str(self.line_end);
    }

    fn start(&mut self, line: &Line, first: &Piece, is_first: bool) {
        if first.breaks > 1 && !is_first {
            self.out.push_str(self.line_end);
        }
        self.out.extend(std::iter::repeat_n("  ", line.level));
    }

    /// Returns whether a `=` is the end of an operator, such as `==` or `>=`.
    fn is_operator(&self, at: usize) -> bool {
        let before = at.checked_sub(1).and_then(|before| self.pieces.get(before));
        let follows =
            before.is_some_and(|piece| matches!(piece.kind, PieceKind::Token(Kind::Other(_))));
        follows && self.pieces.get(at).is_some_and(|piece| !piece.is_apart)
    }

    /// Returns the number of spaces before a piece that is not the first of its line.
    fn gap(&self, line: &Line, at: usize, column: usize) -> usize {
        use PieceKind::Token;
        let (Some(before), Some(piece)) =
            (self.pieces.get(at.wrapping_sub(1)), self.pieces.get(at))
        else {
            return 0;
        };
        let written = usize::from(piece.is_apart);
        let is_key = at == line.pieces.start + 1 && is_word(before.kind);
        let is_value = at == line.pieces.start + 2;
        let ends_arrow = |next: Option<&Piece>| {
            next.is_some_and(|next| next.kind == Token(Kind::Other('>')) && !next.is_apart)
        };
        match (before.kind, piece.kind) {
            (_, PieceKind::Comment) | (PieceKind::Comment, _) => 1,
            (Token(Kind::OpenBrace), Token(Kind::CloseBrace)) | (_, Token(Kind::Comma)) => 0,
            (Token(Kind::Comma), Token(Kind::CloseBracket | Kind::Other(')'))) => 0,
            (Token(Kind::Comma), _) => 1,
            (_, Token(Kind::Assign)) if is_key && line.is_item => {
                (column + 1).saturating_sub(self.width(before)).max(1)
            }
            (kind, Token(Kind::Assign))
                if is_word(kind) && !ends_arrow(self.pieces.get(at + 1)) =>
            {
                1
            }
            (Token(Kind::Assign), Token(Kind::Other('>'))) if !piece.is_apart => 0,
            (Token(Kind::Assign), _) if !is_value && self.is_operator(at - 1) => written,
            (Token(Kind::Assign), _) => 1,
            (Token(Kind::OpenBrace), _) | (_, Token(Kind::CloseBrace)) => 1,
            (Token(Kind::OpenBracket | Kind::Other('(')), _)
            | (_, Token(Kind::CloseBracket | Kind::Other(')'))) => 0,
            (kind, Token(Kind::OpenBrace)) if is_word(kind) => 1,
            (Token(Kind::Identifier), Token(Kind::Text)) => 1,
            (_, _) => written,
        }
    }
}

/// Returns the kind and the place of every token and comment, for tests of the format.
#[cfg(test)]
pub(crate) fn tokens(
    text: &str,
    expressions: &[Range<usize>],
) -> Result<Vec<(TokenKind, Range<usize>)>, ParseError> {
    let pieces = pieces(text, expressions)?;
    let kind = |piece: &Piece| match piece.kind {
        PieceKind::Token(kind) => TokenKind(format!("{kind:?}")),
        PieceKind::Expression => TokenKind("Expression".to_owned()),
        PieceKind::Comment => TokenKind("Comment".to_owned()),
    };
    Ok(pieces.iter().map(|piece| (kind(piece), piece.start..piece.end)).collect())
}

/// The name of the kind of a token.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenKind(String);
