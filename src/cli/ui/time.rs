//! Points in time, as people read them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How long ago, in the two largest units: `1h20m ago`. Nothing for a time that was never set.
pub(crate) fn ago(nanoseconds: i64, now: i64) -> String {
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

/// RFC 3339 with seconds and the zone's offset. Nothing for a time that was never set.
pub(super) fn local(nanoseconds: i64, zone: &TimeZone) -> String {
    if nanoseconds <= 0 {
        return String::new();
    }
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds));
    let text = time.map(|time| time.display_with_offset(zone.to_offset(time)).to_string());
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn the_two_largest_units_are_shown() {
        for (seconds, expected) in [
            (0, "0s ago"),
            (59, "59s ago"),
            (60, "1m ago"),
            (80 * 60, "1h20m ago"),
            (86_400 + 59, "1d ago"),
            (3 * 86_400 + 4 * 3_600 + 5, "3d4h ago"),
            (400 * 86_400, "1y1mo ago"),
        ] {
            assert_eq!(ago(SECOND, SECOND + seconds * SECOND), expected);
        }
        assert_eq!(ago(0, SECOND), "");
        assert_eq!(ago(2 * SECOND, SECOND), "0s ago", "clocks differ");
    }

    #[test]
    fn absolute_times_carry_the_offset() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(
            local(1_767_323_045 * SECOND, &zone),
            "2026-01-02T05:04:05+02:00"
        );
        assert_eq!(local(0, &zone), "");
    }
}
