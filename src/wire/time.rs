//! Times: RFC 3339 on the wire, nanoseconds since the epoch inside, zero for "never".
//!
//! Servers write a zero time as `null`, Go clients as `0001-01-01T00:00:00Z`; both are "never", and
//! so is what is no time at all: nothing depends on it but a table's column (`nomad-http-api` 2.5).

use jiff::Timestamp;

/// Nanoseconds of a time on the wire.
pub(super) fn from_wire(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse::<Timestamp>().ok())
        .and_then(|time| i64::try_from(time.as_nanosecond()).ok())
        .unwrap_or_default()
}

/// The wire's spelling; `None`, which becomes `null`, for "never".
pub(super) fn to_wire(nanoseconds: i64) -> Option<String> {
    let time = Timestamp::from_nanosecond(i128::from(nanoseconds)).ok();
    time.filter(|_| nanoseconds != 0)
        .map(|time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_time_in_either_spelling_is_never() {
        for (text, expected) in [
            (None, 0),
            (Some("0001-01-01T00:00:00Z"), 0),
            (Some("yesterday"), 0),
            (Some("1970-01-01T00:00:01.5Z"), 1_500_000_000),
            (
                Some("2026-01-02T03:04:05.123456789Z"),
                1_767_323_045_123_456_789,
            ),
            (
                Some("2026-01-02T04:04:05.123456789+01:00"),
                1_767_323_045_123_456_789,
            ),
        ] {
            assert_eq!(from_wire(text), expected, "{text:?}");
        }
    }

    #[test]
    fn times_read_back() {
        assert_eq!(to_wire(0), None);
        let time = 1_767_323_045_123_456_789;
        assert_eq!(
            to_wire(time).as_deref(),
            Some("2026-01-02T03:04:05.123456789Z")
        );
        assert_eq!(from_wire(to_wire(time).as_deref()), time);
    }
}
