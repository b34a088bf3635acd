//! Reads JSON to a tree, with a position for every key and value.
//!
//! Strict, except for what Nomad's own reader accepts without losing anything: superfluous commas,
//! missing commas in lists, Go's escape sequences, and control characters in texts. Those give a
//! warning, because no other program reads them. A missing comma in an object, after which Nomad
//! ignores the rest, is an error. So is text after the object.

use std::borrow::Cow;
use std::ops::Range;

use super::parse_error::ParseError;
use super::tree::{MAX_DEPTH, Node, Object, ScalarKind, SpannedText, Value, ValueBudget};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceId, SourceMap, Span};

/// Reads a file to a tree.
pub(super) fn parse<'a>(
    text: &'a str,
    source: SourceId,
    diagnostics: &mut Diagnostics,
) -> Result<Object<'a>, ParseError> {
    let mut parser =
        Parser { text, source, at: 0, depth: 0, budget: ValueBudget::default(), diagnostics };
    if parser.peek() != Some(b'{') {
        let here = parser.here();
        return Err(ParseError::syntax(
            here,
            "expected an object: a specification in JSON starts with `{`",
        )
        .help("write several volumes as `{\"volume\": {\"NAME\": {…}, \"NAME\": {…}}}`"));
    }
    let node = parser.object()?;
    if parser.peek().is_some() {
        let here = parser.here();
        return Err(ParseError::syntax(here, "unexpected text after the specification"));
    }
    match node.value {
        Value::Object(object) => Ok(object),
        _ => Ok(Object::default()),
    }
}

struct Parser<'a, 'd> {
    text: &'a str,
    source: SourceId,
    at: usize,
    depth: usize,
    budget: ValueBudget,
    diagnostics: &'d mut Diagnostics,
}

