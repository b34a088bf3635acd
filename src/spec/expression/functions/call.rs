//! What a function gets, and why it has no result.

use std::rc::Rc;

use crate::expression::budget::LimitExceeded;
use crate::expression::value::{Kind, MapItems, NotComparable, SecretReference, Value};

/// Why a function has no result.
pub(in crate::expression) enum Failure {
    /// An argument is not possible. The reason may name it, so it is only for values that are not
    /// sensitive: `hidden` is for the others.
    Argument {
        index: usize,
        reason: String,
        hidden: &'static str,
    },
    /// A secret, which is not known yet, would have to be read.
    Secret(Rc<SecretReference>),
    /// `unknown` would have to be read.
    Unknown,
    Limit(LimitExceeded),
    /// The result is too large a number.
    TooLarge,
}

impl From<LimitExceeded> for Failure {
    fn from(limit: LimitExceeded) -> Self {
        Self::Limit(limit)
    }
}

impl From<NotComparable> for Failure {
    fn from(reason: NotComparable) -> Self {
        match reason {
            NotComparable::Limit(limit) => Self::Limit(limit),
            NotComparable::Secret(secret) => Self::Secret(secret),
            NotComparable::Unknown => Self::Unknown,
        }
    }
}

impl Failure {
    /// Creates the failure of an argument whose reason does not show its value.
    pub(super) fn argument(index: usize, reason: &'static str) -> Self {
        Self::Argument { index, reason: reason.to_owned(), hidden: reason }
    }

    /// Creates the failure of an argument with an item of a wrong type.
    pub(super) fn item(index: usize, item: &Value, expected: &str) -> Self {
        let reason = format!("an item is {}, not {expected}", item.kind_name());
        Self::Argument { index, reason, hidden: "an item has a wrong type" }
    }
}

// The types are checked before a function runs: `table::Parameter`. What does not fit is empty.

/// Returns the text of an argument.
pub(super) fn text(args: &[Value], index: usize) -> &str {
    match args.get(index).map(|value| &value.kind) {
        Some(Kind::Text(text)) => text,
        Some(_) | None => "",
    }
}

/// Returns the items of a list.
pub(super) fn list(args: &[Value], index: usize) -> &[Value] {
    match args.get(index).map(|value| &value.kind) {
        Some(Kind::List(items, _)) => items,
        Some(_) | None => &[],
    }
}

/// Returns the items of a map.
pub(super) fn map(args: &[Value], index: usize) -> Option<&MapItems> {
    match args.get(index).map(|value| &value.kind) {
        Some(Kind::Map(items, _)) => Some(items),
        Some(_) | None => None,
    }
}

/// Returns a whole number.
pub(super) fn whole(args: &[Value], index: usize) -> Result<i64, Failure> {
    match args.get(index).map(|value| &value.kind) {
        Some(Kind::Integer(number)) => Ok(*number),
        Some(Kind::Float(number)) => Err(Failure::Argument {
            index,
            reason: format!("{number} is not a whole number"),
            hidden: "the number is not a whole number",
        }),
        Some(_) | None => Ok(0),
    }
}
