//! What a person gives a run of checks.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::model::Secrets;

/// What a run works with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The parameters of every CreateVolume.
    pub parameters: BTreeMap<String, String>,
    /// Parameters that the plugin lets change, with values that are good; empty if nobody knows any.
    pub mutable: BTreeMap<String, String>,
    /// The secrets of every call that can carry some; never shown.
    pub secrets: Secrets,
    /// The size of the volumes that are made, in bytes.
    pub size: i64,
    /// Begins the name of everything that is made, different in every run.
    pub prefix: String,
    /// Below it volumes are staged; the plugin sees the same path.
    pub staging: PathBuf,
    /// Below it volumes are published; the plugin sees the same path.
    pub target: PathBuf,
    /// Whether block volumes are checked too.
    pub block: bool,
    /// The plugin's log, to look for secrets in.
    pub log: Option<PathBuf>,
}
