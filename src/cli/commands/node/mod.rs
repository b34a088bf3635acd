//! The subcommands of `node`.

mod args;
pub(crate) mod change;
pub(crate) mod status;

pub(crate) use args::NodeCommand;
