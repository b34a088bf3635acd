//! The entries of a set, and what was changed since they were stored.
//!
//! Changes are kept beside the stored entries until they are stored as well. So a write lays out only what
//! changed, a write that failed is undone without a copy of the set, and a step that changes an entry many
//! times looks it up among a few.

use std::collections::{BTreeMap, btree_map};

use super::entry::Entry;
use nomad_csi_model::NamespacedId;

/// The entries of a set.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    stored: BTreeMap<NamespacedId, Entry>,
    /// The entries that were changed since; `None` for no entry.
    changed: BTreeMap<NamespacedId, Option<Entry>>,
}

impl Entries {
    /// Returns entries that are stored.
    pub(super) fn stored(stored: BTreeMap<NamespacedId, Entry>) -> Self {
        let changed = BTreeMap::new();
        Self { stored, changed }
    }

    /// Returns the entries, in the order of their volumes.
    pub(super) fn all(&self) -> impl Iterator<Item = (&NamespacedId, &Entry)> {
        let is_kept = |(volume, _): &(&NamespacedId, &Entry)| !self.changed.contains_key(*volume);
        let mut kept = self.stored.iter().filter(is_kept).peekable();
        let changed = self.changed.iter();
        let mut changed =
            changed.filter_map(|(volume, entry)| Some((volume, entry.as_ref()?))).peekable();
        std::iter::from_fn(move || match (kept.peek(), changed.peek()) {
            (Some((one, _)), Some((other, _))) if one > other => changed.next(),
            (None, _) => changed.next(),
            (Some(_), _) => kept.next(),
        })
    }

    pub(super) fn get(&self, volume: &NamespacedId) -> Option<&Entry> {
        match self.changed.get(volume) {
            Some(entry) => entry.as_ref(),
            None => self.stored.get(volume),
        }
    }

    /// Returns an entry for a change; `None` if there is none.
    pub(super) fn get_mut(&mut self, volume: &NamespacedId) -> Option<&mut Entry> {
        if !self.changed.contains_key(volume) {
            let entry = self.stored.get(volume)?.clone();
            self.changed.insert(volume.clone(), Some(entry));
        }
        self.changed.get_mut(volume)?.as_mut()
    }

    /// Returns an entry for a change, a new one if there is none.
    pub(super) fn entry(&mut self, volume: NamespacedId) -> &mut Entry {
        let entry = match self.changed.entry(volume) {
            btree_map::Entry::Occupied(place) => place.into_mut(),
            btree_map::Entry::Vacant(place) => {
                let stored = self.stored.get(place.key()).cloned();
                place.insert(stored)
            }
        };
        entry.get_or_insert_default()
    }

    /// Removes an entry that says nothing.
    pub(super) fn remove_empty(&mut self, volume: &NamespacedId) {
        if let Some(entry) = self.changed.get_mut(volume) {
            entry.take_if(|entry| entry.is_empty());
        }
    }

    /// Returns the volumes whose entries differ from the stored ones.
    pub(super) fn changed(&self) -> impl Iterator<Item = &NamespacedId> {
        let differs = |(volume, entry): &(&NamespacedId, &Option<Entry>)| {
            self.stored.get(*volume) != entry.as_ref()
        };
        let changed = self.changed.iter().filter(differs);
        changed.map(|(volume, _)| volume)
    }

    /// Counts the entries as stored.
    pub(super) fn settle(&mut self) {
        for (volume, entry) in std::mem::take(&mut self.changed) {
            match entry {
                Some(entry) => drop(self.stored.insert(volume, entry)),
                None => drop(self.stored.remove(&volume)),
            }
        }
    }

    /// Makes the entries as they are stored.
    pub(super) fn revert(&mut self) {
        self.changed.clear();
    }
}
