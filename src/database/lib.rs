//! Owns the files of the embedded database (redb): how one is created, opened, verified and written, and what its failures mean.

mod contained;
mod file;
mod storage;

pub use contained::{ContainedPanic, contained};
pub use file::{FailureKind, begin, create, create_without_lock, open};
pub use storage::{FileStorage, Storage};
