//! The command line: arguments, settings, commands, words and colours.
//!
//! [`run`] is the whole program. Everything it touches outside comes in a [`World`], so that a test
//! runs a command in-process with a closed environment, and so that nothing is built (runtime, TLS,
//! client) before a command needs it.

mod args;
mod choices;
mod commands;
mod context;
mod contexts;
mod durations;
mod env;
mod error;
mod exit;
mod given_secrets;
mod interrupts;
mod ledger;
mod run;
mod saved;
mod servers;
mod settings;
mod specs;
mod ui;
mod world;

pub use args::Shell;
pub use commands::completion::registration;
pub use commands::man::{Page, pages};
pub use commands::reference::reference;
pub use env::Environment;
pub use error::CliError;
pub use exit::Exit;
pub use interrupts::Interrupts;
pub use run::run;
pub use servers::{Companion, RealServers, Servers, Session};
#[cfg(feature = "agent")]
pub use settings::Embedding;
pub use settings::Target;
pub use world::{Input, Process, Sink, World};
