//! Filter expressions of lists, as Nomad's clients send them.
//!
//! The language is go-bexpr's: a selector of a field, an operator, a value, joined by `and`, `or`, `not`
//! and parentheses. An expression is read once and tested on the JSON of each list item, so it can see
//! only what the list item shows. Length, depth and patterns are limited, and a pattern takes time
//! proportional to the text.
//!
//! ```text
//! PluginID == "ebs0" and (Name matches "^db" or Parameters.type in "gp2,gp3") and not Schedulable == false
//! ```

mod evaluate;
mod expression;
mod parse;
mod problem;
mod quotes;
mod selector;

pub use expression::Filter;
pub use problem::{FieldProblem, FilterProblem};

#[cfg(test)]
mod tests;
