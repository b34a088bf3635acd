//! Finds the end of an HCL2 expression without parsing it.

use super::token;

/// Returns the end of a quoted HCL2 text, skipping texts within `${…}`, or the end of the file.
fn template_end(bytes: &[u8], start: usize) -> usize {
    /// An open text, or an open interpolation with this many open braces.
    enum Scope {
        Text,
        Interpolation(usize),
    }
    let mut scopes = vec![Scope::Text];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        let brace_follows = bytes.get(at + 1) == Some(&b'{');
        match (byte, scopes.last_mut()) {
            (_, None) => break,
            (b'"', Some(Scope::Text)) => drop(scopes.pop()),
            (b'\\', Some(Scope::Text)) => at += 1,
            (b'$' | b'%', Some(Scope::Text)) if bytes.get(at + 1) == Some(byte) => at += 1,
            (b'$' | b'%', Some(Scope::Text)) if brace_follows => {
                scopes.push(Scope::Interpolation(0));
                at += 1;
            }
            (_, Some(Scope::Text)) => {}
            (b'"', Some(Scope::Interpolation(_))) => scopes.push(Scope::Text),
            (b'{', Some(Scope::Interpolation(braces))) => *braces += 1,
            (b'}', Some(Scope::Interpolation(0))) => drop(scopes.pop()),
            (b'}', Some(Scope::Interpolation(braces))) => *braces -= 1,
            (_, Some(Scope::Interpolation(_))) => {}
        }
        at += 1;
    }
    at.min(bytes.len())
}

/// Returns the end of the text, the comment or the here-document at an offset; `None` if none starts there.
pub(crate) fn skipped_end(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    match rest.as_bytes().first()? {
        b'"' => Some(template_end(text.as_bytes(), at)),
        b'#' | b'/' => token::comment_length(rest)
            .map(|length| if length == 0 { text.len() } else { at + length }),
        b'<' if rest.starts_with("<<") => {
            token::heredoc(text, at).ok().map(|parts| parts.closing.end)
        }
        _ => None,
    }
}

/// Returns whether a here-document without an end starts at an offset. The rest of the text may be its content.
pub(crate) fn is_open_heredoc(text: &str, at: usize) -> bool {
    let rest = text.get(at..).unwrap_or_default();
    rest.starts_with("<<") && token::heredoc(text, at).is_err_and(|problem| problem.is_conclusive)
}

/// Returns the end of the expression at `start`: the end of its line, or the next closing bracket
/// or comma. Skips brackets, texts, here-documents and comments.
pub(crate) fn expression_end(text: &str, start: usize, in_list: bool) -> usize {
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
                match token::heredoc(text, at) {
                    Ok(parts) => {
                        let closing = text.get(parts.closing.clone()).unwrap_or_default();
                        // The first half of its line break is not part of the expression.
                        let length = closing.trim_end_matches('\r').len();
                        at = (parts.closing.start + length).max(at + 1) - 1;
                    }
                    // No expression contains an open here-document.
                    Err(problem) if problem.is_conclusive => return text.len(),
                    Err(_) => {}
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
