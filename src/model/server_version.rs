//! The version of a Nomad server.

use std::cmp::Ordering;

/// A version of Nomad, such as `1.7.3` or `2.0.0-beta.1+ent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerVersion {
    /// The 2 of 2.0.5.
    pub major: u32,
    /// The 0 of 2.0.5.
    pub minor: u32,
    /// The 5 of 2.0.5.
    pub patch: u32,
    /// Such as `beta.1`; empty for a release.
    pub prerelease: String,
    /// Such as `ent`; empty for the community edition.
    pub metadata: String,
}

/// The text is not a version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a version like 1.7.3")]
pub struct InvalidVersion(String);

impl ServerVersion {
    /// Creates the version of a release.
    pub const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self { major, minor, patch, prerelease: String::new(), metadata: String::new() }
    }

    /// Parses `MAJOR.MINOR[.PATCH][-PRERELEASE][+METADATA]`, with an optional leading `v`.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn parse(text: &str) -> Result<Self, InvalidVersion> {
        let invalid = || InvalidVersion(text.to_owned());
        let rest = text.trim();
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        let (rest, metadata) = rest.split_once('+').unwrap_or((rest, ""));
        let (numbers, prerelease) = rest.split_once('-').unwrap_or((rest, ""));
        let number = |digits: &str| {
            let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
            only_digits.then(|| digits.parse().ok()).flatten()
        };
        let numbers: Option<Vec<u32>> = numbers.split('.').map(number).collect();
        let (major, minor, patch) = match numbers.as_deref() {
            Some([major, minor]) => (*major, *minor, 0),
            Some([major, minor, patch]) => (*major, *minor, *patch),
            Some(_) | None => return Err(invalid()),
        };
        Ok(Self {
            prerelease: prerelease.to_owned(),
            metadata: metadata.to_owned(),
            ..Self::new(major, minor, patch)
        })
    }

    /// Returns whether this is that release or a later one. A beta counts as its release.
    pub fn is_at_least(&self, major: u32, minor: u32, patch: u32) -> bool {
        (self.major, self.minor, self.patch) >= (major, minor, patch)
    }
}

impl PartialOrd for ServerVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ServerVersion {
    /// A prerelease sorts before its release. Metadata decides only between otherwise equal versions.
    fn cmp(&self, other: &Self) -> Ordering {
        let numbers = |version: &Self| (version.major, version.minor, version.patch);
        let released = |version: &Self| version.prerelease.is_empty();
        numbers(self)
            .cmp(&numbers(other))
            .then_with(|| released(self).cmp(&released(other)))
            .then_with(|| self.prerelease.cmp(&other.prerelease))
            .then_with(|| self.metadata.cmp(&other.metadata))
    }
}

impl std::fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { major, minor, patch, prerelease, metadata } = self;
        write!(f, "{major}.{minor}.{patch}")?;
        if !prerelease.is_empty() {
            write!(f, "-{prerelease}")?;
        }
        if !metadata.is_empty() {
            write!(f, "+{metadata}")?;
        }
        Ok(())
    }
}

impl std::str::FromStr for ServerVersion {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_and_print_as_in_nomad() {
        for (text, shown) in [
            ("2.0.5", "2.0.5"),
            ("v1.7.3+ent", "1.7.3+ent"),
            ("1.10.0-beta.1+ent.fips1403", "1.10.0-beta.1+ent.fips1403"),
            ("1.4", "1.4.0"),
        ] {
            assert_eq!(ServerVersion::parse(text).unwrap().to_string(), shown);
        }
        for text in ["", "1", "1.2.3.4", "a.b", "1.+2.3", "1..3", "-1.2"] {
            assert!(ServerVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn versions_compare_by_number_first() {
        let sorted = ["1.4.0", "1.7.18", "1.10.0-beta.1", "1.10.0-rc.1", "1.10.0", "2.0.5"];
        let parsed: Vec<_> = sorted.map(|text| ServerVersion::parse(text).unwrap()).into();
        assert!(parsed.is_sorted());
        assert!(parsed[2].is_at_least(1, 10, 0) && !parsed[1].is_at_least(1, 7, 19));
    }
}
