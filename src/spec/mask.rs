//! Finds the secrets in a text, to hide them.
//!
//! In a text that parses, the values under every key that looks like a secret. [`super::mask_text`]
//! finds them in any other text.

use super::schema;
use super::tree::{Entry, Object, Value};
use nomad_csi_model::diagnostic::{Span, closest_match};

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

/// Returns whether a single value under an unknown key may be a secret, in a text without a key of
/// secrets.
pub(super) fn may_name_secret(key: &str) -> bool {
    const PARTS: [&str; 6] = ["pass", "pw", "key", "auth", "cred", "pin"];
    let lower = key.to_ascii_lowercase();
    may_be_sensitive(key) || PARTS.iter().any(|part| lower.contains(part))
}

/// Returns whether an object or one within it has a sensitive key.
pub(super) fn has_sensitive_key(object: &Object<'_>) -> bool {
    let mut entries = object.entries.iter().chain(&object.duplicates);
    entries.any(|entry| {
        let mut found = is_sensitive(&entry.key.text);
        entry.value.for_each_object(&mut |inner| found = found || has_sensitive_key(inner));
        found
    })
}

/// Returns whether a word in a text that does not parse may be part of such a key.
pub(super) fn may_be_sensitive(word: &str) -> bool {
    /// No shorter word is similar to a sensitive one.
    const SHORTEST: usize = 3;
    if word.len() < SHORTEST {
        return false;
    }
    let short = word.len() <= 16 && word.is_ascii();
    let word = word.to_ascii_lowercase();
    is_sensitive(&word)
        || ["flag", "secr", "cret"].iter().any(|rest| word.contains(rest))
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
            entry.value.for_each_object(&mut |object| for_each_secret(object, hide));
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
