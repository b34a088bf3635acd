//! What in a text is a secret and must not be shown.
//!
//! Of a text that could be read, the values under every key that sounds like a secret, wherever it
//! stands. Of one that could not, everything from such a word to where its block can have ended: that
//! hides too much rather than too little, because the error that is about to be shown may be what
//! makes the block look closed.

use std::ops::Range;

use super::schema;
use super::syntax::Syntax;
use super::tree::{Entry, Object, Value};
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
    if schema::is_key(key) {
        return matches!(key, "secrets" | "mount_flags");
    }
    let key: String = key
        .chars()
        .filter(|c| !matches!(c, '_' | '-' | '.'))
        .flat_map(char::to_lowercase)
        .collect();
    WORDS.iter().any(|word| key.contains(word))
        || key.starts_with(['s', 'm']) && nearest(&key, ["secrets", "mountflags"]).is_some()
}

/// Whether a word in a text that could not be read may be a rest of such a key.
fn may_be_sensitive(word: &str) -> bool {
    let short = word.len() <= 16 && word.is_ascii();
    let word = word.to_ascii_lowercase();
    is_sensitive(&word)
        || ["flag", "secr", "cret"]
            .iter()
            .any(|rest| word.contains(rest))
        || short && nearest(&word, ["secrets", "mount_flags"]).is_some()
}

/// Calls `hide` for every value that must not be shown. Keys are shown of secrets only, which are
/// known by them; under anything else a key can only be a value gone astray.
pub(super) fn secrets_of(object: &Object<'_>, hide: &mut impl FnMut(Span)) {
    for entry in object.entries.iter().chain(&object.refused) {
        if is_sensitive(&entry.key.text) {
            hide_values(entry, hide);
            if !entry.key.text.to_lowercase().contains("secret") {
                entry.value.for_each_key(hide);
            }
        } else {
            entry
                .value
                .for_each_object(&mut |object| secrets_of(object, hide));
        }
    }
}

/// Hides the values under a sensitive key; a reference to a secret is none.
fn hide_values(entry: &Entry<'_>, hide: &mut impl FnMut(Span)) {
    let Value::Object(object) = &entry.value.value else {
        return entry.value.for_each_scalar(hide);
    };
    for inner in object.entries.iter().chain(&object.refused) {
        if inner.value.as_reference().is_none() {
            inner.value.for_each_scalar(hide);
        }
    }
}

/// What must not be shown of a text that could not be read.
pub(super) fn lexical(text: &str, syntax: Syntax) -> Vec<Range<usize>> {
    let mut hidden = vec![];
    let mut at = 0;
    while let Some(word) = next_word(text, at) {
        at = word.end;
        if may_be_sensitive(&text[word.clone()]) {
            if hidden.len() == MOST_WORDS {
                hidden.push(word.end..text.len());
                break;
            }
            hidden.push(word.end..block_end(text, &word, syntax));
        }
    }
    hidden
}

/// Of how many words the block is looked for; what follows them is hidden whole.
const MOST_WORDS: usize = 1000;

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn next_word(text: &str, from: usize) -> Option<Range<usize>> {
    let start = from + text[from..].find(is_word)?;
    let length = text[start..].find(|c| !is_word(c));
    Some(start..length.map_or(text.len(), |length| start + length))
}

/// Where the block of a word has ended for certain: all brackets opened since are closed, no
/// here-document is open, and a line as little indented as the word's own starts with a key of a
/// volume.
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

/// How many brackets are open after a line, those in quotes not counted; a quote that is not closed
/// takes the rest of the line.
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

/// Whether a line starts with a key of a volume, spelled as in that syntax: `key =` or `key {`, `key:`,
/// `"key":`.
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
