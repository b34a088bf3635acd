//! Query parameters, parsed as Nomad parses them.
//!
//! The first of several parameters of one name counts. A value is checked when it is used, so an
//! endpoint ignores invalid parameters that it does not use.

use std::time::Duration;

use crate::error::RequestError;
use nomad_csi_model::Namespace;
use nomad_csi_wire::{GoDuration, parse_boolean};

/// Names and values, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(Vec<(String, String)>);

impl Parameters {
    pub(super) fn parse(query: Option<&str>) -> Self {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// The first value of that name, possibly empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// All values of that name.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// The first value of that name, unless it is empty.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    pub(super) fn namespace(&self) -> Option<Namespace> {
        self.text("namespace").map(Namespace::new)
    }

    pub(super) fn namespace_or_default(&self) -> Namespace {
        self.namespace().unwrap_or_default()
    }

    pub(super) fn prefix(&self) -> &str {
        self.get("prefix").unwrap_or_default()
    }

    /// Returns whether `pretty` is present and not `0`.
    pub(super) fn is_pretty(&self) -> bool {
        self.get("pretty").is_some_and(|value| value != "0")
    }

    /// The wait of a blocking read. Checks `stale` too, which has no effect: every read is consistent.
    pub(super) fn wait(&self) -> Result<Wait, RequestError> {
        match self.get("stale") {
            None | Some("") => {}
            Some(value) => {
                parse_boolean(value).ok_or(RequestError::Stale)?;
            }
        }
        let duration = match self.text("wait") {
            None => Duration::ZERO,
            Some(text) => parse_duration(text).ok_or(RequestError::Wait)?,
        };
        let index = match self.text("index") {
            None => 0,
            Some(text) => text.parse().map_err(|_| RequestError::Index)?,
        };
        Ok(Wait { index, duration })
    }

    /// The page size; 0 is unlimited.
    pub(super) fn per_page(&self) -> Result<usize, RequestError> {
        match self.text("per_page") {
            None => Ok(0),
            Some(text) => {
                let number = text.parse::<u32>().map_err(|_| RequestError::PerPage)?;
                usize::try_from(number).map_err(|_| RequestError::PerPage)
            }
        }
    }

    /// The index that a conditional write expects; `None` if the write is unconditional.
    pub(super) fn cas(&self) -> Result<Option<u64>, RequestError> {
        let Some(text) = self.text("cas") else {
            return Ok(None);
        };
        let index = text.parse();
        index.map(Some).map_err(|_| RequestError::Cas(text.to_owned()))
    }

    /// Returns whether a volume may have the data of another one.
    pub(super) fn share(&self) -> Result<bool, RequestError> {
        match self.text("share") {
            None => Ok(false),
            Some(text) => parse_boolean(text).ok_or(RequestError::Share),
        }
    }

    pub(super) fn force(&self) -> Result<bool, RequestError> {
        match self.text("force") {
            None => Ok(false),
            Some(text) => parse_boolean(text).ok_or(RequestError::Force),
        }
    }
}

/// The condition of a blocking read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// The index that the client has seen; 0 does not wait.
    pub(super) index: u64,
    /// The longest wait; zero is the default.
    pub(super) duration: Duration,
}

/// Parses a duration as Go does; refuses a negative one.
fn parse_duration(text: &str) -> Option<Duration> {
    GoDuration::parse(text).ok()?.to_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_go_parses_them() {
        for (text, expected) in [
            ("10s", Some(10_000)),
            ("1500ms", Some(1500)),
            ("5m", Some(300_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("0", Some(0)),
            ("0s", Some(0)),
            (".5s", Some(500)),
            ("10", None),
            ("s", None),
            ("-1s", None),
            ("1 s", None),
            ("1d", None),
            ("+", None),
            ("1e9h", None),
        ] {
            let expected = expected.map(Duration::from_millis);
            assert_eq!(parse_duration(text), expected, "{text}");
        }
    }

    #[test]
    fn the_first_parameter_of_a_name_counts() {
        let parameters = Parameters::parse(Some("a=1&a=2&b&c=x%2Fy+z&pretty"));
        assert_eq!(parameters.get("a"), Some("1"));
        assert_eq!((parameters.get("b"), parameters.text("b")), (Some(""), None));
        assert_eq!(parameters.get("c"), Some("x/y z"));
        assert!(parameters.is_pretty());
        assert!(!Parameters::parse(Some("pretty=0")).is_pretty());
    }

    #[test]
    fn invalid_parameters_have_nomads_errors() {
        for (query, expected) in [
            ("index=x", RequestError::Index),
            ("index=-1", RequestError::Index),
            ("wait=10", RequestError::Wait),
            ("stale=maybe", RequestError::Stale),
        ] {
            let outcome = Parameters::parse(Some(query)).wait();
            assert_eq!(outcome, Err(expected), "{query}");
        }
        let paged = |query| Parameters::parse(Some(query)).per_page();
        assert_eq!(paged("per_page=x"), Err(RequestError::PerPage));
        assert_eq!(paged("per_page=-1"), Err(RequestError::PerPage));
        assert_eq!((paged("per_page=7"), paged("")), (Ok(7), Ok(0)));
        let forced = |query| Parameters::parse(Some(query)).force();
        assert_eq!(forced("force=maybe"), Err(RequestError::Force));
        assert_eq!((forced("force=T"), forced("force=")), (Ok(true), Ok(false)));
    }
}
