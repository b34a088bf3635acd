//! How texts are written, so that they are read again.

/// Returns the text in the quotes that need the fewest escapes.
pub(super) fn quoted(text: &str) -> String {
    if text.contains(['"', '\\']) && !text.contains(['`', '\r']) {
        return format!("`{text}`");
    }
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
