//! Intents: the steps that a run has started and not completed.
//!
//! A run records an intent before the first call of a step and clears it when the outcome is known.
//! After an interruption the next run reads the volume before it repeats a step, and reports the
//! interrupted one.

use serde::{Deserialize, Serialize};

/// The user, machine and process that run a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Actor {
    /// The user's name, as the operating system has it.
    pub user: String,
    /// The machine's name.
    pub host: String,
    /// The process ID.
    pub process: u32,
    /// The command: `apply`.
    pub command: String,
}

impl std::fmt::Display for Actor {
    /// `ada on build-7 (process 4711, apply)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { user, host, process, command } = self;
        write!(f, "{user} on {host} (process {process}, {command})")
    }
}

/// A step that changes a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IntentStep {
    /// Create it in the provider and register it.
    Create,
    /// Register it or update its registration.
    Register,
    /// Expand it.
    Expand,
    /// Remove the registration; the data stays.
    Deregister,
    /// Delete the data.
    Delete,
    /// Take a snapshot of it.
    Snapshot,
}

impl IntentStep {
    /// Its name in JSON documents and the ledger: `create`.
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

    /// Its noun in messages: `creation`.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Create => "creation",
            Self::Register => "registration",
            Self::Expand => "expansion",
            Self::Deregister => "deregistration",
            Self::Delete => "deletion",
            Self::Snapshot => "snapshot",
        }
    }

    /// Returns whether the step may have changed the hidden values of the volume.
    pub const fn writes_values(self) -> bool {
        match self {
            Self::Create | Self::Register | Self::Expand => true,
            Self::Deregister | Self::Delete | Self::Snapshot => false,
        }
    }
}

/// A step that was started and whose outcome is not recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The step.
    pub step: IntentStep,
    /// When it was started, in nanoseconds since the epoch.
    pub since: i64,
    /// The user and process that started it.
    pub by: Actor,
}
