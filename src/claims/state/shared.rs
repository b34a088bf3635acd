//! Parts of records whose memory equal records share.
//!
//! A clone of a part is the same memory; `interner` makes equal parts of records one part.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use nomad_csi_model::{MountOptions, SealedSecrets, Text};

/// An unchangeable part of a record. Clones share their state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared<T>(pub(super) Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(part: T) -> Self {
        Self(Arc::new(part))
    }
}

impl<T> std::ops::Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// An unchangeable map of texts in little memory. Clones share their state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextMap(pub(super) Arc<[(Text, Text)]>);

impl TextMap {
    /// Returns a map with the same entries.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let entries = self.0.iter();
        entries.map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    /// Returns a map with the same entries, with `[REDACTED]` for each sealed value.
    pub fn to_shown_map(&self) -> BTreeMap<String, String> {
        let mut map = self.to_map();
        for value in map.values_mut() {
            if SealedSecrets::is_text(value) {
                MountOptions::REDACTED.clone_into(value);
            }
        }
        map
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Default for TextMap {
    fn default() -> Self {
        Self(Arc::new([]))
    }
}

impl From<BTreeMap<String, String>> for TextMap {
    fn from(map: BTreeMap<String, String>) -> Self {
        let entries = map.into_iter();
        Self(entries.map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl<const N: usize> From<[(String, String); N]> for TextMap {
    fn from(entries: [(String, String); N]) -> Self {
        BTreeMap::from(entries).into()
    }
}

impl Serialize for TextMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (&**key, &**value)))
    }
}

impl<'de> Deserialize<'de> for TextMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(|map: BTreeMap<String, String>| map.into())
    }
}

#[cfg(test)]
mod tests;
