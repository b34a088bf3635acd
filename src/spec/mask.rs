//! Finds the secrets in a text, to hide them.
//!
//! In a text that parses, the values under every key that looks like a secret. In any other text,
//! everything from such a word to the earliest possible end of its block. That hides too much
//! rather than too little, because the syntax error may make the block look closed.

use std::ops::Range;

use super::schema;
use super::syntax::Syntax;
use super::tree::{Entry, Object, Value};
use crate::diagnostic::{Span, closest_match};

/// Returns whether values under a key are hidden: `secrets`, `mount_flags` (which may contain
/// passwords), and similar keys, because a misspelt key has the same value.
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
    if schema::is_key(key) {
        return matches!(key, "secrets" | "mount_flags");
    }
    let key: String = key
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.'))
        .flat_map(char::to_lowercase)
        .collect();
    WORDS.iter().any(|word| key.contains(word))
        || key.starts_with(['s', 'm']) && closest_match(&key, ["secrets", "mountflags"]).is_some()
}

/// Returns whether a word in a text that does not parse may be part of such a key.
fn may_be_sensitive(word: &str) -> bool {
    let short = word.len() <= 16 && word.is_ascii();
    let word = word.to_ascii_lowercase();
    is_sensitive(&word)
        || ["flag", "secr", "cret"]
            .iter()
            .any(|rest| word.contains(rest))
        || short && closest_match(&word, ["secrets", "mount_flags"]).is_some()
}

/// Calls `hide` for every secret value. Keys stay visible under `secrets` only; elsewhere a key can
/// be a misplaced value.
pub(super) fn for_each_secret(object: &Object<'_>, hide: &mut impl FnMut(Span)) {
    for entry in object.entries.iter().chain(&object.duplicates) {
        if is_sensitive(&entry.key.text) {
            hide_values(entry, hide);
            if !entry.key.text.to_lowercase().contains("secret") {
                entry.value.for_each_key(hide);
            }
        } else {
            entry
                .value
                .for_each_object(&mut |object| for_each_secret(object, hide));
        }
    }
}

/// Hides the values under a sensitive key, except secret references.
fn hide_values(entry: &Entry<'_>, hide: &mut impl FnMut(Span)) {
    let Value::Object(object) = &entry.value.value else {
        return entry.value.for_each_scalar(hide);
    };
    for inner in object.entries.iter().chain(&object.duplicates) {
        if inner.value.as_reference().is_none() {
            inner.value.for_each_scalar(hide);
        }
    }
}

/// Returns the ranges to hide in a text that does not parse.
pub(super) fn possible_secrets(text: &str, syntax: Syntax) -> Vec<Range<usize>> {
    let mut hidden = vec![];
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        if may_be_sensitive(&text[word.clone()]) {
            if hidden.len() == MAX_WORDS {
                hidden.push(word.end..text.len());
                break;
            }
            hidden.push(word.end..block_end(text, &word, syntax));
        }
    }
    hidden
}

/// Limit of sensitive words; everything after the last one is hidden.
const MAX_WORDS: usize = 1000;

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let start = from + text[from..].find(is_word)?;
    let length = text[start..].find(|c| !is_word(c));
    Some(start..length.map_or(text.len(), |length| start + length))
}

/// Returns the certain end of a word's block: all brackets and here-documents are closed, and a
/// line with at most the word's indentation starts with a field of a volume.
fn block_end(text: &str, word: &Range<usize>, syntax: Syntax) -> usize {
    let line_start = text[..word.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = indentation(&text[line_start..]);
    let mut open = 0;
    let mut start = word.end + usize::from(text[word.end..].starts_with(['"', '\'']));
    loop {
        let end = text[start..].find('\n').map_or(text.len(), |at| start + at);
        let line = &text[start..end];
        open = brackets(open, line);
        start = match here_document(text, end, line) {
            Some(after) => after,
            None => end + 1,
        };
        let Some(next) = text.get(start..).filter(|next| !next.is_empty()) else {
            return text.len();
        };
        if open == 0 && indentation(next) <= indent && starts_with_key(next, syntax) {
            return start;
        }
    }
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches([' ', '\t']).len()
}

/// Returns the number of open brackets after a line. Brackets in quotes do not count; an open quote
/// extends to the end of the line.
fn brackets(mut open: usize, line: &str) -> usize {
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
            '}' | ']' | ')' => open = open.saturating_sub(1),
            _ => {}
        }
    }
    open
}

/// If a line opens a here-document, returns the start of the line after it.
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

/// Returns whether a line starts with a field of a volume: `key =` or `key {`, `key:`, `"key":`.
fn starts_with_key(line: &str, syntax: Syntax) -> bool {
    let line = line.lines().next().unwrap_or_default().trim();
    let bare = line.trim_start_matches(['"', '\'']);
    let length = bare.find(|c| !is_word(c)).unwrap_or(bare.len());
    let rest = bare[length..].trim_start_matches(['"', '\'']).trim_start();
    let follows = match syntax {
        Syntax::Hcl => {
            rest == "{"
                || rest
                    .strip_prefix('=')
                    .is_some_and(|value| !value.is_empty())
        }
        Syntax::Yaml => rest == ":" || rest.starts_with(": "),
        Syntax::Json => line.starts_with('"') && rest.starts_with(':'),
    };
    let key = &bare[..length];
    follows && (key == "volume" || schema::volume_field(key).is_some())
}
