//! What an agent says about itself, as far as its version (`nomad-neighbour-apis` 4.1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// An agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentSelf {
    /// How it is configured.
    pub config: AgentConfigDocument,
}

/// An agent's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct AgentConfigDocument {
    /// Which release it is.
    pub version: VersionDocument,
}

/// A release.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct VersionDocument {
    /// `2.0.6`.
    pub version: String,
    /// `ent`; empty of the community's.
    pub version_metadata: String,
    /// `beta.1`; empty of a release.
    pub version_prerelease: String,
}

impl fmt::Display for VersionDocument {
    /// `2.0.6-beta.1+ent`.
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
