//! Parts of records whose memory equal records share.
//!
//! Most volumes have the parameters, capabilities and topologies of many others. [`Interner`] makes
//! equal parts one part, so a volume needs memory only for what it alone has.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::record::VolumeRecord;
use crate::model::{Capability, Text, Topology, TopologyRequest};

/// An unchangeable part of a record. A clone is the same memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

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

/// An unchangeable map of texts in little memory. A clone is the same memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TextMap(Arc<[(Text, Text)]>);

impl TextMap {
    /// Returns a map with the same entries.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let entries = self.0.iter();
        entries
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no entry.
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
        Self(
            entries
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
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

/// The parts of all records. Equal to every other one, because it is not part of the state.
#[derive(Clone, Debug, Default)]
pub(super) struct Interner {
    texts: HashSet<Text>,
    maps: HashSet<TextMap>,
    capabilities: HashSet<Shared<Vec<Capability>>>,
    topologies: HashSet<Shared<Vec<Topology>>>,
    requests: HashSet<Shared<TopologyRequest>>,
    /// The number of parts after which unused ones are removed.
    limit: usize,
}

impl PartialEq for Interner {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Interner {}

/// The smallest number of parts after which unused ones are removed.
const FIRST_LIMIT: usize = 1024;

impl Interner {
    /// Replaces the parts of a record by equal ones of other records.
    pub(super) fn share_parts(&mut self, record: &mut VolumeRecord) {
        let (definition, provided) = (&mut record.definition, &mut record.provided);
        share(&mut self.texts, definition.key.namespace.text_mut());
        share(&mut self.texts, definition.plugin_id.text_mut());
        share(&mut self.texts, &mut provided.provider);
        share(&mut self.texts, &mut provided.provider_version);
        share(&mut self.maps, &mut definition.parameters);
        share(&mut self.capabilities, &mut definition.capabilities);
        share(&mut self.topologies, &mut provided.topologies);
        if let Some(request) = &mut definition.topology_request {
            share(&mut self.requests, request);
        }
        let known = |key: &Text| {
            self.texts
                .get(key)
                .is_some_and(|known| !is_same(known, key))
        };
        if provided.context.0.iter().any(|(key, _)| known(key)) {
            let entries = provided.context.0.iter().cloned();
            let shared = entries.map(|(mut key, value)| {
                share(&mut self.texts, &mut key);
                (key, value)
            });
            provided.context = TextMap(shared.collect());
        } else {
            let keys = provided.context.0.iter().map(|(key, _)| key.clone());
            self.texts.extend(keys);
        }
        self.remove_unused();
    }

    fn remove_unused(&mut self) {
        if self.len() < self.limit.max(FIRST_LIMIT) {
            return;
        }
        self.maps.retain(|map| Arc::strong_count(&map.0) > 1);
        self.capabilities
            .retain(|part| Arc::strong_count(&part.0) > 1);
        self.topologies
            .retain(|part| Arc::strong_count(&part.0) > 1);
        self.requests.retain(|part| Arc::strong_count(&part.0) > 1);
        self.texts.retain(Text::is_shared);
        self.limit = self.len() * 2;
    }

    fn len(&self) -> usize {
        let parts = self.capabilities.len() + self.topologies.len() + self.requests.len();
        parts + self.texts.len() + self.maps.len()
    }
}

fn is_same(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other)
}

/// Replaces a part by an equal one of the pool, or adds it.
fn share<T: Clone + Eq + Hash>(pool: &mut HashSet<T>, part: &mut T) {
    match pool.get(part) {
        Some(known) => *part = known.clone(),
        None => drop(pool.insert(part.clone())),
    }
}

#[cfg(test)]
mod tests;
