//! The functions of expressions: pure, the same result in every run, and within limits.
//!
//! [`FUNCTIONS`] is the one table of all. Nothing here reads a clock, a file or a random number,
//! because every plan would then show a change.

pub(crate) mod call;
mod collections;
pub(crate) mod encoding;
mod numbers;
pub(crate) mod table;
mod text;

pub use table::{FUNCTIONS, Function};
