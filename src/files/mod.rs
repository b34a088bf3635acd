//! Which files a person means: specifications to read with their limits, and files to write.

mod pairs;
mod specs;
mod write;

pub use pairs::read_pairs;
pub use specs::{MAX_BYTES, Request, read};
pub use write::write_new;
