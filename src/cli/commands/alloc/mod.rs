//! The subcommands of `alloc`.

mod args;
mod log_lines;
pub(crate) mod logs;
pub(crate) mod status;
pub(crate) mod stop;

pub(crate) use args::AllocCommand;
