//! Which files a person means: specifications to read with their limits, pairs, files to write, and
//! a ledger in a file.

mod ledger;
mod pairs;
mod specs;
mod write;

pub use ledger::FileLedger;
pub use pairs::read_pairs;
pub use specs::{MAX_BYTES, Request, read};
pub use write::{write_new, write_over};
