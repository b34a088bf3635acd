//! The argument that limits concurrency.

use clap::Args;

/// The limit of concurrent work.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct ParallelismArgs {
    /// Number of volumes to process concurrently, from 1 to 256
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallelism: u16,
}

/// How many volumes are removed at a time. One by default: the requests of a removal that a server refuses after its restart, because
/// it has another token, are not repeated.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RemovalParallelismArgs {
    /// Number of volumes to remove concurrently, from 1 to 256
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=256))]
    pub parallelism: u16,
}
