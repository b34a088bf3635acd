//! Reads and writes the user's files: specifications, maps, the config file, reports and file
//! ledgers.

mod config;
mod ledger;
mod output_place;
mod pairs;
mod specs;
mod text;
mod timed;
mod write;

pub use config::{
    CONTEXT_KEYS, ClusterContext, ClusterContexts, current_context, read_config,
    set_current_context,
};
pub use ledger::FileLedger;
pub use pairs::{read_pairs, read_secret_refs};
pub use specs::{
    MAX_BYTES, MAX_TOTAL_BYTES, PIPE_LIMIT, SpecFilesRequest, read_job_files, read_spec_files,
};
pub use text::{read_at_most, read_beginning, read_bytes, read_text, read_trusted_text};
pub use write::{write_many, write_new, write_over, write_private};
