//! Durations on the command line: `30s`, `5m`, `1h30m`.

use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;

/// A duration of at most one week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeSpan(pub Duration);

const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let example = "expected a number with a unit, such as 30s, 5m or 1h30m";
        let span: SignedDuration = text.parse().map_err(|_| example.to_owned())?;
        let span =
            Duration::try_from(span).map_err(|_| "the duration must not be negative".to_owned())?;
        if span > LONGEST {
            return Err("the longest duration is one week, 168h".to_owned());
        }
        Ok(Self(span))
    }
}

impl std::fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match SignedDuration::try_from(self.0) {
            Ok(span) => write!(f, "{span:#}"),
            Err(_) => write!(f, "{}s", self.0.as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_with_a_unit_and_displayed() {
        for (text, expected) in [
            ("30s", Some((30, "30s"))),
            ("5m", Some((300, "5m"))),
            ("1h30m", Some((5400, "1h 30m"))),
            ("0s", Some((0, "0s"))),
            ("30", None),
            ("-5m", None),
            ("8d", None),
            ("200h", None),
            ("soon", None),
        ] {
            let read = text.parse::<TimeSpan>().ok();
            let read = read.map(|span| (span.0.as_secs(), span.to_string()));
            let expected = expected.map(|(seconds, shown)| (seconds, shown.to_owned()));
            assert_eq!(read, expected, "{text}");
        }
    }
}
