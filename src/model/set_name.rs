//! [`SetName`]: what a set of volumes is called.

/// What a set is called. It is a segment of a variable's path, so Nomad's characters for paths hold
/// (`nomad-neighbour-apis` 1.5) without `/` and `~`, and it starts with a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetName(String);

/// Why a text is no set's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetNameProblem {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It is longer than a path has room for.
    #[error("it has {0} characters, and {max} is the most", max = SetName::LONGEST)]
    TooLong(usize),
    /// It starts with something else than a letter or a digit.
    #[error("it starts with {0:?}, and has to start with a letter or a digit")]
    Start(char),
    /// It holds a character that a variable's path does not take.
    #[error("it holds {0:?}; only a-z, A-Z, 0-9, `-` and `_` are taken")]
    Character(char),
}

impl SetName {
    /// The most characters: the path of a shard has 128 (`nomad-neighbour-apis` 1.5).
    pub const LONGEST: usize = 48;

    /// The name, if it is one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, SetNameProblem> {
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        let first = text.chars().next().ok_or(SetNameProblem::Empty)?;
        if let Some(other) = text.chars().find(|c| !taken(*c)) {
            return Err(SetNameProblem::Character(other));
        }
        if !first.is_ascii_alphanumeric() {
            return Err(SetNameProblem::Start(first));
        }
        if text.len() > Self::LONGEST {
            return Err(SetNameProblem::TooLong(text.len()));
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
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
