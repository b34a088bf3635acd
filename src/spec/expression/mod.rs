//! Expressions of specifications: read to a tree, checked, and evaluated within limits.
//!
//! An expression reads no file, runs nothing and sends nothing. References to secrets are opaque
//! values. The mark of a sensitive value follows every operation.

mod budget;
mod convert;
mod embedded;
mod evaluate;
mod functions;
mod names;
mod operators;
#[cfg(test)]
mod oracle_tests;
mod problem;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub(crate) use budget::{Budget, LimitExceeded};
pub(crate) use convert::parse_expression;
pub(crate) use embedded::parse_template;
pub(crate) use evaluate::{Scope, VolumeNames, evaluate};
pub use functions::{FUNCTIONS, Function};
pub(crate) use names::{Allowed, Availability, Names, Reference, check, references};
pub(crate) use problem::Problem;
pub(crate) use tree::{Expr, ExprKind};
pub(crate) use value::{Kind, MAX_LEVELS, MapItems, SecretReference, SecretSource, Value};
