//! Resolves secret references: environment variables and files.
//!
//! A secret is a text of at most [`MAX_BYTES`] and is not empty: an empty variable usually means a
//! missing secret, and a specification can set an empty one as `""`. `reconcile` decides when to
//! resolve. Nothing is cached, and no error contains a value.

mod env;
mod file;
mod local;

pub use env::EnvLookup;
pub use file::MAX_BYTES;
pub use local::LocalSecrets;
