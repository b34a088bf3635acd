//! The subcommands of `alloc`.

mod args;
pub(crate) mod files;
mod log_lines;
mod log_tail;
pub(crate) mod logs;
pub(crate) mod signal;
pub(crate) mod status;
pub(crate) mod stop;

pub(crate) use args::AllocCommand;
