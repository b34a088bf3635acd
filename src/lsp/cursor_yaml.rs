//! Finds the place of an offset in YAML: by indentation, and in one line by braces and brackets.

use super::cursor::{Cursor, Target, Written, is_word, text_target, word_around};
use super::cursor_flow::flow_cursor;

/// A line as far as its indentation and its key matter.
struct Line<'t> {
    /// The column of its first dash, if it starts an item of a list.
    dash: Option<usize>,
    /// The column of its content, behind the dashes of list items.
    indent: usize,
    key: Option<&'t str>,
    /// The offset in the line behind the colon.
    value: Option<usize>,
}

impl<'t> Line<'t> {
    fn of(line: &'t str) -> Self {
        let mut indent = line.len() - line.trim_start_matches(' ').len();
        let dash = line.get(indent..).filter(|rest| rest.starts_with("- ")).map(|_| indent);
        while let Some(rest) = line.get(indent..)
            && let Some(item) = rest.strip_prefix("- ")
        {
            indent += 2 + item.len() - item.trim_start_matches(' ').len();
        }
        let content = line.get(indent..).unwrap_or_default();
        let (quoted, quote) = match content.chars().next() {
            Some(quote @ ('"' | '\'')) => (content.get(1..).unwrap_or_default(), Some(quote)),
            Some(_) | None => (content, None),
        };
        let length = match quote {
            Some(quote) => quoted.find(quote),
            None => Some(quoted.find(|c| !is_word(c)).unwrap_or(quoted.len())),
        };
        let quotes = usize::from(quote.is_some());
        let key = length.and_then(|length| quoted.get(..length));
        let behind = length.map(|length| indent + length + 2 * quotes);
        let colon = behind.filter(|at| line.get(*at..).is_some_and(|rest| rest.starts_with(':')));
        let is_key = colon.is_some_and(|at| {
            let next = line.get(at + 1..).and_then(|rest| rest.chars().next());
            next.is_none_or(char::is_whitespace)
        });
        match (is_key, colon) {
            (true, Some(colon)) => Self { dash, indent, key, value: Some(colon + 1) },
            _ => Self { dash, indent, key: None, value: None },
        }
    }

    /// Returns the column that the keys above it are left of. The items of a list may be below the first letter of its key.
    fn outer(&self) -> usize {
        self.dash.map_or(self.indent, |dash| dash + 1)
    }
}

/// Returns what is at an offset.
pub(crate) fn yaml_cursor(text: &str, offset: usize) -> Cursor {
    let before = text.get(..offset).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let rest = text.get(start..).unwrap_or_default();
    let line_text = rest.split('\n').next().unwrap_or_default().trim_end_matches('\r');
    let column = offset - start;
    if line_text.trim_start().starts_with('#') {
        return Cursor::nothing();
    }
    let line = Line::of(line_text);
    // On a line without content, the cursor says how deep the next key is.
    let indent = match line_text.trim().is_empty() {
        true => column,
        false => line.outer(),
    };
    let path = path_above(text.get(..start).unwrap_or_default(), indent);
    let (Some(key), Some(value)) = (line.key, line.value.filter(|value| column >= *value)) else {
        let range = word_around(text, offset, is_word);
        let before = line_text.get(line.indent..column).unwrap_or_default();
        let target = match before.trim_start_matches(['"', '\'']).chars().all(is_word) {
            true => Target::Key(Written { range, is_quoted: false }),
            false => Target::Nothing,
        };
        return Cursor { path, target };
    };
    let content = line_text.get(value..).unwrap_or_default();
    let content_start = value + content.len() - content.trim_start().len();
    let content = content.trim_start();
    if column > content_start && content.starts_with(['{', '[']) {
        return flow_cursor(text, start + content_start, offset, path, Some(key.to_owned()));
    }
    let key = key.to_owned();
    if let Some(quote @ ('"' | '\'')) = content.chars().next()
        && column > content_start
    {
        let inner = content.get(1..).unwrap_or_default();
        let end = inner.rfind(quote).unwrap_or(inner.len());
        let from = start + content_start + 1;
        let range = from..(from + end).max(offset);
        let target = text_target(text, range, offset, key, true);
        return Cursor { path, target };
    }
    let from = (start + content_start).min(offset);
    let range = from..(from + content.trim_end().len()).max(offset);
    let target = text_target(text, range, offset, key, false);
    Cursor { path, target }
}

/// Returns the keys of the lines above that a line belongs to whose parents are in smaller columns.
fn path_above(above: &str, column: usize) -> Vec<String> {
    let mut path = vec![];
    let mut inner = column;
    for line in above.lines().rev() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if line.starts_with("---") || line.starts_with("...") {
            break;
        }
        let found = Line::of(line);
        if found.indent < inner {
            path.extend(found.key.map(ToOwned::to_owned));
            inner = found.outer();
        } else if found.indent == inner {
            inner = found.outer();
        }
    }
    path.reverse();
    path
}
