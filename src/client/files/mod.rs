//! Reads and writes the user's files: specifications, maps, the config file, policies, reports and file
//! ledgers.

mod added_context;
mod config;
mod given;
mod ledger;
mod named;
mod output_place;
mod pairs;
mod plugin_snapshots;
mod policy;
mod set_runs;
mod specs;
mod text;
mod timed;
mod write;

pub use added_context::{NewContext, with_context};
pub use config::{
    CONTEXT_KEYS, ClusterContext, ClusterContexts, current_context, parse_config, read_config,
    read_limited, set_current_context,
};
pub(crate) use given::GivenFile;
pub use given::{PIPE_LIMIT, StreamTexts, is_passing, is_stream, read_at_most, read_bytes};
pub use ledger::FileLedger;
pub use named::NamedFiles;
pub use pairs::{read_pairs, read_secret_refs};
pub use plugin_snapshots::read_plugin_snapshots;
pub use policy::read_policy;
pub use set_runs::{FileOfCommand, SetRun, are_in_one_place, divide_into_runs};
pub use specs::{
    MAX_BYTES, MAX_TOTAL_BYTES, SpecFilesRequest, is_specification, read_job_files, read_spec_files,
};
pub use text::{
    MAX_VARIABLE_FILE_BYTES, MAX_VARIABLE_FILES, read_beginning, read_text, read_text_from,
    read_trusted_text, read_variable_file,
};
pub use write::{rewrite, write_many, write_new, write_over, write_private};
