//! The subcommands of `plugin`.

mod args;
#[cfg(feature = "agent")]
pub(crate) mod direct;
pub(crate) mod find;
pub(crate) mod impact;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod wait;

pub(crate) use args::PluginCommand;
