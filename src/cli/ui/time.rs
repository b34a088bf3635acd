//! Times as text.

use jiff::Timestamp;
use jiff::tz::TimeZone;

pub(crate) use nomad_csi_model::ago;

/// Returns RFC 3339 with seconds and the offset of the zone, or an empty text for an unset time.
pub(super) fn local_time(nanoseconds: i64, zone: &TimeZone) -> String {
    if nanoseconds <= 0 {
        return String::new();
    }
    let time = Timestamp::from_second(nanoseconds / 1_000_000_000);
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
        assert_eq!(ago(2 * SECOND, SECOND), "0s ago", "a time in the future counts as now");
    }

    #[test]
    fn absolute_times_carry_the_offset() {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(local_time(1_767_323_045 * SECOND + 1, &zone), "2026-01-02T05:04:05+02:00");
        assert_eq!(local_time(0, &zone), "");
    }
}
