//! The subcommands of `plugin`.

mod args;
#[cfg(feature = "agent")]
pub(crate) mod check;
#[cfg(feature = "agent")]
pub(crate) mod diff;
pub(crate) mod find;
pub(crate) mod impact;
#[cfg(feature = "agent")]
pub(crate) mod probe;
#[cfg(feature = "agent")]
pub(crate) mod serve;
#[cfg(feature = "agent")]
mod socket;
pub(crate) mod status;
pub(crate) mod wait;

#[cfg(feature = "agent")]
pub(crate) use args::{CheckArgs, PluginDiffArgs, ProbeArgs, ServeArgs};
pub(crate) use args::{PluginCommand, PluginStatusArgs};
