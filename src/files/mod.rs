//! Which files a person means: specifications to read with their limits, pairs, the config
//! file, files to write, and a ledger in a file.

mod config;
mod ledger;
mod pairs;
mod specs;
mod text;
mod write;

pub use config::{
    CONTEXT_KEYS, ClusterContext, ClusterContexts, choose_context, chosen_context, read_config,
};
pub use ledger::FileLedger;
pub use pairs::{read_pairs, read_secret_refs};
pub use specs::{MAX_BYTES, Request, read};
pub use text::read_text;
pub use write::{write_many, write_new, write_over};
