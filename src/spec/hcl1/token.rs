//! Splits a text into tokens, by HCL1's rules.

use std::ops::Range;

use crate::parse_error::ParseError;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Identifier,
    /// With its quotes.
    Text,
    Number,
    Boolean,
    /// From `<<` to the end of the closing line, without its line break.
    Heredoc,
    OpenBrace,
    CloseBrace,
    OpenBracket,
    CloseBracket,
    Comma,
    Assign,
    Other(char),
    End,
}

/// A token and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Token {
    pub(super) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// Reads tokens one by one.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    /// The number of bytes after `${` that may still be read in search of the ends of texts.
    budget: usize,
}

/// Limit of the bytes that are read after `${`, in multiples of the file.
///
/// HCL2 may end a text where HCL1 finds no end up to the end of the file, as in `"$${"`. Without budget, HCL1 finds no
/// end for such a text.
const MAX_RESCANS: usize = 16;

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0, budget: MAX_RESCANS * text.len() }
    }

    pub(super) fn next(&mut self) -> Result<Token, ParseError> {
        self.skip_blanks()?;
        let start = self.at;
        let Some(c) = self.rest().chars().next() else {
            return Ok(self.token(Kind::End, start, start));
        };
        let one = |kind| Ok((kind, start + c.len_utf8()));
        let (kind, end) = match c {
            '{' => one(Kind::OpenBrace),
            '}' => one(Kind::CloseBrace),
            '[' => one(Kind::OpenBracket),
            ']' => one(Kind::CloseBracket),
            ',' => one(Kind::Comma),
            '=' if !self.text[start + 1..].starts_with('=') => one(Kind::Assign),
            '"' => text_end(self.text, start, &mut self.budget).map(|end| (Kind::Text, end)),
            '<' if self.rest().starts_with("<<") => {
                heredoc(self.text, start).map(|parts| (Kind::Heredoc, parts.closing.end))
            }
            c if is_letter(c) => Ok(self.word()),
            c if self.starts_number(c) => self.number(),
            c => one(Kind::Other(c)),
        }?;
        Ok(self.token(kind, start, end))
    }

    fn token(&mut self, kind: Kind, start: usize, end: usize) -> Token {
        self.at = end;
        Token { kind, start, end }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Skips white space and comments.
    pub(super) fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = self.rest();
            let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
            self.at += rest.len() - trimmed.len();
            match comment_length(trimmed) {
                Some(0) => {
                    let opened = self.at..self.at + 2;
                    return Err(ParseError::syntax(opened, "this comment is not closed")
                        .help("close it with `*/`"));
                }
                Some(length) => self.at += length,
                None => return Ok(()),
            }
        }
    }

    fn word(&self) -> (Kind, usize) {
        let rest = self.rest();
        let length = rest
            .find(|c: char| !is_letter(c) && !is_digit(c) && c != '-' && c != '.')
            .unwrap_or(rest.len());
        let kind = match &rest[..length] {
            "true" | "false" => Kind::Boolean,
            _ => Kind::Identifier,
        };
        (kind, self.at + length)
    }

    fn starts_number(&self, first: char) -> bool {
        let second = self.rest().chars().nth(1);
        let digit_follows = second.is_some_and(|c| c.is_ascii_digit());
        first.is_ascii_digit() || matches!(first, '-' | '.') && digit_follows
    }

    fn number(&self) -> Result<(Kind, usize), ParseError> {
        let start = self.at;
        let rest = self.rest();
        let unsigned = rest.strip_prefix('-').unwrap_or(rest);
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let length = match unsigned.get(..2) {
            Some("0x" | "0X") => {
                2 + unsigned[2..].bytes().take_while(u8::is_ascii_hexdigit).count()
            }
            _ => {
                let mut length = digits(unsigned);
                if unsigned[length..].starts_with('.') {
                    length += 1 + digits(&unsigned[length + 1..]);
                }
                if unsigned[length..].starts_with(['e', 'E']) {
                    length += 1;
                    length += usize::from(unsigned[length..].starts_with(['+', '-']));
                    length += digits(&unsigned[length..]);
                }
                length
            }
        };
        let end = start + (rest.len() - unsigned.len()) + length;
        let word_end = self.text[end..]
            .find(|c: char| !is_letter(c) && !is_digit(c) && !matches!(c, '-' | '.' | '_'))
            .map_or(self.text.len(), |at| end + at);
        if word_end > end && !self.text[end..].starts_with('-') {
            return Err(unquoted(start..word_end));
        }
        match evaluate(&self.text[start..end]) {
            Some(_) => Ok((Kind::Number, end)),
            None => Err(ParseError::syntax(start..end, "invalid number")
                .help("put it in quotes if it is text")),
        }
    }
}

/// The error of a text without quotes.
fn unquoted(range: Range<usize>) -> ParseError {
    ParseError::syntax(range, "a value with letters requires quotes")
        .label("put it in double quotes")
        .certain()
}

