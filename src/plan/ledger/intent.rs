//! What was about to be done, and who was about to do it.
//!
//! An intent is written before the first call of a step and taken away when its outcome is known, so
//! that a run that was cut short leaves a note: the next one reads the volume back before it repeats
//! anything, and says what was under way.

use serde::{Deserialize, Serialize};

/// Somebody who changes volumes: a person or a machine, at a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// The user's name, as the operating system has it.
    pub user: String,
    /// The machine's name.
    pub host: String,
    /// The process.
    pub process: u32,
    /// What was run: `apply`.
    pub command: String,
}

impl std::fmt::Display for Actor {
    /// `ada on build-7 (process 4711, apply)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            user,
            host,
            process,
            command,
        } = self;
        write!(f, "{user} on {host} (process {process}, {command})")
    }
}

/// A step that changes a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntentStep {
    /// Create it in the provider and register it.
    Create,
    /// Register it, or register it again with other fields.
    Register,
    /// Make it larger.
    Expand,
    /// Remove the registration; the data stays.
    Deregister,
    /// Delete the data.
    Delete,
    /// Cut a snapshot of it.
    Snapshot,
}

impl IntentStep {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Register => "register",
            Self::Expand => "expand",
            Self::Deregister => "deregister",
            Self::Delete => "delete",
            Self::Snapshot => "snapshot",
        }
    }
}

impl IntentStep {
    /// Whether it may have left other hidden values behind than were there.
    pub const fn writes_values(self) -> bool {
        match self {
            Self::Create | Self::Register | Self::Expand => true,
            Self::Deregister | Self::Delete | Self::Snapshot => false,
        }
    }
}

/// A step that was begun and whose end nobody has recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// What was about to be done.
    pub step: IntentStep,
    /// Since when, nanoseconds since the epoch.
    pub since: i64,
    /// By whom.
    pub by: Actor,
}
