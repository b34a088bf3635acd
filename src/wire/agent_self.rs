//! The version that an agent reports about itself (Nomad's Query Self API).

use std::fmt;

use serde::{Deserialize, Serialize};

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSelf {
    /// The agent's configuration.
    pub config: AgentConfigDocument,
}

/// The configuration of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AgentConfigDocument {
    /// The release.
    pub version: VersionDocument,
}

/// A release of Nomad.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VersionDocument {
    /// Such as `2.0.6`.
    pub version: String,
    /// Such as `ent`; empty for the community edition.
    pub version_metadata: String,
    /// Such as `beta.1`; empty for a release.
    pub version_prerelease: String,
}

impl fmt::Display for VersionDocument {
    /// Writes `2.0.6-beta.1+ent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.version)?;
        if !self.version_prerelease.is_empty() {
            write!(f, "-{}", self.version_prerelease)?;
        }
        if !self.version_metadata.is_empty() {
            write!(f, "+{}", self.version_metadata)?;
        }
        Ok(())
    }
}
