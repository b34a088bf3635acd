//! Expressions of specifications: read to a tree, checked, and evaluated within limits.
//!
//! An expression reads no file, runs nothing and sends nothing. References to secrets are opaque
//! values. The mark of a sensitive value follows every operation.

pub(crate) mod budget;
pub(crate) mod convert;
#[cfg(test)]
mod cost_tests;
pub(crate) mod embedded;
pub(crate) mod equal_keys;
pub(crate) mod evaluate;
#[cfg(test)]
mod function_tests;
pub(crate) mod functions;
#[cfg(test)]
mod measure_tests;
#[cfg(test)]
mod name_tests;
pub(crate) mod names;
pub(crate) mod number_places;
mod operators;
#[cfg(test)]
mod oracle_tests;
mod other_languages;
pub(crate) mod place;
pub(crate) mod problem;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
pub(crate) mod value;

pub use functions::{FUNCTIONS, Function};
