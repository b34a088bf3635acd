//! Why an expression cannot be read, or cannot be tested on a list item.

/// Why a text is not a filter expression. Places count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FilterProblem {
    /// The text is too long.
    #[error("the expression has {length} bytes; the limit is {limit}")]
    TooLong {
        /// The length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// Something else is at a place.
    #[error("at character {at}: expected {expected}, found {found}")]
    Unexpected {
        /// The place.
        at: usize,
        /// The possible tokens at the place.
        expected: &'static str,
        /// The token at the place.
        found: String,
    },
    /// Parentheses and `not` are nested too deeply.
    #[error("at character {at}: more than {limit} nested parentheses and `not`")]
    TooDeep {
        /// The place.
        at: usize,
        /// The limit.
        limit: usize,
    },
    /// There are too many patterns.
    #[error("at character {at}: more than {limit} patterns (`matches`)")]
    TooManyPatterns {
        /// The place.
        at: usize,
        /// The limit.
        limit: usize,
    },
    /// A regular expression is malformed or too large.
    #[error("at character {at}: the regular expression is not valid: {reason}")]
    Pattern {
        /// The place.
        at: usize,
        /// The reason.
        reason: String,
    },
}

/// Why a condition cannot be tested on a list item.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// The list item has no such field.
    #[error("`{field}` is not a field of a list item{}", meant(similar.as_deref()))]
    Unknown {
        /// The field.
        field: String,
        /// A known field of a similar name.
        similar: Option<String>,
    },
    /// The value is of a kind that the operator does not test.
    #[error("`{selector}` is {kind}, which the condition `{condition}` cannot test")]
    Kind {
        /// The value's place.
        selector: String,
        /// The kind of the value: `a number`.
        kind: &'static str,
        /// The condition.
        condition: String,
    },
}

fn meant(similar: Option<&str>) -> String {
    similar.map_or_else(String::new, |known| format!("; did you mean `{known}`?"))
}
