//! The argument that limits the wait for a server.

use clap::Args;

use crate::cli::durations::TimeSpan;

/// The wait for a server that stops responding.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ServerWaitArgs {
    /// Longest wait for a server that stops responding, such as 30s or 5m
    ///
    /// All steps wait together and go on when the server responds. If it does not in time, the command
    /// stops and reports what was done, what is unknown and what was not begun.
    #[arg(long, value_name = "TIME", default_value = "1m")]
    pub server_wait: TimeSpan,
}
