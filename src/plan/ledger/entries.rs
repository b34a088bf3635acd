//! The entries of a set, and what was changed since they were stored.
//!
//! The first change of an entry keeps the entry as it was. So a write lays out only what changed, and a
//! write that failed is undone, both without a copy of the set.

use std::collections::{BTreeMap, btree_map};

use super::entry::Entry;
use crate::model::NamespacedId;

/// The entries of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    now: BTreeMap<NamespacedId, Entry>,
    /// The stored entries of the volumes that were changed since; `None` if there was no entry.
    stored: BTreeMap<NamespacedId, Option<Entry>>,
}

impl Entries {
    /// Returns entries that are stored.
    pub(super) fn stored(now: BTreeMap<NamespacedId, Entry>) -> Self {
        let stored = BTreeMap::new();
        Self { now, stored }
    }

    pub(super) fn all(&self) -> &BTreeMap<NamespacedId, Entry> {
        &self.now
    }

    pub(super) fn get(&self, volume: &NamespacedId) -> Option<&Entry> {
        self.now.get(volume)
    }

    /// Returns an entry for a change; `None` if there is none.
    pub(super) fn get_mut(&mut self, volume: &NamespacedId) -> Option<&mut Entry> {
        let entry = self.now.get_mut(volume)?;
        if !self.stored.contains_key(volume) {
            self.stored.insert(volume.clone(), Some(entry.clone()));
        }
        Some(entry)
    }

    /// Returns an entry for a change, a new one if there is none.
    pub(super) fn entry(&mut self, volume: NamespacedId) -> &mut Entry {
        let is_first = !self.stored.contains_key(&volume);
        match self.now.entry(volume) {
            btree_map::Entry::Occupied(place) => {
                if is_first {
                    let stored = Some(place.get().clone());
                    self.stored.insert(place.key().clone(), stored);
                }
                place.into_mut()
            }
            btree_map::Entry::Vacant(place) => {
                if is_first {
                    self.stored.insert(place.key().clone(), None);
                }
                place.insert(Entry::default())
            }
        }
    }

    /// Removes an entry that says nothing.
    pub(super) fn remove_empty(&mut self, volume: &NamespacedId) {
        if self.now.get(volume).is_some_and(Entry::is_empty) {
            self.now.remove(volume);
        }
    }

    /// Returns the volumes whose entries differ from the stored ones.
    pub(super) fn changed(&self) -> impl Iterator<Item = &NamespacedId> {
        let differs = |(volume, stored): &(&NamespacedId, &Option<Entry>)| {
            self.now.get(*volume) != stored.as_ref()
        };
        self.stored.iter().filter(differs).map(|(volume, _)| volume)
    }

    /// Counts the entries as stored.
    pub(super) fn settle(&mut self) {
        self.stored.clear();
    }

    /// Makes the entries as they are stored.
    pub(super) fn revert(&mut self) {
        for (volume, stored) in std::mem::take(&mut self.stored) {
            match stored {
                Some(entry) => drop(self.now.insert(volume, entry)),
                None => drop(self.now.remove(&volume)),
            }
        }
    }
}
