//! The problem of a map that has a key twice, and the places of both keys.
//!
//! The parser of HCL refuses a key that is written twice in the same way, and gives the place of the second one only. The
//! place of the first one is searched in the text.

use std::ops::Range;

use super::problem::{Problem, shortened};
use crate::hcl1::{expression_end, skipped_end};
use nomad_csi_model::diagnostic::Code;

/// Returns the problem of a key of a map that an earlier one equals.
pub(super) fn equal_keys(key: Option<&str>, at: Range<u32>, first: Option<&Range<u32>>) -> Problem {
    let message = match key {
        Some(key) => format!("the map has the key `{}` twice", shortened(key)),
        None => "the map has a key twice".to_owned(),
    };
    let problem = Problem::new(Code::SpecDuplicateField, at, message).label("repeated here");
    match first {
        Some(first) => problem.repeats(first.clone()),
        None => problem,
    }
}

/// Returns the range of the key at an offset, and that of the first key of its map that is written in the same way.
pub(crate) fn places(text: &str, offset: usize) -> (Range<usize>, Option<Range<usize>>) {
    places_within(text, offset, vec![])
}

/// Returns the same for a text that is a template without quotes.
pub(super) fn places_in_template(
    text: &str,
    offset: usize,
) -> (Range<usize>, Option<Range<usize>>) {
    places_within(text, offset, vec![Open::Heredoc(text.len())])
}

fn places_within(
    text: &str,
    offset: usize,
    around: Vec<Open>,
) -> (Range<usize>, Option<Range<usize>>) {
    let repeated = key_range(text, offset);
    let written = text.get(repeated.clone()).unwrap_or_default();
    let first = open_brace(text, offset, around).and_then(|open| {
        let mut at = open + 1;
        while at < repeated.start {
            at = item_start(text, at);
            let key = key_range(text, at);
            if key.start >= repeated.start {
                return None;
            }
            if text.get(key.clone()) == Some(written) {
                return Some(key);
            }
            let value = text.get(key.end..).unwrap_or_default();
            let value = value.trim_start_matches([' ', '\t']).trim_start_matches(['=', ':']);
            let value_start = text.len() - value.trim_start_matches([' ', '\t']).len();
            at = expression_end(text, value_start, false).max(key.end + 1);
        }
        None
    });
    (repeated, first)
}

/// Returns the next offset that is no white space, comma or comment.
fn item_start(text: &str, from: usize) -> usize {
    let mut at = from;
    while let Some(rest) = text.get(at..) {
        let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', ',']);
        at = text.len() - trimmed.len();
        match trimmed.starts_with(['#', '/']).then(|| skipped_end(text, at)).flatten() {
            Some(end) => at = end,
            None => return at,
        }
    }
    text.len()
}

