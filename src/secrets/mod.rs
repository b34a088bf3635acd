//! Values of secrets that a specification only refers to: environment variables and files.
//!
//! Owns how a source is asked and what it may answer; when it is asked is `reconcile::resolve`'s. A
//! value is a text of at most [`MAX_BYTES`] that is not empty: a pipeline whose secret is missing sets
//! an empty variable, and whoever means an empty secret writes `""`. No answer is kept, and no remark
//! holds a value.

mod env;
mod file;
mod local;

pub use env::Variables;
pub use file::MAX_BYTES;
pub use local::LocalSecrets;
