//! One file or folder per command: parse arguments, run a workflow, print its result.

pub(crate) mod acl;
#[cfg(feature = "agent")]
pub(crate) mod agent;
pub(crate) mod alloc;
pub(crate) mod apply;
pub(crate) mod auth;
pub(crate) mod completion;
pub(crate) mod context;
pub(crate) mod convert;
pub(crate) mod drift;
pub(crate) mod explain;
pub(crate) mod fmt;
pub(crate) mod forget;
pub(crate) mod help;
pub(crate) mod import;
pub(crate) mod job;
mod live_lists;
mod live_values;
pub(crate) mod lsp;
pub(crate) mod man;
pub(crate) mod namespace;
pub(crate) mod node;
pub(crate) mod orphans;
pub(crate) mod plan;
pub(crate) mod plugin;
pub(crate) mod reconcile;
pub(crate) mod render;
pub(crate) mod schema;
pub(crate) mod set;
pub(crate) mod shell_words;
pub(crate) mod snapshot;
mod status;
pub(crate) mod submit;
pub(crate) mod validate;
pub(crate) mod version;
pub(crate) mod volume;
mod watching;
