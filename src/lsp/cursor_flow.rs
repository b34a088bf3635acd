//! Finds the place of an offset in JSON, and in the braces and brackets of YAML.

use super::cursor::{Cursor, Target, Written, is_word, text_target, word_around};

struct Frame {
    is_object: bool,
    path_length: usize,
    key: Option<String>,
}

/// Returns what is at an offset. The text from `start` on is read; it is below `path`, and a value of `key`.
pub(crate) fn flow_cursor(
    text: &str,
    start: usize,
    offset: usize,
    path: Vec<String>,
    key: Option<String>,
) -> Cursor {
    let (mut path, mut key) = (path, key);
    let mut frames: Vec<Frame> = vec![];
    let mut word: Option<String> = None;
    let mut at = start;
    while let Some(c) = text.get(at..offset).and_then(|rest| rest.chars().next()) {
        let rest = text.get(at..offset).unwrap_or_default();
        let is_in_object = frames.last().is_some_and(|frame| frame.is_object);
        match c {
            '"' | '\'' => {
                let content = at + 1;
                let Some(length) = quoted_length(&rest[1..], c) else {
                    return in_text(text, content..offset, c, path, key, is_in_object);
                };
                word = text.get(content..content + length).map(ToOwned::to_owned);
                at = content + length + 1;
                continue;
            }
            '{' | '[' => {
                frames.push(Frame {
                    is_object: c == '{',
                    path_length: path.len(),
                    key: key.clone(),
                });
                if c == '{' {
                    path.extend(key.take());
                }
                word = None;
            }
            '}' | ']' => {
                if let Some(frame) = frames.pop() {
                    path.truncate(frame.path_length);
                    key = frame.key;
                }
                word = None;
            }
            ':' if is_in_object && key.is_none() => key = word.take(),
            ',' => {
                if is_in_object {
                    key = None;
                }
                word = None;
            }
            c if is_word(c) => {
                let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                word = rest.get(..length).map(ToOwned::to_owned);
                at += length;
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
    }
    let range = word_around(text, offset, is_word);
    let is_in_object = frames.last().is_some_and(|frame| frame.is_object);
    let target = match key {
        Some(key) => {
            let line = text.get(..range.start).unwrap_or_default();
            let from = line.rfind(['\n', ',', ':']).map_or(0, |at| at + 1).max(start);
            match text_target(text, from..range.end, offset, key, false) {
                Target::Value(key, _) => Target::Value(key, Written { range, is_quoted: false }),
                other => other,
            }
        }
        None if is_in_object => Target::Key(Written { range, is_quoted: false }),
        None => Target::Nothing,
    };
    Cursor { path, target }
}

/// Returns what is at the end of a text in quotes that is not closed before.
fn in_text(
    text: &str,
    content: std::ops::Range<usize>,
    quote: char,
    path: Vec<String>,
    key: Option<String>,
    is_in_object: bool,
) -> Cursor {
    let offset = content.end;
    let after = text.get(offset..).unwrap_or_default();
    let range = content.start..offset + after.find([quote, '\n']).unwrap_or(after.len());
    let target = match key {
        Some(key) => text_target(text, range, offset, key, true),
        None if is_in_object => Target::Key(Written { range, is_quoted: true }),
        None => Target::Nothing,
    };
    Cursor { path, target }
}

/// Returns the length of the content of a text in quotes; `None` if it is not closed.
fn quoted_length(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if quote == '"' => is_escaped = true,
            c if c == quote => return Some(at),
            '\n' => return Some(at),
            _ => {}
        }
    }
    None
}
