//! [`Interner`]: equal parts of volume records become one part.
//!
//! Most volumes have the parameters, capabilities and topologies of many others, so a volume needs
//! memory only for what it alone has. Parts that no record has any more are removed from time to time.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use super::record::VolumeRecord;
use super::shared::{Shared, TextMap};
use nomad_csi_model::{Capability, Text, Topology, TopologyRequest};

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
        let known = |key: &Text| self.texts.get(key).is_some_and(|known| !is_same(known, key));
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
        self.capabilities.retain(|part| Arc::strong_count(&part.0) > 1);
        self.topologies.retain(|part| Arc::strong_count(&part.0) > 1);
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
