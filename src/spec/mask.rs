//! What in a text is a secret and must not be shown.
//!
//! Of a text that could be read, the values under every key that sounds like a secret, wherever it
//! stands. Of one that could not, everything from such a word to where its block can have ended: that
//! hides too much rather than too little, because the error that is about to be shown may be what
//! makes the block look closed.

use std::ops::Range;

use super::tree::Object;
use crate::diagnostic::{Span, nearest};

/// Whether what stands under this key must not be shown: `secrets`, `mount_flags` (which may hold
/// passwords), and whatever sounds like either, since a misspelt key holds the same value.
pub(super) fn is_sensitive(key: &str) -> bool {
    const WORDS: [&str; 8] = [
        "secret",
        "mountflag",
        "passw",
        "passphrase",
        "token",
        "credential",
        "privatekey",
        "accesskey",
    ];
    let key: String = key
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.'))
        .flat_map(char::to_lowercase)
        .collect();
    WORDS.iter().any(|word| key.contains(word))
        || key.starts_with(['s', 'm']) && nearest(&key, ["secrets", "mountflags"]).is_some()
}

/// Calls `hide` for every value that must not be shown.
pub(super) fn secrets_of(object: &Object<'_>, hide: &mut impl FnMut(Span)) {
    for entry in object.entries.iter().chain(&object.refused) {
        if is_sensitive(&entry.key.text) {
            entry.value.for_each_scalar(hide);
        } else {
            entry
                .value
                .for_each_object(&mut |object| secrets_of(object, hide));
        }
    }
}

/// What must not be shown of a text that could not be read.
pub(super) fn lexical(text: &str) -> Vec<Range<usize>> {
    let mut hidden = vec![];
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        if is_sensitive(&text[word.clone()]) {
            let end = block_end(text, &word);
            hidden.push(word.end..end);
            at = end;
        }
    }
    hidden
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let start = from + text[from..].find(is_word)?;
    let length = text[start..].find(|c| !is_word(c));
    Some(start..length.map_or(text.len(), |length| start + length))
}

/// Where the block of a word has ended for certain: all brackets opened since are closed, no
/// here-document is open, and a line as little indented as the word's own starts with a key.
fn block_end(text: &str, word: &Range<usize>) -> usize {
    let line_start = text[..word.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = indentation(&text[line_start..]);
    let mut open = 0i64;
    let mut start = word.end + usize::from(text[word.end..].starts_with(['"', '\'']));
    loop {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = &text[start..end];
        open += brackets(line);
        start = match here_document(text, end, line) {
            Some(after) => after,
            None => end + 1,
        };
        let Some(next) = text.get(start..).filter(|next| !next.is_empty()) else {
            return text.len();
        };
        if open <= 0 && indentation(next) <= indent && starts_with_key(next) {
            return start;
        }
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Brackets opened less brackets closed, those in quotes not counted; a quote that is not closed
/// takes the rest of the line.
fn brackets(line: &str) -> i64 {
    let mut open = 0;
    let mut quote = None;
    let mut escaped = false;
    for c in line.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if quote == Some(c) => quote = None,
            _ if quote.is_some() => {}
            '"' | '\'' => quote = Some(c),
            '{' | '[' | '(' => open += 1,
            '}' | ']' | ')' => open -= 1,
            _ => {}
        }
    }
    open
}

/// If a line opens a here-document: where the line after it starts, or the end of the text.
fn here_document(text: &str, line_end: usize, line: &str) -> Option<usize> {
    let (_, after) = line.rsplit_once("<<")?;
    let word = after.trim_start_matches('-').trim();
    if word.is_empty() || !word.chars().all(is_word) {
        return None;
    }
    let mut start = line_end + 1;
    while start < text.len() {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        if text[start..end].trim() == word {
            return Some(end + 1);
        }
        start = end + 1;
    }
    Some(text.len())
}

/// Whether a line starts like `key =`, `key:`, `key {` or `"key":`.
fn starts_with_key(line: &str) -> bool {
    let line = line.lines().next().unwrap_or_default().trim_start();
    let bare = line.trim_start_matches('"');
    let length = bare.find(|c| !is_word(c)).unwrap_or(bare.len());
    let rest = bare[length..].trim_start_matches('"').trim_start();
    let value = rest.trim_start_matches(['=', ':', '{']);
    let opens_block = rest.trim_end() == "{" || rest.trim_end() == ":";
    length > 0 && rest.len() > value.len() && (opens_block || !value.trim().is_empty())
}
