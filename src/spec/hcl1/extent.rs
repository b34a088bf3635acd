//! How far an expression of HCL2 reaches, without understanding it.

use super::token;

/// Where a quoted text of HCL2 ends, texts within its `${…}` skipped; the end of the file if nowhere.
fn template_end(bytes: &[u8], start: usize) -> usize {
    /// What is open: a text, or an interpolation with this many braces open in it.
    enum Open {
        Text,
        Interpolation(usize),
    }
    let mut open = vec![Open::Text];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        let brace_follows = bytes.get(at + 1) == Some(&b'{');
        match (byte, open.last_mut()) {
            (_, None) => break,
            (b'"', Some(Open::Text)) => drop(open.pop()),
            (b'\\', Some(Open::Text)) => at += 1,
            (b'$' | b'%', Some(Open::Text)) if bytes.get(at + 1) == Some(byte) => at += 1,
            (b'$' | b'%', Some(Open::Text)) if brace_follows => {
                open.push(Open::Interpolation(0));
                at += 1;
            }
            (_, Some(Open::Text)) => {}
            (b'"', Some(Open::Interpolation(_))) => open.push(Open::Text),
            (b'{', Some(Open::Interpolation(braces))) => *braces += 1,
            (b'}', Some(Open::Interpolation(0))) => drop(open.pop()),
            (b'}', Some(Open::Interpolation(braces))) => *braces -= 1,
            (_, Some(Open::Interpolation(_))) => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// Where an expression that starts at `start` ends: at the end of its line, or before what closes or
/// continues what it stands in; brackets, texts, here-documents and comments are skipped whole.
pub(super) fn expression_end(text: &str, start: usize, in_list: bool) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0usize;
    let mut at = start;
    let mut end = start;
    while let Some(byte) = bytes.get(at) {
        if let (b'#' | b'/', Some(length)) = (byte, text.get(at..).and_then(token::comment_length))
        {
            at = if length == 0 { text.len() } else { at + length };
            continue;
        }
        match byte {
            b'"' => at = template_end(bytes, at) - 1,
            b'<' if text[at..].starts_with("<<") => {
                if let Ok(parts) = token::heredoc(text, at) {
                    at = parts.closing.end - 1;
                }
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => break,
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => break,
            b'\n' if depth == 0 && !in_list => break,
            _ => {}
        }
        at += 1;
        if !byte.is_ascii_whitespace() {
            end = at;
        }
    }
    while !text.is_char_boundary(end) {
        end += 1;
    }
    end
}
