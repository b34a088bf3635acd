//! Durations in Go's notation: `15s`, `1m30.5s`, `48h0m0s`. Requests may also contain a number of
//! nanoseconds. Durations are exact to the nanosecond and may be negative; callers check the range.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i128 = 1_000_000_000;

/// A duration in nanoseconds; zero means "not given".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

/// The text is not a duration. The message is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("time: invalid duration {0:?}")]
pub struct InvalidDuration(String);

impl GoDuration {
    /// Creates a duration of whole seconds.
    pub const fn from_secs(seconds: u32) -> Self {
        Self(seconds as i64 * 1_000_000_000)
    }

    /// Parses a text like Go's `time.ParseDuration`.
    ///
    /// # Errors
    /// Fails if the text is not a duration, or too large for Go.
    pub fn parse(text: &str) -> Result<Self, InvalidDuration> {
        let nanoseconds = parse(text).and_then(|nanoseconds| i64::try_from(nanoseconds).ok());
        nanoseconds.map(Self).ok_or_else(|| InvalidDuration(text.to_owned()))
    }

    /// Returns the standard duration; `None` if it is negative.
    pub fn to_std(self) -> Option<std::time::Duration> {
        let nanoseconds = u64::try_from(self.0).ok()?;
        Some(std::time::Duration::from_nanos(nanoseconds))
    }
}

fn parse(text: &str) -> Option<i128> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_i128;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(number_end);
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        total = total.checked_add(scaled(number, unit_nanoseconds(unit)?)?)?;
        rest = after;
    }
    Some(sign * total)
}

/// Multiplies `number`, with or without a fraction, by `unit`. Truncates below a nanosecond.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: i128 = match whole {
        "" => 0,
        digits => digits.parse().ok()?,
    };
    let mut total = whole.checked_mul(unit)?;
    let mut place = unit;
    for digit in fraction.chars() {
        place /= 10;
        total = total.checked_add(place * i128::from(digit.to_digit(10)?))?;
    }
    Some(total)
}

fn unit_nanoseconds(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3600 * SECOND,
        _ => return None,
    })
}

impl fmt::Display for GoDuration {
    /// Writes the same text as Go's `Duration.String`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = i128::from(self.0.unsigned_abs());
        if self.0 < 0 {
            f.write_str("-")?;
        }
        let with_fraction = |unit: i128| {
            let (whole, rest) = (nanoseconds / unit, nanoseconds % unit);
            decimal(whole, rest, unit)
        };
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => write!(f, "{}µs", with_fraction(1_000)),
            1_000_000..SECOND => write!(f, "{}ms", with_fraction(1_000_000)),
            _ => {
                let (seconds, rest) = (nanoseconds / SECOND, nanoseconds % SECOND);
                let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
                if hours > 0 {
                    write!(f, "{hours}h")?;
                }
                if seconds >= 60 {
                    write!(f, "{minutes}m")?;
                }
                write!(f, "{}s", decimal(seconds % 60, rest, SECOND))
            }
        }
    }
}

/// Formats `whole` and `rest` parts of `unit` without trailing zeros.
fn decimal(whole: i128, rest: i128, unit: i128) -> String {
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.to_string().len() - 1;
    let fraction = format!("{rest:0digits$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == 0 {
            return serializer.serialize_str("");
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNumber)
    }
}

struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(GoDuration::default())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(GoDuration(number))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
        i64::try_from(number)
            .map(GoDuration)
            .map_err(|_| E::custom(InvalidDuration(number.to_string())))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        if text.is_empty() {
            return Ok(GoDuration::default());
        }
        GoDuration::parse(text).map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print_as_in_go() {
        for (text, nanoseconds, again) in [
            ("15s", 15_000_000_000, "15s"),
            ("1m30.5s", 90_500_000_000, "1m30.5s"),
            ("48h", 172_800_000_000_000, "48h0m0s"),
            ("1h2m3.5s", 3_723_500_000_000, "1h2m3.5s"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("2.5ms", 2_500_000, "2.5ms"),
            (".5us", 500, "500ns"),
            ("1500ns", 1_500, "1.5µs"),
            ("0", 0, "0s"),
            ("-10s", -10_000_000_000, "-10s"),
            ("+1s", 1_000_000_000, "1s"),
            ("0.0000000001s", 0, "0s"),
        ] {
            let duration = GoDuration::parse(text);
            assert_eq!(duration, Ok(GoDuration(nanoseconds)), "{text}");
            assert_eq!(GoDuration(nanoseconds).to_string(), again, "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_has_gos_error() {
        for text in ["", "10", "s", "1 s", "1d", "+", "1e9h", "1.2.3s", ".s", "9999999h"] {
            let error = GoDuration::parse(text).expect_err(text);
            assert_eq!(error.to_string(), format!("time: invalid duration {text:?}"));
        }
    }
}
