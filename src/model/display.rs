//! Text for people: ages, and text from outside without control characters.

use std::fmt;

/// Returns how long ago a time was, in its two largest units: `1h20m ago`. Empty if the time is unset.
pub fn ago(nanoseconds: i64, now: i64) -> String {
    if nanoseconds <= 0 {
        return String::new();
    }
    let seconds = now.saturating_sub(nanoseconds).max(0) / 1_000_000_000;
    format!("{} ago", two_units(seconds.unsigned_abs()))
}

/// Returns how long until a time, in its two largest units: `in 1m20s`. A time in the past is `now`.
pub fn until(nanoseconds: i64, now: i64) -> String {
    // A wait is rounded up, so that it never ends before it is over.
    let seconds = nanoseconds.saturating_sub(now).max(0).div_euclid(1_000_000_000);
    let has_rest = nanoseconds.saturating_sub(now).max(0) % 1_000_000_000 > 0;
    match seconds.unsigned_abs() + u64::from(has_rest) {
        0 => "now".to_owned(),
        seconds => format!("in {}", two_units(seconds)),
    }
}

/// Quotes a word for a POSIX shell: what a person copies from a message is one word of the command.
pub fn shell_quoted(word: impl fmt::Display) -> String {
    let word = word.to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word;
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Returns the last position at or before this one where a letter begins.
pub fn boundary_before(text: &str, at: usize) -> usize {
    let positions = (0..=at.min(text.len())).rev();
    let mut boundaries = positions.filter(|at| text.is_char_boundary(*at));
    boundaries.next().unwrap_or_default()
}

/// Returns the first position at or after this one where a letter begins.
pub(crate) fn boundary_after(text: &str, at: usize) -> usize {
    let mut boundaries = (at..text.len()).filter(|at| text.is_char_boundary(*at));
    boundaries.next().unwrap_or(text.len())
}

fn two_units(seconds: u64) -> String {
    const UNITS: [(&str, u64); 6] = [
        ("y", 365 * 86_400),
        ("mo", 30 * 86_400),
        ("d", 86_400),
        ("h", 3_600),
        ("m", 60),
        ("s", 1),
    ];
    let first = UNITS.iter().position(|(_, length)| seconds >= *length);
    let Some(first) = first else {
        return "0s".to_owned();
    };
    let mut rest = seconds;
    let mut shown = vec![];
    for (name, length) in UNITS.iter().skip(first).take(2) {
        if rest >= *length {
            shown.push(format!("{}{name}", rest / length));
        }
        rest %= length;
    }
    shown.concat()
}

/// Replaces every invisible character, line ends included, with a visible one.
pub fn one_line(text: &str) -> String {
    text.chars().map(visible_char).collect()
}

/// Returns a visible character in place of an invisible one.
pub fn visible_char(c: char) -> char {
    match c {
        '\u{7f}' => '\u{2421}',
        c if c.is_ascii_control() => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if is_invisible(c) => '\u{fffd}',
        c => c,
    }
}

/// Returns whether a terminal does not show a character but obeys it: control characters (C0 and
/// C1), bidirectional control characters, and characters without width, such as those of tags.
pub fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{feff}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes invisible characters in JSON, which can only be within its texts, and what a workflow runner takes for a
/// command anywhere in a line (`##[`). Line ends and tabs stay: they are between the values.
pub fn escape_json(json: &str) -> String {
    let escaped = escape(json, |c, escaped| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            escaped.extend(["\\u".to_owned(), format!("{unit:04x}")]);
        }
    });
    without_runner_commands(escaped, "\\u0023")
}

/// Escapes invisible characters in JSON that is read as YAML, which has no pairs of surrogates.
pub fn escape_json_for_yaml(json: &str) -> String {
    let escaped = escape(json, |c, escaped| {
        escaped.extend(["\\U".to_owned(), format!("{:08x}", u32::from(c))]);
    });
    without_runner_commands(escaped, "\\U00000023")
}

fn without_runner_commands(json: String, number_sign: &str) -> String {
    match json.contains("##") {
        true => json
            .replace("##[", &format!("{number_sign}#["))
            .replace("##vso[", &format!("{number_sign}#vso[")),
        false => json,
    }
}

fn escape(json: &str, mut write: impl FnMut(char, &mut String)) -> String {
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_invisible(c) && !matches!(c, '\n' | '\t') {
            write(c, &mut escaped);
        } else {
            escaped.push(c);
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIDDEN: [char; 12] = [
        '\u{1b}',
        '\u{7f}',
        '\u{9b}',
        '\u{85}',
        '\u{ad}',
        '\u{200b}',
        '\u{202e}',
        '\u{2066}',
        '\u{2069}',
        '\u{feff}',
        '\u{e0041}',
        '\u{2028}',
    ];

    #[test]
    fn invisible_characters_are_replaced_and_all_others_stay() {
        for c in HIDDEN {
            assert!(is_invisible(c), "{c:?}");
            assert!(!is_invisible(visible_char(c)), "{c:?}");
        }
        assert_eq!(one_line("a\u{1b}[2J\u{9b}b\n\u{202e}"), "a␛[2J\u{fffd}b␊\u{fffd}");
        let shown = "db-0 日本 é 🦀 …";
        assert_eq!(one_line(shown), shown);
    }

    #[test]
    fn escaped_json_has_the_same_value() {
        let text: String = HIDDEN.iter().collect();
        let json = serde_json::json!({"ID": text, "é": [1], "##[error]": "##vso[x]"});
        let written = serde_json::to_string_pretty(&json).unwrap();
        let escaped = escape_json(&written);
        assert!(escaped.chars().all(|c| c == '\n' || !is_invisible(c)));
        assert!(!escaped.contains("##"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), json);
        let yaml = escape_json_for_yaml(&written);
        assert!(yaml.chars().all(|c| c == '\n' || !is_invisible(c)));
        assert!(!yaml.contains("##"), "{yaml}");
        assert_eq!(serde_yaml::from_str::<serde_json::Value>(&yaml).unwrap(), json);
    }
}
