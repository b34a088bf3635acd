//! The options of a run of checks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nomad_csi_model::Secrets;

/// The options of a run of checks.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The parameters of every CreateVolume.
    pub parameters: BTreeMap<String, String>,
    /// Valid mutable parameters of the plugin; empty if unknown.
    pub mutable_parameters: BTreeMap<String, String>,
    /// The secrets of every call that has a field for them; never shown.
    pub secrets: Secrets,
    /// The size of new volumes, in bytes.
    pub size: i64,
    /// The prefix of all names, unique to the run.
    pub name_prefix: String,
    /// The parent of the staging paths; the plugin sees the same path.
    pub staging_directory: PathBuf,
    /// The parent of the target paths; the plugin sees the same path.
    pub target_directory: PathBuf,
    /// True if the checks of block volumes run.
    pub block_volumes: bool,
    /// The plugin's log, which is searched for secrets.
    pub log: Option<PathBuf>,
}
