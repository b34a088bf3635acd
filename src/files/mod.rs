//! Which files a person means: specifications to read with their limits, and files to write.

mod specs;
mod write;

pub use specs::{MAX_BYTES, Request, read};
pub use write::write_new;
