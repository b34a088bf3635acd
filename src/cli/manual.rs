//! The manual of the program, one page per command.

use clap::CommandFactory as _;

use super::command_line::Cli;
use super::commands::man;
pub use super::commands::man::Page;

/// Returns all pages, the program's first.
pub fn pages() -> Vec<Page> {
    man::pages(Cli::command())
}
