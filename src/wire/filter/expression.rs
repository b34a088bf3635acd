//! Expressions that were read, and how they are written.

use std::fmt;

use regex::{Regex, RegexBuilder};

use super::quotes::quoted;
use super::selector::Selector;

/// A filter of a list: an expression that is true for the items to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter(pub(super) Expression);

/// A condition, or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// One condition.
    Condition(Condition),
    /// The opposite of an expression.
    Not(Box<Expression>),
    /// All of at least two expressions.
    All(Vec<Expression>),
    /// At least one of at least two expressions.
    Any(Vec<Expression>),
}

/// A test of one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    /// The value's place.
    pub(super) selector: Selector,
    /// The test.
    pub(super) test: Test,
    /// True if the opposite of the test is meant.
    pub(super) is_negated: bool,
}

/// The test of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Test {
    /// The value is this text, number or boolean.
    Equals(String),
    /// The text contains this text, the list this element, or the map this key.
    Contains(String),
    /// The text, list or map has no content.
    IsEmpty,
    /// A part of the text matches.
    Matches(Pattern),
}

/// A regular expression; compared by its text.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Regex);

impl Pattern {
    /// The largest size of a compiled pattern, in bytes.
    const SIZE: usize = 1 << 18;
    /// The deepest nesting of groups.
    const DEPTH: u32 = 32;

    /// Compiles a pattern.
    ///
    /// # Errors
    /// If it is malformed, or too large once compiled: the reason in one line.
    pub(super) fn new(text: &str) -> Result<Self, String> {
        let compiled = RegexBuilder::new(text)
            .size_limit(Self::SIZE)
            .dfa_size_limit(Self::SIZE)
            .nest_limit(Self::DEPTH)
            .build();
        compiled.map(Self).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => "the pattern is too large".to_owned(),
            error => {
                let text = error.to_string();
                let reason = text.lines().last().unwrap_or_default();
                reason.strip_prefix("error: ").unwrap_or(reason).to_owned()
            }
        })
    }

    /// Returns whether a part of the text matches. The time is proportional to the length of the text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Condition(condition) => condition.fmt(f),
            Self::Not(negated) => write!(f, "not {}", Part(negated)),
            Self::All(parts) => write_joined(f, parts, "and"),
            Self::Any(parts) => write_joined(f, parts, "or"),
        }
    }
}

fn write_joined(f: &mut fmt::Formatter<'_>, parts: &[Expression], word: &str) -> fmt::Result {
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            write!(f, " {word} ")?;
        }
        write!(f, "{}", Part(part))?;
    }
    Ok(())
}

/// An expression inside another one.
struct Part<'a>(&'a Expression);

impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expression::Condition(_) | Expression::Not(_) => self.0.fmt(f),
            Expression::All(_) | Expression::Any(_) => write!(f, "({})", self.0),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selector = &self.selector;
        let not = if self.is_negated { "not " } else { "" };
        match &self.test {
            Test::Equals(value) => {
                let operator = if self.is_negated { "!=" } else { "==" };
                write!(f, "{selector} {operator} {}", quoted(value))
            }
            Test::Contains(value) => write!(f, "{selector} {not}contains {}", quoted(value)),
            Test::IsEmpty => write!(f, "{selector} is {not}empty"),
            Test::Matches(pattern) => {
                write!(f, "{selector} {not}matches {}", quoted(pattern.0.as_str()))
            }
        }
    }
}
