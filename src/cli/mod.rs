//! The command line: arguments, settings, commands, words and colours.
//!
//! [`run_command_line`] is the whole program. Everything it touches outside comes in a
//! [`ProcessEnvironment`]: a test runs a command in-process with a closed environment, and nothing is
//! built (runtime, TLS, client) before a command needs it.

mod args;
mod change_options;
mod cluster_contexts;
mod command_context;
mod command_line;
mod commands;
mod denial;
mod dispatch;
mod durations;
#[cfg(feature = "agent")]
mod embedded;
mod env;
mod error;
mod exit;
mod given_secrets;
mod interrupts;
mod jobs;
mod ledger;
mod manual;
#[cfg(unix)]
mod operator_token;
mod other_words;
mod policies;
mod process_environment;
mod process_table;
mod reference;
mod run;
mod run_reports;
mod runtime;
mod saved_plan_file;
mod server_connection;
mod server_outage;
mod servers;
mod settings;
mod spec_runs;
mod specs;
mod ui;
mod usage_tips;
mod workflow;

pub use commands::completion::registration;
pub use commands::shell_words::Shell;
#[cfg(feature = "agent")]
pub use embedded::EmbeddedTarget;
pub use env::Environment;
pub use error::CliError;
pub use exit::Exit;
pub use interrupts::Interrupts;
pub use manual::{Page, pages};
pub use process_environment::{InputStream, OutputStream, ProcessEnvironment, ProcessOwnership};
pub use reference::reference;
pub use run::run_command_line;
pub use server_connection::{EmbeddedAgentGuard, ServerConnection};
pub use servers::{RealServers, Servers};
pub use settings::Target;
