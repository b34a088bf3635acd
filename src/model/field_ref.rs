//! The value of a field of a volume, in the form that all fields of its kind have in common.
//!
//! It has no `Debug`: mount flags may hold passwords.

use std::collections::BTreeMap;

use super::bytes::Bytes;
use super::capability::Capability;
use super::topology::Topology;

/// The value of a [`VolumeField`](super::VolumeField).
#[derive(Clone, Copy)]
pub enum FieldRef<'v> {
    /// A text; empty if the field is absent.
    Text(&'v str),
    /// A size; zero if the field is absent.
    Size(Bytes),
    /// Capabilities, of which the order has no meaning.
    Capabilities(&'v [Capability]),
    /// Flags for mount(8), which may hold passwords.
    MountFlags(&'v [String]),
    /// Topologies.
    Topologies(&'v [Topology]),
    /// Pairs.
    Map(&'v BTreeMap<String, String>),
}

impl FieldRef<'_> {
    /// Returns whether the value is that of an absent field.
    pub fn is_empty(self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Size(size) => size.is_zero(),
            Self::Capabilities(list) => list.is_empty(),
            Self::MountFlags(list) => list.is_empty(),
            Self::Topologies(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
        }
    }

    /// Returns the value of an absent field of this kind.
    #[must_use]
    pub fn emptied(self) -> Self {
        static NO_PAIRS: BTreeMap<String, String> = BTreeMap::new();
        match self {
            Self::Text(_) => Self::Text(""),
            Self::Size(_) => Self::Size(Bytes::ZERO),
            Self::Capabilities(_) => Self::Capabilities(&[]),
            Self::MountFlags(_) => Self::MountFlags(&[]),
            Self::Topologies(_) => Self::Topologies(&[]),
            Self::Map(_) => Self::Map(&NO_PAIRS),
        }
    }

    pub(super) fn text(self) -> String {
        if let Self::Text(text) = self { text.to_owned() } else { String::new() }
    }

    pub(super) fn size(self) -> Bytes {
        if let Self::Size(size) = self { size } else { Bytes::ZERO }
    }

    pub(super) fn capabilities(self) -> Vec<Capability> {
        if let Self::Capabilities(list) = self { list.to_vec() } else { vec![] }
    }

    pub(super) fn mount_flags(self) -> Vec<String> {
        if let Self::MountFlags(list) = self { list.to_vec() } else { vec![] }
    }

    pub(super) fn topologies(self) -> Vec<Topology> {
        if let Self::Topologies(list) = self { list.to_vec() } else { vec![] }
    }

    pub(super) fn map(self) -> BTreeMap<String, String> {
        if let Self::Map(map) = self { map.clone() } else { BTreeMap::new() }
    }
}