/// Returns the range of the key at an offset: up to the `=` or `:` after it.
fn key_range(text: &str, start: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (start, 0_usize);
    while let Some(byte) = bytes.get(at) {
        if let Some(end) = skipped_end(text, at) {
            at = end.max(at + 1);
            continue;
        }
        match byte {
            b'=' | b':' | b'\n' | b'}' if depth == 0 => break,
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    let at = at.min(text.len()).max(start);
    let length = text.get(start..at).map_or(0, |key| key.trim_end().len());
    start..start + length
}

/// What is open at an offset.
enum Open {
    /// A bracket, or the brace of `${` or `%{`, at this offset.
    Bracket(usize),
    /// A quoted text.
    Text,
    /// A here-document that ends at this offset.
    Heredoc(usize),
}

/// Returns the place of the innermost brace that is open at an offset, in a text that is within what is open around it.
fn open_brace(text: &str, offset: usize, around: Vec<Open>) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut open = around;
    let mut at = 0;
    while at < offset {
        let byte = *bytes.get(at)?;
        let (is_literal, is_text) = match open.last() {
            Some(Open::Heredoc(end)) if at >= *end => {
                open.pop();
                continue;
            }
            Some(Open::Heredoc(_)) => (true, false),
            Some(Open::Text) => (true, true),
            Some(Open::Bracket(_)) | None => (false, false),
        };
        if is_literal {
            let next = bytes.get(at + 1).copied();
            at += match byte {
                b'"' if is_text => {
                    open.pop();
                    1
                }
                b'\\' if is_text => 2,
                b'$' | b'%' if next == Some(byte) => 2,
                b'$' | b'%' if next == Some(b'{') => {
                    open.push(Open::Bracket(at + 1));
                    2
                }
                _ => 1,
            };
            continue;
        }
        match byte {
            b'"' => open.push(Open::Text),
            b'{' | b'[' | b'(' => open.push(Open::Bracket(at)),
            b'}' | b']' | b')' => drop(open.pop()),
            b'#' | b'/' | b'<' => match skipped_end(text, at) {
                Some(end) if end > offset && byte == b'<' => {
                    open.push(Open::Heredoc(end));
                    at = text.get(at..)?.find('\n').map_or(text.len(), |length| at + length);
                }
                Some(end) => {
                    at = end.max(at + 1);
                    continue;
                }
                None => {}
            },
            _ => {}
        }
        at += 1;
    }
    match open.pop() {
        Some(Open::Bracket(at)) => Some(at).filter(|at| bytes.get(*at) == Some(&b'{')),
        Some(Open::Text | Open::Heredoc(_)) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a text without its marks, and what they are around.
    fn unmarked(text: &str) -> (String, Vec<Range<usize>>) {
        let mut parts = text.split(['«', '»']);
        let mut plain = String::new();
        let mut marked = vec![];
        while let Some(before) = parts.next() {
            plain.push_str(before);
            if let Some(key) = parts.next() {
                marked.push(plain.len()..plain.len() + key.len());
                plain.push_str(key);
            }
        }
        (plain, marked)
    }

    #[test]
    fn both_places_of_a_repeated_key_of_a_template_are_found() {
        for text in [
            "\t${f({ «a» = 1, «a» = 2 })}",
            "# \" { ( ${f({ «a» = 1, b = \"}\", «a» = 2 })}",
            "$${ { ${{ c = 1 }} ${f({ «a» = 1, «a» = 2 })}",
        ] {
            let (plain, marked) = unmarked(text);
            let found = places_in_template(&plain, marked[1].start);
            assert_eq!(found, (marked[1].clone(), Some(marked[0].clone())), "{text}");
        }
    }

    #[test]
    fn both_places_of_a_repeated_key_are_found() {
        for text in [
            "{ «a» = 1, «a» = 2 }",
            "{ b = 1, «a» = 2\n «a» : 3 }",
            "merge({ c = \"a = }\", «a» = [1, 2], b = { a = 5 }, «a» = 2 }, {})",
            "{ «\"x y\"» = 1, «\"x y\"» = 2 }",
            "{ «(var.a)» = 1, «(var.a)» = 2 }",
            "\"x${jsonencode({ «a» = 1, «a» = 2 })}\"",
            "{\n  # a = 1\n  «ä» = <<EOF\n a = 1\nEOF\n  «ä» = 2\n}",
            "[{ a = 1 }, { «a» = 1, «a» = 2 }]",
            "\"\\\"{ ${x} { ${jsonencode({ «a» = 1, b = \"{\", «a» = 2 })}\"",
            "\"$${ { %%{ ${\"}{\"} ${jsonencode({ «a» = 1, «a» = 2 })}\"",
            "<<EOF\n{ \" ${x}\n${jsonencode({ «a» = 1, «a» = 2 })}\nEOF\n",
            "f(<<EOF\n{ ( \"\nEOF\n, { «a» = 1, «a» = 2 })",
        ] {
            let (plain, marked) = unmarked(text);
            let found = places(&plain, marked[1].start);
            assert_eq!(found, (marked[1].clone(), Some(marked[0].clone())), "{text}");
        }
        assert_eq!(places("a", 9), (9..9, None));
        assert_eq!(places("{ a = 1 }", 2), (2..3, None));
    }
}
