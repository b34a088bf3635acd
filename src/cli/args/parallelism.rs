//! The argument that limits concurrency.

use clap::Args;

/// The limit of concurrent work.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ParallelismArgs {
    /// Number of volumes to process concurrently, from 1 to 256
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallelism: u16,
}
