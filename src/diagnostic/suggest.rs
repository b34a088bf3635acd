//! "Did you mean": the nearest known word.

/// The candidate that `word` was most likely meant to be, if one is near enough.
///
/// Near enough is a similarity (Jaro–Winkler, ignoring case) of 0.85 or more: `acess_mode` finds
/// `access_mode`, `foo` finds nothing. Of equals, the first candidate wins.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NEAR: f64 = 0.85;
    let word = word.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in candidates {
        let similarity = strsim::jaro_winkler(&word, &candidate.to_lowercase());
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
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["access_mode", "attachment_mode", "plugin_id"];
        for (word, expected) in [
            ("acess_mode", Some("access_mode")),
            ("Plugin_ID", Some("plugin_id")),
            ("attachement_mode", Some("attachment_mode")),
            ("foo", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}
