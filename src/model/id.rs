//! Names of things, each its own type, so that a node ID is never handed over as a volume ID.
//!
//! Reading must not fail on what a server already stores, so building one of these is free; what a
//! *new* ID may look like is asked with `problem()`, by whoever is about to make one (W49).

use serde::{Deserialize, Serialize};

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps the text as it is.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    )*};
}

names! {
    /// A Nomad namespace.
    Namespace;
    /// A volume's ID, unique in its namespace; what jobs and people call it.
    VolumeId;
    /// The storage provider's own ID of a volume: CSI's `volume_id`.
    ExternalId;
    /// The storage provider's own ID of a snapshot: CSI's `snapshot_id`.
    SnapshotId;
    /// A variable's path, unique in its namespace; may have slashes.
    VariablePath;
    /// A plugin's ID, unique in a region.
    PluginId;
    /// A Nomad client node, a UUID.
    NodeId;
    /// The storage provider's view of a node: CSI's `node_id`.
    ExternalNodeId;
    /// A Nomad allocation, a UUID.
    AllocId;
}

impl Namespace {
    /// The namespace that is meant when none is named.
    pub const DEFAULT: &'static str = "default";
    /// Stands for all namespaces where a request allows that.
    pub const ALL: &'static str = "*";
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}

/// A volume's full name: the primary key of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NamespacedId {
    /// The namespace.
    pub namespace: Namespace,
    /// The ID in it.
    pub id: VolumeId,
}

impl NamespacedId {
    /// Both parts.
    pub fn new(namespace: Namespace, id: VolumeId) -> Self {
        Self { namespace, id }
    }
}

impl std::fmt::Display for NamespacedId {
    /// `id` in the default namespace, `id (namespace NS)` elsewhere.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.as_str() == Namespace::DEFAULT {
            write!(f, "{}", self.id)
        } else {
            write!(f, "{} (namespace {})", self.id, self.namespace)
        }
    }
}

/// Why a text cannot be a new volume's ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdProblem {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// It holds a character that splits or ends a URL path even when it is percent-encoded.
    #[error("Nomad's HTTP API cannot address an ID with {0:?}")]
    Unaddressable(char),
    /// It is `.` or `..`, which every HTTP client removes from a path.
    #[error("HTTP clients remove `.` and `..` from a path")]
    DotSegment,
    /// It is longer than 128 bytes, CSI's limit for a string (section "Size Limits").
    #[error("it has {0} bytes, and CSI allows 128")]
    TooLong(usize),
}

impl VolumeId {
    /// What forbids this ID for a new volume, if anything: it must be addressable over HTTP
    /// (the path is split on `/` after percent-decoding) and fit CSI's limit for strings.
    pub fn problem(&self) -> Option<IdProblem> {
        let unaddressable = |c: &char| *c == '/' || c.is_control();
        match self.as_str() {
            "" => Some(IdProblem::Empty),
            "." | ".." => Some(IdProblem::DotSegment),
            text if text.len() > 128 => Some(IdProblem::TooLong(text.len())),
            text => text
                .chars()
                .find(unaddressable)
                .map(IdProblem::Unaddressable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_that_http_can_address_may_be_new() {
        let long = "x".repeat(129);
        for (id, expected) in [
            ("db", None),
            ("db[0]", None),
            ("with space", None),
            ("日本", None),
            ("", Some(IdProblem::Empty)),
            ("a/b", Some(IdProblem::Unaddressable('/'))),
            ("a\nb", Some(IdProblem::Unaddressable('\n'))),
            ("..", Some(IdProblem::DotSegment)),
            (long.as_str(), Some(IdProblem::TooLong(129))),
        ] {
            assert_eq!(VolumeId::new(id).problem(), expected, "{id:?}");
        }
    }
}
