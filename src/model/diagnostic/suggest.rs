//! The search for the closest match behind "did you mean".

/// Returns the candidate that is most similar to `word`, if it is similar enough.
///
/// The threshold is a Jaro–Winkler similarity of 0.85, ignoring case: `acess_mode` matches
/// `access_mode`, `foo` matches nothing. The first of equal candidates wins. A word of more than four
/// times the length of a candidate cannot reach the threshold, and is not compared.
pub fn closest_match<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    const NEAR: f64 = 0.85;
    /// Four times the characters, in bytes: a character has up to four.
    const TOO_LONG: usize = 4 * 4;
    let mut lower = None;
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        if word.len() > TOO_LONG * candidate.len() {
            continue;
        }
        let word = &**lower.get_or_insert_with(|| word.to_lowercase());
        let similarity = strsim::jaro_winkler(word, &candidate.to_lowercase());
        if similarity >= NEAR && best.is_none_or(|(score, _)| similarity > score) {
            best = Some((similarity, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_words_match_and_others_do_not() {
        let known = ["access_mode", "attachment_mode", "plugin_id"];
        for (word, expected) in [
            ("acess_mode", Some("access_mode")),
            ("Plugin_ID", Some("plugin_id")),
            ("attachement_mode", Some("attachment_mode")),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(closest_match(word, known), expected, "{word}");
        }
    }
}
