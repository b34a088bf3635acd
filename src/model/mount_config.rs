//! The mounts that a task driver can make.

use serde::{Deserialize, Serialize};

/// The mounts that a driver can make for its tasks. A driver without an answer counts as [`MountConfig::All`] (B77).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MountConfig {
    /// Directories, files and block devices of the host.
    #[default]
    All,
    /// Nothing: the task sees the file system of the host, or none.
    None,
}

impl MountConfig {
    /// Returns the name in a node attribute: `all` or `none`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::None => "none",
        }
    }
}
