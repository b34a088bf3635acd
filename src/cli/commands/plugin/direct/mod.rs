//! The commands on a plugin itself, without a server: for its authors, and for the agent that starts it.

mod args;
pub(crate) mod check;
pub(crate) mod diff;
pub(crate) mod probe;
pub(crate) mod serve;
mod socket;

pub(crate) use args::DirectCommand;
