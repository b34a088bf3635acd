//! The stored ACL: policies, tokens, and whether the first token was made.
//!
//! A token is known by the SHA-256 of its secret. The secret itself is shown once, when it is made, and is not kept.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The name of an object of the ACL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AclKey {
    /// What is on record about the first token.
    Bootstrap,
    /// A policy, by its name.
    Policy(String),
    /// A token, by its accessor ID.
    Token(String),
}

/// An object of the ACL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclRecord {
    /// Its name.
    pub key: AclKey,
    /// What it says.
    pub entry: AclEntry,
    /// The index of the first event.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
    /// The time of the first event, in nanoseconds since the epoch.
    pub create_time: i64,
}

/// What an object of the ACL says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AclEntry {
    /// The first token was made.
    Bootstrapped,
    /// A policy.
    Policy(AclPolicyEntry),
    /// A token.
    Token(AclTokenEntry),
}

/// The rules of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclPolicyEntry {
    /// A description for people.
    pub description: String,
    /// The rules, as they were written.
    pub rules: String,
}

/// What a token grants, and until when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AclTokenEntry {
    /// A name for people.
    pub name: String,
    /// The policies that it has; `None` if it manages the cluster and needs none.
    pub policies: Option<BTreeSet<String>>,
    /// Whether its client calls it global. There is one region.
    pub is_global: bool,
    /// The SHA-256 of the secret, in hexadecimal digits.
    pub secret_hash: String,
    /// When it ends, in nanoseconds since the epoch; `None` if never.
    pub expires_at: Option<i64>,
}

impl AclTokenEntry {
    /// Returns whether it has ended at this time.
    pub fn is_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| end <= now)
    }
}

/// A change of the ACL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum AclEvent {
    /// It was created, or changed.
    Written {
        /// The complete entry.
        entry: AclEntry,
        /// The index of the last change that the writer knew; `None` if the object may be in any state.
        expected: Option<u64>,
    },
    /// It was deleted.
    Deleted,
}

impl AclEvent {
    /// Returns the event's name for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Written { entry, .. } => match entry {
                AclEntry::Bootstrapped => "ACL bootstrapped",
                AclEntry::Policy(_) => "ACL policy written",
                AclEntry::Token(_) => "ACL token written",
            },
            Self::Deleted => "ACL object deleted",
        }
    }
}

impl AclRecord {
    /// Returns the policy, if it is one.
    pub fn policy(&self) -> Option<&AclPolicyEntry> {
        match &self.entry {
            AclEntry::Policy(policy) => Some(policy),
            AclEntry::Bootstrapped | AclEntry::Token(_) => None,
        }
    }

    /// Returns the token, if it is one.
    pub fn token(&self) -> Option<&AclTokenEntry> {
        match &self.entry {
            AclEntry::Token(token) => Some(token),
            AclEntry::Bootstrapped | AclEntry::Policy(_) => None,
        }
    }
}

impl AclKey {
    /// Returns the kind of object, which is the first part of its place.
    pub(super) fn group(&self) -> &'static str {
        match self {
            Self::Bootstrap => "bootstrap",
            Self::Policy(_) => "policy",
            Self::Token(_) => "token",
        }
    }

    /// Returns the name within the kind.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Bootstrap => "",
            Self::Policy(name) => name,
            Self::Token(accessor) => accessor,
        }
    }
}
