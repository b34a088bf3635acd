//! The argument that keeps a command in view of its object.

use clap::Args;

/// Whether a command shows changes until it is stopped.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WatchArgs {
    /// Show changes until an interrupt: on a terminal in place, else as one JSON document per change
    ///
    /// The command waits for the server to report a change, and goes on when a server that is away responds again.
    /// Ctrl-C ends it with exit code 130.
    #[arg(long)]
    pub watch: bool,
}