impl<'a> Parser<'a, '_> {
    /// Returns the next byte that is not white space, without consuming it.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the range of the next character.
    fn here(&self) -> Range<usize> {
        let next = self.text[self.at..].chars().next();
        self.at..self.at + next.map_or(0, char::len_utf8)
    }

    fn span(&self, range: Range<usize>) -> Span {
        SourceMap::span(self.source, range)
    }

    fn lenient(&mut self, range: Range<usize>, what: &str) {
        let span = self.span(range);
        self.diagnostics.push(
            Diagnostic::warning(
                Code::SpecLenientJson,
                format!("{what} is not valid JSON: Nomad accepts it, other programs do not"),
            )
            .label(span, ""),
        );
    }

    /// Counts one value or key at the next character.
    fn count(&mut self) -> Result<(), ParseError> {
        let counted = self.budget.take(1);
        counted.ok_or_else(|| ParseError::too_many_values(self.here()))
    }

    fn value(&mut self) -> Result<Node<'a>, ParseError> {
        let next = self.peek();
        self.count()?;
        match next {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => {
                let (text, range) = self.string()?;
                Ok(Node::text(text, self.span(range)))
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b'a'..=b'z' | b'A'..=b'Z') => self.word(),
            Some(b'\'') => Err(ParseError::syntax(self.here(), "JSON requires double quotes")),
            Some(_) => Err(ParseError::syntax(self.here(), "expected a value")),
            None => Err(self.ended()),
        }
    }

    fn ended(&self) -> ParseError {
        let end = self.text.len();
        ParseError::syntax(end..end, "the file ends within a value")
    }

    fn enter(&mut self) -> Result<usize, ParseError> {
        let open = self.at;
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::too_deep(open..open + 1));
        }
        Ok(open)
    }

    /// Consumes the closing bracket. Returns the span of the object or list.
    fn leave(&mut self, open: usize) -> Span {
        self.at += 1;
        self.depth -= 1;
        self.span(open..self.at)
    }

    fn object(&mut self) -> Result<Node<'a>, ParseError> {
        let open = self.enter()?;
        let mut object = Object::default();
        loop {
            match self.peek() {
                Some(b'}') => return Ok(Node::object(object, self.leave(open))),
                Some(b'"') => self.member(&mut object)?,
                Some(found) => {
                    let problem =
                        ParseError::syntax(self.here(), "expected a key in double quotes");
                    return Err(match found {
                        b'/' | b'#' => problem.help("write a comment as a key: `\"//\": \"…\"`"),
                        _ => problem,
                    });
                }
                None => return Err(never_closed(open, "brace")),
            }
            match self.peek() {
                Some(b',') => self.comma(b'}'),
                Some(b'}') => {}
                Some(_) => {
                    return Err(ParseError::syntax(self.here(), "a comma is missing before this")
                        .help(
                            "add a comma: Nomad would ignore everything up to the closing brace",
                        ));
                }
                None => return Err(never_closed(open, "brace")),
            }
        }
    }

    fn member(&mut self, object: &mut Object<'a>) -> Result<(), ParseError> {
        self.count()?;
        let (text, range) = self.string()?;
        let span = self.span(range);
        match self.peek() {
            Some(b':') => self.at += 1,
            Some(_) => {
                return Err(ParseError::syntax(self.here(), "expected `:` after the key"));
            }
            None => return Err(self.ended()),
        }
        let value = self.value()?;
        object.push(SpannedText { text, span }, vec![], value);
        Ok(())
    }

    /// Consumes a comma, and warns of a trailing one.
    fn comma(&mut self, closing: u8) {
        let comma = self.here();
        self.at += 1;
        if self.peek() == Some(closing) {
            self.lenient(comma, "a trailing comma");
        }
    }

    fn list(&mut self) -> Result<Node<'a>, ParseError> {
        let open = self.enter()?;
        let mut items = vec![];
        let mut comma_needed = false;
        loop {
            match self.peek() {
                Some(b']') => {
                    let span = self.leave(open);
                    let value = Value::List(items);
                    return Ok(Node { value, span });
                }
                Some(b',') if comma_needed => {
                    self.comma(b']');
                    comma_needed = false;
                }
                Some(b',') => {
                    let comma = self.here();
                    self.at += 1;
                    self.lenient(comma, "a comma without a value");
                }
                Some(_) => {
                    if comma_needed {
                        let here = self.here();
                        self.lenient(here, "a missing comma");
                    }
                    items.push(self.value()?);
                    comma_needed = true;
                }
                None => return Err(never_closed(open, "bracket")),
            }
        }
    }

    fn word(&mut self) -> Result<Node<'a>, ParseError> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let range = self.at..self.at + length;
        self.at = range.end;
        let span = self.span(range.clone());
        match &rest[..length] {
            "null" => Ok(Node { value: Value::Null, span }),
            word @ ("true" | "false") => Ok(Node::scalar(ScalarKind::Boolean, word, span)),
            word => {
                let problem = ParseError::syntax(range, "text requires double quotes");
                Err(match word {
                    "True" | "TRUE" => problem.help("write `true`"),
                    "False" | "FALSE" => problem.help("write `false`"),
                    "None" | "nil" | "NULL" => problem.help("write `null`"),
                    _ => problem,
                })
            }
        }
    }

    fn number(&mut self) -> Result<Node<'a>, ParseError> {
        let rest = &self.text[self.at..];
        let length = rest
            .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
            .unwrap_or(rest.len());
        let range = self.at..self.at + length;
        let written = &rest[..length];
        self.at = range.end;
        if !is_number(written) {
            return Err(ParseError::syntax(range, "invalid number")
                .help("put it in double quotes if it is text"));
        }
        Ok(Node::scalar(ScalarKind::Number, written, self.span(range)))
    }

    /// Reads a quoted text. Its range includes the quotes.
    fn string(&mut self) -> Result<(Cow<'a, str>, Range<usize>), ParseError> {
        let open = self.at;
        let inner = open + 1;
        let rest = &self.text[inner..];
        let plain = rest.find(|c: char| c == '"' || c == '\\' || c < ' ').unwrap_or(rest.len());
        if rest[plain..].starts_with('"') {
            self.at = inner + plain + 1;
            return Ok((Cow::Borrowed(&rest[..plain]), open..self.at));
        }
        self.at = inner + plain;
        let mut text = rest[..plain].to_owned();
        loop {
            let here = self.here();
            match self.text[self.at..].chars().next() {
                Some('"') => {
                    self.at += 1;
                    return Ok((Cow::Owned(text), open..self.at));
                }
                Some('\\') => text.push(self.escape()?),
                None | Some('\n') => {
                    return Err(ParseError::syntax(open..inner, "this quote is not closed"));
                }
                Some(c) => {
                    self.at = here.end;
                    if c < ' ' {
                        self.lenient(here, "a control character in a text");
                    }
                    text.push(c);
                }
            }
        }
    }

    fn escape(&mut self) -> Result<char, ParseError> {
        let start = self.at;
        let rest = &self.text[start + 1..];
        let marker = rest.chars().next();
        let bad = || {
            let length = 1 + marker.map_or(0, char::len_utf8);
            ParseError::syntax(start..start + length, "unknown escape sequence")
        };
        let digits = |from: usize, count: usize, base: u32| {
            let digits = rest.get(from..from + count)?;
            let valid = digits.chars().all(|c| c.is_digit(base));
            valid.then(|| u32::from_str_radix(digits, base).ok())?
        };
        let (c, length, strict) = match marker.ok_or_else(bad)? {
            c @ ('"' | '\\' | '/') => (Some(c), 1, true),
            'b' => (Some('\u{8}'), 1, true),
            'f' => (Some('\u{c}'), 1, true),
            'n' => (Some('\n'), 1, true),
            'r' => (Some('\r'), 1, true),
            't' => (Some('\t'), 1, true),
            'u' => {
                let first = digits(1, 4, 16).ok_or_else(bad)?;
                let second = match rest.get(5..7) {
                    Some("\\u") if (0xD800..0xDC00).contains(&first) => digits(7, 4, 16),
                    _ => None,
                };
                match second {
                    Some(second) if (0xDC00..0xE000).contains(&second) => {
                        let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                        (char::from_u32(joined), 11, true)
                    }
                    _ => (char::from_u32(first), 5, true),
                }
            }
            'a' => (Some('\u{7}'), 1, false),
            'v' => (Some('\u{b}'), 1, false),
            'x' => (ascii(digits(1, 2, 16)), 3, false),
            '0'..='7' => (ascii(digits(0, 3, 8)), 3, false),
            'U' => (digits(1, 8, 16).and_then(char::from_u32), 9, false),
            _ => return Err(bad()),
        };
        let c = c.ok_or_else(bad)?;
        self.at = start + 1 + length;
        if !strict {
            self.lenient(start..self.at, "this escape sequence");
        }
        Ok(c)
    }
}

fn ascii(code: Option<u32>) -> Option<char> {
    code.and_then(char::from_u32).filter(char::is_ascii)
}

fn never_closed(open: usize, what: &str) -> ParseError {
    ParseError::syntax(open..open + 1, format!("this {what} is not closed"))
}

/// Returns whether a text is a number in JSON's grammar.
fn is_number(text: &str) -> bool {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (integer, fraction) = match mantissa.split_once('.') {
        Some((integer, fraction)) => (integer, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent
            .is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}
