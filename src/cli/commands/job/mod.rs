//! The subcommands of `job`.

mod args;
pub(crate) mod validate;

pub(crate) use args::JobCommand;
