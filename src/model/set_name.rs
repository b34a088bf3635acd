//! [`SetName`]: the name of a set of volumes.

/// The name of a set. It is a segment of a variable's path, so it may contain the characters that
/// Nomad allows in paths, except `/` and `~`. It starts with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetName(String);

/// Why a text is not a valid name of a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetNameProblem {
    /// The name is empty.
    #[error("it is empty")]
    Empty,
    /// The name is too long for the path of a variable.
    #[error("it has {0} characters, and the maximum is {max}", max = SetName::MAX_LENGTH)]
    TooLong(usize),
    /// The name starts with a character that is neither a letter nor a digit.
    #[error("it starts with {0:?} instead of a letter or a digit")]
    Start(char),
    /// The name contains a character that paths of variables do not allow.
    #[error("it contains `{0}`; use only a-z, A-Z, 0-9, `-` and `_`")]
    Character(char),
}

impl SetName {
    /// The maximum length. The path of a shard, which contains the name, has at most 128 characters.
    pub const MAX_LENGTH: usize = 48;

    /// Checks and wraps a name.
    ///
    /// # Errors
    /// Fails if the text is not a valid name.
    pub fn parse(text: &str) -> Result<Self, SetNameProblem> {
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let first = text.chars().next().ok_or(SetNameProblem::Empty)?;
        if let Some(other) = text.chars().find(|c| !taken(*c)) {
            return Err(SetNameProblem::Character(other));
        }
        if !first.is_ascii_alphanumeric() {
            return Err(SetNameProblem::Start(first));
        }
        if text.len() > Self::MAX_LENGTH {
            return Err(SetNameProblem::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for SetName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::str::FromStr for SetName {
    type Err = SetNameProblem;

    fn from_str(text: &str) -> Result<Self, SetNameProblem> {
        Self::parse(text)
    }
}
