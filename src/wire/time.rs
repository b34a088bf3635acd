//! Times: RFC 3339 in JSON, nanoseconds since the epoch in the model, zero for "never".
//!
//! Servers write a zero time as `null`, Go clients as `0001-01-01T00:00:00Z`. Both mean "never", and
//! so does an invalid time, because only a column of a table uses it.

use jiff::Timestamp;

/// Converts a time from JSON to nanoseconds since the epoch; 0 is "never".
pub fn from_wire(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse::<Timestamp>().ok())
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .unwrap_or_default()
}

/// Converts a time to JSON. "Never" becomes `None`, which is `null`.
pub fn to_wire(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).ok();
    time.filter(|_| nanoseconds != 0).map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_invalid_times_mean_never() {
        for (text, expected) in [
            (None, 0),
            (Some("0001-01-01T00:00:00Z"), 0),
            (Some("yesterday"), 0),
            (Some("1970-01-01T00:00:01.5Z"), 1_500_000_000),
            (Some("2026-01-02T03:04:05.123456789Z"), 1_767_323_045_123_456_789),
            (Some("2026-01-02T04:04:05.123456789+01:00"), 1_767_323_045_123_456_789),
        ] {
            assert_eq!(from_wire(text), expected, "{text:?}");
        }
    }

    #[test]
    fn times_round_trip() {
        assert_eq!(to_wire(0), None);
        let time = 1_767_323_045_123_456_789;
        assert_eq!(to_wire(time).as_deref(), Some("2026-01-02T03:04:05.123456789Z"));
        assert_eq!(from_wire(to_wire(time).as_deref()), time);
    }
}
