//! Decodes quoted texts and here-documents, by HCL1's rules.

use std::borrow::Cow;

use super::token::Heredoc;
use crate::parse_error::ParseError;

/// Decodes a quoted text. `inner` is the text between the quotes, and `offset` its position.
///
/// Escape sequences are Go's, except `\'`. Within `${…}` none is decoded.
pub(crate) fn unquote(inner: &str, offset: usize) -> Result<Cow<'_, str>, ParseError> {
    if !inner.contains(['\\', '\r']) {
        return Ok(Cow::Borrowed(inner));
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut at = 0;
    while let Some(rest) = inner.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with("${") {
            let length = interpolation_length(rest);
            bytes.extend_from_slice(rest[..length].replace("\r\n", "\n").as_bytes());
            at += length;
        } else if let Some(escape) = rest.strip_prefix('\\') {
            let length =
                resolve(escape, &mut bytes).ok_or_else(|| bad_escape(offset + at, escape))?;
            at += 1 + length;
        } else {
            bytes.push(rest.as_bytes()[0]);
            at += 1;
            while !inner.is_char_boundary(at) {
                bytes.push(inner.as_bytes()[at]);
                at += 1;
            }
        }
    }
    let not_utf8 = |_| {
        ParseError::syntax(
            offset..offset + inner.len(),
            "the escape sequences of this text are not valid UTF-8",
        )
    };
    String::from_utf8(bytes).map(Cow::Owned).map_err(not_utf8)
}

fn bad_escape(at: usize, escape: &str) -> ParseError {
    let length = escape.chars().next().map_or(0, char::len_utf8);
    ParseError::syntax(at..at + 1 + length, "unknown escape sequence")
        .help("write a backslash as `\\\\`")
        .certain()
}

/// Returns the length of the `${…}` at the start of a text, or of the whole text if it is not
/// closed.
fn interpolation_length(text: &str) -> usize {
    let mut braces = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => braces += 1,
            b'}' if braces == 1 => return at + 1,
            b'}' => braces -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Appends the value of an escape sequence without its backslash. Returns its length.
fn resolve(escape: &str, bytes: &mut Vec<u8>) -> Option<usize> {
    let digits = |from: usize, count: usize, base: u32| {
        let digits = escape.get(from..from + count)?;
        let valid = digits.chars().all(|c| c.is_digit(base));
        valid.then(|| u32::from_str_radix(digits, base).ok())?
    };
    let simple = match escape.bytes().next()? {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'"' => b'"',
        b'x' => {
            bytes.push(u8::try_from(digits(1, 2, 16)?).ok()?);
            return Some(3);
        }
        b'0'..=b'7' => {
            bytes.push(u8::try_from(digits(0, 3, 8)?).ok()?);
            return Some(3);
        }
        marker @ (b'u' | b'U') => {
            let count = if marker == b'u' { 4 } else { 8 };
            let c = char::from_u32(digits(1, count, 16)?)?;
            bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(1 + count);
        }
        _ => return None,
    };
    bytes.push(simple);
    Some(1)
}

/// Decodes a here-document.
///
/// `<<` keeps everything, including the indentation of the closing line. `<<-` removes the
/// indentation of the closing line from every line, if every line has it.
pub(super) fn heredoc<'a>(text: &'a str, parts: &Heredoc) -> Cow<'a, str> {
    let content = normalized(&text[parts.content.clone()]);
    let closing = &text[parts.closing.clone()];
    let indent = &closing[..closing.len() - closing.trim_start().len()];
    if indent.is_empty() {
        return content;
    }
    if !parts.indented {
        return Cow::Owned(format!("{content}{indent}"));
    }
    let lines = || content.split_inclusive('\n');
    if lines().all(|line| line.starts_with(indent)) {
        return Cow::Owned(lines().map(|line| &line[indent.len()..]).collect());
    }
    content
}

fn normalized(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}
