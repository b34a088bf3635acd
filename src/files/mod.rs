//! Which files a person means, read with their limits.

mod specs;

pub use specs::{MAX_BYTES, Request, read};
