//! The value of `--ledger`.

use std::path::PathBuf;

/// Where a ledger is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LedgerChoice {
    /// In the server's variables.
    Nomad,
    /// In a local file.
    File(PathBuf),
    /// Nowhere. No set owns anything.
    Without,
}

impl LedgerChoice {
    /// Parses the value of `--ledger`.
    ///
    /// # Errors
    /// Returns a message if the text names no ledger.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("file:")) {
            ("nomad", _) => Ok(Self::Nomad),
            ("none", _) => Ok(Self::Without),
            (_, Some(path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err("expected `nomad`, `file:PATH` or `none`".to_owned()),
        }
    }
}

impl std::fmt::Display for LedgerChoice {
    /// Writes the value as on the command line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nomad => f.write_str("nomad"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Without => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_accepts_nomad_none_and_file() {
        for (text, expected) in [
            ("nomad", Some(LedgerChoice::Nomad)),
            ("none", Some(LedgerChoice::Without)),
            ("file:a/b", Some(LedgerChoice::File("a/b".into()))),
            ("file:", None),
            ("consul", None),
            ("", None),
        ] {
            assert_eq!(LedgerChoice::parse(text).ok(), expected, "{text}");
        }
    }
}
