//! Text for people: ages, and text from outside without control characters.

/// Returns how long ago a time was, in its two largest units: `1h20m ago`. Empty if the time is unset.
pub fn ago(nanoseconds: i64, now: i64) -> String {
    if nanoseconds <= 0 {
        return String::new();
    }
    let seconds = now.saturating_sub(nanoseconds).max(0) / 1_000_000_000;
    format!("{} ago", two_units(seconds.unsigned_abs()))
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

/// Replaces every control character, line ends included, with a visible one.
pub fn one_line(text: &str) -> String {
    text.chars().map(visible_char).collect()
}

/// Returns a visible character in place of a control character.
pub fn visible_char(c: char) -> char {
    match c {
        '\u{7f}' => '\u{2421}',
        c if c.is_ascii_control() => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if c.is_control() => '\u{fffd}',
        c => c,
    }
}
