//! The argument that names a set.

use clap::Args;

/// The set of the volumes.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct SetArgs {
    /// Set that owns the volumes [default: the set that the files name]
    ///
    /// The ledger of a set records the volumes that the set owns. `--prune` removes only those.
    /// Without a set, no ownership is recorded.
    #[arg(long, value_name = "NAME")]
    pub set: Option<String>,
}
