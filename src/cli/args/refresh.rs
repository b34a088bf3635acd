//! The argument that has every volume read.

use clap::Args;

/// Which volumes are read.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct RefreshArgs {
    /// Read every volume, even one that cannot have changed
    ///
    /// A set on the server notes which volumes were as their files want them. By default, a volume is read
    /// only if the server's list or its file is not as noted.
    #[arg(long)]
    pub refresh: bool,
}
