//! An argument that must not appear in logs.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// Text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RedactedText(pub String);

impl fmt::Debug for RedactedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[REDACTED]")
    }
}

impl FromStr for RedactedText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}