/// Converts a number to text as Nomad does: `007` is `7`, `010` is `8`, `0x1F` is `31`,
/// `1.10` is `1.1`, `1e3` is `1000`. `None` if Nomad cannot read it.
pub(crate) fn evaluate(number: &str) -> Option<String> {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(unsigned) => ("-", unsigned),
        None => ("", number),
    };
    let integer = |digits: &str, base| {
        let value = i64::from_str_radix(&format!("{sign}{digits}"), base);
        value.ok().map(|value| value.to_string())
    };
    if let Some(digits) = unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")) {
        return integer(digits, 16);
    }
    if unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        let octal = unsigned.len() > 1 && unsigned.starts_with('0');
        return integer(unsigned, if octal { 8 } else { 10 });
    }
    let value: f64 = number.parse().ok()?;
    value.is_finite().then(|| value.to_string())
}

/// Returns the length of the comment at the start of a text; zero if it is not closed.
pub(super) fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with('#') || text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let inside = text.strip_prefix("/*")?;
    Some(inside.find("*/").map_or(0, |end| end + 4))
}

/// Returns the end of the quoted text at `start`. Quotes within `${…}` do not end it. Takes what is read within `${…}` from
/// the budget.
fn text_end(text: &str, start: usize, budget: &mut usize) -> Result<usize, ParseError> {
    let bytes = text.as_bytes();
    let mut braces = 0usize;
    let mut has_interpolation = false;
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        if braces > 0 {
            let Some(left) = budget.checked_sub(1) else {
                break;
            };
            *budget = left;
        }
        match byte {
            b'"' if braces == 0 => return Ok(at + 1),
            b'\n' if braces == 0 => break,
            b'\0' => {
                let message = "text cannot contain a NUL character";
                return Err(ParseError::syntax(at..at + 1, message).certain());
            }
            b'\\' => at += 1,
            b'$' if braces == 0 && bytes.get(at + 1) == Some(&b'{') => {
                braces = 1;
                has_interpolation = true;
                at += 1;
            }
            b'{' if braces > 0 => braces += 1,
            b'}' if braces > 0 => braces -= 1,
            _ => {}
        }
        at += 1;
    }
    let unclosed = ParseError::syntax(start..start + 1, "this quote is not closed");
    let unclosed = ParseError { is_of_quote: true, ..unclosed };
    Err(if braces > 0 {
        unclosed.help("close `${` with `}`, or write `\\u0024{` for a literal `${`")
    } else if has_interpolation {
        // HCL2 has other rules for `${`: with `$$` before it, it is a literal.
        unclosed.label("text must end on the same line")
    } else {
        unclosed.label("text must end on the same line").certain()
    })
}

/// The parts of a here-document.
pub(super) struct Heredoc {
    /// `<<-` instead of `<<`.
    pub(super) indented: bool,
    /// The lines, each with its line break.
    pub(super) content: Range<usize>,
    /// The closing line, without its line break.
    pub(super) closing: Range<usize>,
}

/// Finds the parts of the here-document that starts at `start`.
///
/// HCL1 searches the closing line of `<<-` in lines longer than the word. If none matches, a
/// closing line without indentation counts, too.
pub(super) fn heredoc(text: &str, start: usize) -> Result<Heredoc, ParseError> {
    let opening = &text[start + 2..];
    let indented = opening.starts_with('-');
    let word_start = start + 2 + usize::from(indented);
    let after = &text[word_start..];
    let word = &after[..after.find(|c: char| !is_letter(c) && !is_digit(c)).unwrap_or(after.len())];
    let rest = &after[word.len()..];
    let line_break = rest.len() - rest.strip_prefix('\r').unwrap_or(rest).len() + 1;
    if word.is_empty() || rest.get(line_break - 1..line_break) != Some("\n") {
        let range = start..word_start + word.len();
        return Err(ParseError::syntax(range, "expected `<<` and a word at the end of the line"));
    }
    let content_start = word_start + word.len() + line_break;
    let shortest = word.len() + usize::from(indented);
    let closing = closing_line(text, content_start, word, shortest)
        .or_else(|| closing_line(text, content_start, word, word.len()));
    let Some(closing) = closing else {
        let range = start..word_start + word.len();
        let message = format!("this here-document is not closed: expected a line with `{word}`");
        return Err(ParseError::syntax(range, message).certain());
    };
    Ok(Heredoc { indented, content: content_start..closing.start, closing })
}

fn closing_line(text: &str, from: usize, word: &str, shortest: usize) -> Option<Range<usize>> {
    let mut start = from;
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = text[start..end].trim_end_matches('\r');
        if line.len() >= shortest && line.trim_start_matches(char::is_whitespace) == word {
            return Some(start..end);
        }
        start = end + 1;
    }
    None
}

pub(super) fn is_letter(c: char) -> bool {
    c.is_alphabetic() || c == '_'
}

pub(super) fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || !c.is_ascii() && c.is_numeric()
}
