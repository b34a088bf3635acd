//! Converts a specification from one syntax to another: its source, not its values.
//!
//! A text becomes a tree of [`content`], and the tree a text of the other syntax. The result is read again: if its content is
//! another, it is refused.

mod comments;
mod content;
mod convert;
mod nodes;
#[cfg(test)]
mod tests;
mod write_data;
mod write_hcl;

pub use convert::{Converted, convert};
