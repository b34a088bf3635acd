//! The argument that names files with what is known of plugins.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// The plugins of a command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct PluginFilesArgs {
    /// Directory with a `*.plugin.json` of each plugin, to check volumes against
    ///
    /// `plugin snapshot ID --out FILE` writes such a file from what the server knows. The result of `plugin probe -o json` is
    /// one too; the name of its file is the plugin's ID. If a server is asked as well, it is right.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub plugins: Option<PathBuf>,
}
