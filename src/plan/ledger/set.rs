//! [`LedgerSet`]: the ledger of one set.

use std::collections::BTreeMap;

use super::applied_values::{AppliedValues, MOUNT_FLAGS, SECRETS};
use super::data_identity::{DataIdentity, RecordedData};
use super::document::{self, HeadDocument, ShardDocument};
use super::entries::Entries;
use super::entry::{Entry, Ownership};
use super::hash::{FieldHashes, LedgerKey};
use super::history::SetHistory;
use super::intent::Intent;
use super::shard_name::{ShardName, VolumeShard};
use super::sharding::{assign_to_shards, merge_shards};
use super::stored_set::{FORMAT, LedgerProblem, ShardChange, StoredSet};
use nomad_csi_model::{
    HiddenField, MountOptions, NamespacedId, Secret, Secrets, SetName, UnresolvedRequest, Volume,
    VolumeRequest,
};

/// The volumes that one set owns, and its open intents.
#[derive(Clone, Debug)]
pub struct LedgerSet {
    name: SetName,
    key: LedgerKey,
    history: SetHistory,
    stored_history: SetHistory,
    entries: Entries,
}

/// Sets are equal if they say the same, whatever is stored.
impl PartialEq for LedgerSet {
    fn eq(&self, other: &Self) -> bool {
        let content = |set: &Self| (set.name.clone(), set.key.clone(), set.history.clone());
        content(self) == content(other) && self.entries.all().eq(other.entries.all())
    }
}

impl Eq for LedgerSet {}

impl LedgerSet {
    /// Returns a set that owns nothing. `key` must be random.
    pub fn new(name: SetName, key: LedgerKey) -> Self {
        Self {
            name,
            key,
            history: SetHistory::default(),
            stored_history: SetHistory::default(),
            entries: Entries::default(),
        }
    }

    /// Reads a stored set; an empty set with the key `fresh` if nothing is stored.
    ///
    /// If the head is lost and other shards remain, the set keeps its ownerships. Hashes under the lost
    /// key are removed, so hidden fields count as unknown.
    ///
    /// # Errors
    /// If a newer program wrote it, or it is damaged.
    pub fn read(
        name: SetName,
        stored: &StoredSet,
        fresh: LedgerKey,
    ) -> Result<Self, LedgerProblem> {
        let (head, shards) = parse(stored)?;
        let mut entries = merge_shards(shards)?;
        let mut set = Self::new(name, fresh);
        match head {
            Some(head) => {
                set.history = head.history();
                set.stored_history.clone_from(&set.history);
                set.key = head.key;
            }
            None => {
                let owned = entries.values_mut().filter_map(|e| e.owned.as_mut());
                owned.for_each(|owned| owned.applied.clear());
            }
        }
        set.entries = Entries::stored(entries);
        Ok(set)
    }

    /// Returns the writes that store this set, in order; none if it is already stored. `save` is a
    /// unique ID of this write (a UUID).
    ///
    /// # Errors
    /// If the stored set cannot be read, or a volume fits into no shard.
    pub fn changes(
        &self,
        stored: &StoredSet,
        save: &str,
    ) -> Result<Vec<ShardChange>, LedgerProblem> {
        let (head, old) = parse(stored)?;
        let written = old.values().map(|shard| shard.sequence);
        let written = written.chain(head.iter().map(|head| head.sequence));
        let sequence = written.max().unwrap_or_default() + 1;
        let layout = assign_to_shards(self.entries.all(), &old)?;
        let change = |shard: VolumeShard, text: Option<String>| {
            ShardChange::of(stored, ShardName::Volumes(shard), text)
        };
        let mut changes = vec![];
        for (shard, volumes) in &layout {
            if old.get(shard).is_none_or(|old| old.volumes != *volumes) {
                let text = ShardDocument::text(sequence, volumes.clone());
                changes.push(change(*shard, Some(text)));
            }
        }
        let gone = old.iter().filter(|(shard, _)| !layout.contains_key(shard));
        let mut gone: Vec<(u64, VolumeShard)> =
            gone.map(|(name, shard)| (shard.sequence, *name)).collect();
        gone.sort_by_key(|(sequence, name)| (*sequence, name.depth()));
        changes.extend(gone.into_iter().map(|(_, name)| change(name, None)));
        let is_same = |head: HeadDocument| head.history() == self.history && head.key == self.key;
        if changes.is_empty() && head.is_some_and(is_same) {
            return Ok(vec![]);
        }
        changes.insert(0, self.head_change(stored, sequence, save));
        Ok(changes)
    }

    /// Returns the write of the head, which every write of the set starts with.
    pub(super) fn head_change(&self, stored: &StoredSet, sequence: u64, save: &str) -> ShardChange {
        let text = document::write(&HeadDocument {
            format: FORMAT,
            sequence,
            save: save.to_owned(),
            key: self.key.clone(),
            plans: self.history.plans.clone(),
            released: self.history.released.clone(),
        });
        ShardChange::of(stored, ShardName::Head, Some(text))
    }

    /// Counts the set as stored.
    pub fn settle(&mut self) {
        self.entries.settle();
        self.stored_history.clone_from(&self.history);
    }

    /// Makes the set as it is stored.
    pub fn revert(&mut self) {
        self.entries.revert();
        self.history.clone_from(&self.stored_history);
    }

    pub(super) fn entries(&self) -> &Entries {
        &self.entries
    }

    pub(super) fn has_new_history(&self) -> bool {
        self.history != self.stored_history
    }

    /// Returns the set's name.
    pub fn name(&self) -> &SetName {
        &self.name
    }

    /// Returns the key of its hashes.
    pub fn key(&self) -> &LedgerKey {
        &self.key
    }

    /// Returns the owned volumes.
    pub fn owned(&self) -> impl Iterator<Item = (&NamespacedId, &Ownership)> {
        self.entries.all().filter_map(|(key, entry)| Some((key, entry.owned.as_ref()?)))
    }

    /// Returns whether the set notes of any volume that a plan left it unchanged; see [`crate::CachedVolumes`].
    pub fn has_notes(&self) -> bool {
        let is_noted = |owned: &Ownership| owned.last_verified?.plan_inputs;
        self.owned().any(|(_, owned)| is_noted(owned).is_some())
    }

    /// Returns the ownership of a volume; `None` if the set does not own it.
    pub fn ownership(&self, volume: &NamespacedId) -> Option<&Ownership> {
        self.entries.get(volume)?.owned.as_ref()
    }

    /// Returns the ownership of a volume for changes.
    pub fn ownership_mut(&mut self, volume: &NamespacedId) -> Option<&mut Ownership> {
        self.entries.get_mut(volume)?.owned.as_mut()
    }

    /// Sets the ownership of a volume.
    pub fn own(&mut self, volume: NamespacedId, ownership: Ownership) {
        self.entries.entry(volume).owned = Some(ownership);
    }

    /// Records an applied request: the set owns the volume, with the request's hashes. Protection,
    /// generation and last verification stay. The hash of a hidden value that the request omits also
    /// stays; [`Self::record_cleared`] clears it.
    pub fn record_applied(&mut self, request: &VolumeRequest) {
        let applied = self.key.of_request(request);
        self.replace_applied(request.key(), applied);
    }

    /// Records the new size of an owned volume, and no other field of the request. A volume without
    /// recorded fields stays without.
    pub fn record_size(&mut self, request: &VolumeRequest) {
        let hashes = self.key.of_request(request);
        let Some(owned) = self.ownership_mut(&request.key()) else {
            return;
        };
        if owned.applied.is_empty() {
            return;
        }
        let is_size = |field: &str| field.starts_with("capacity_");
        owned.applied.retain(|field, _| !is_size(field));
        let sizes = hashes.into_iter().filter(|(field, _)| is_size(field));
        owned.applied.extend(sizes);
    }

    /// Records that a volume is as its file wants it: the set owns it. Hashes of hidden values do not
    /// change.
    pub fn record_found(&mut self, desired: &UnresolvedRequest, found: &Volume) {
        let without = UnresolvedRequest { secrets: None, ..desired.clone() };
        let Ok(request) = without.resolve(|_, _| Err::<Secret, ()>(())) else {
            return;
        };
        let mut applied = self.key.of_request(&request);
        let options = found.mount_options.as_ref();
        if options.is_some_and(MountOptions::are_redacted) {
            applied.remove(MOUNT_FLAGS);
        }
        self.replace_applied(request.key(), applied);
    }

    fn replace_applied(&mut self, volume: NamespacedId, mut applied: FieldHashes) {
        let entry = self.entries.entry(volume);
        let owned = entry.owned.get_or_insert_default();
        for field in [SECRETS, MOUNT_FLAGS] {
            if let Some(hash) = owned.applied.get(field) {
                applied.entry(field.to_owned()).or_insert(*hash);
            }
        }
        owned.applied = applied;
    }

    /// Records the data of an owned volume, if nothing is recorded. Recorded data stays, so that other
    /// data under the same name is seen.
    pub fn fill_in_data(&mut self, volume: &NamespacedId, data: DataIdentity) {
        if let Some(owned) = self.ownership_mut(volume)
            && owned.data.identity().is_none()
        {
            owned.data = RecordedData::Stored(data);
        }
    }

    /// Records the data of an owned volume in place of what is recorded.
    pub fn replace_data(&mut self, volume: &NamespacedId, data: RecordedData) {
        if let Some(owned) = self.ownership_mut(volume) {
            owned.data = data;
        }
    }

    /// Records the secrets of an owned volume.
    pub fn record_secrets(&mut self, volume: &NamespacedId, secrets: &Secrets) {
        let hash = self.key.of_secrets(volume, secrets);
        if let Some(owned) = self.ownership_mut(volume) {
            owned.applied.insert(SECRETS.to_owned(), hash);
        }
    }

    /// Records that a hidden value of an owned volume is empty.
    pub fn record_cleared(&mut self, volume: &NamespacedId, field: HiddenField) {
        let (name, hash) = match field {
            HiddenField::Secrets => (SECRETS, self.key.of_secrets(volume, &Secrets::default())),
            HiddenField::MountFlags => (MOUNT_FLAGS, self.key.of_mount_flags(volume, &[])),
        };
        if let Some(owned) = self.ownership_mut(volume) {
            owned.applied.insert(name.to_owned(), hash);
        }
    }

    /// Records that the hidden values of a volume are unknown.
    pub fn mark_hidden_unknown(&mut self, volume: &NamespacedId) {
        if let Some(owned) = self.ownership_mut(volume) {
            owned.applied.remove(SECRETS);
            owned.applied.remove(MOUNT_FLAGS);
        }
    }

    /// Removes the ownership of a volume. Returns whether the set owned it.
    pub fn forget(&mut self, volume: &NamespacedId) -> bool {
        let was_owned = self.take(volume, |entry| entry.owned.take().is_some());
        if was_owned {
            self.history.add_released(self.key.of_name(volume));
        }
        was_owned
    }

    /// Returns whether the set owned a volume that it released; `false` if it has released a hundred others since.
    pub fn has_released(&self, volume: &NamespacedId) -> bool {
        self.history.released.contains(&self.key.of_name(volume))
    }

    /// Returns the open intents, by volume.
    pub fn intents(&self) -> impl Iterator<Item = (&NamespacedId, &Intent)> {
        self.entries.all().filter_map(|(key, entry)| Some((key, entry.intent.as_ref()?)))
    }

    /// Returns the open intent of a volume.
    pub fn intent(&self, volume: &NamespacedId) -> Option<&Intent> {
        self.entries.get(volume)?.intent.as_ref()
    }

    /// Records an intent for a volume. A volume has at most one.
    pub fn record_intent(&mut self, volume: NamespacedId, intent: Intent) {
        self.entries.entry(volume).intent = Some(intent);
    }

    /// Clears the intent of a volume. Returns whether it had one.
    pub fn clear_intent(&mut self, volume: &NamespacedId) -> bool {
        self.take(volume, |entry| entry.intent.take().is_some())
    }

    /// Returns when a saved plan was applied, in nanoseconds since the epoch; `None` if it was not.
    pub fn applied_plan(&self, id: &str) -> Option<i64> {
        self.history.plans.get(id).copied()
    }

    /// Records that a saved plan was applied. The ledger keeps the latest hundred.
    pub fn record_plan(&mut self, id: impl Into<String>, at: i64) {
        self.history.add_plan(id.into(), at);
    }

    /// Returns the hidden values that a volume of this ownership was last given.
    pub fn applied_values<'s>(
        &'s self,
        volume: &'s NamespacedId,
        owned: &'s Ownership,
    ) -> AppliedValues<'s> {
        AppliedValues { key: &self.key, volume, hashes: &owned.applied }
    }

    fn take(&mut self, volume: &NamespacedId, what: impl FnOnce(&mut Entry) -> bool) -> bool {
        let Some(entry) = self.entries.get_mut(volume) else {
            return false;
        };
        let taken = what(entry);
        self.entries.remove_empty(volume);
        taken
    }
}

pub(super) fn parse(
    stored: &StoredSet,
) -> Result<(Option<HeadDocument>, BTreeMap<VolumeShard, ShardDocument>), LedgerProblem> {
    let mut head = None;
    let mut shards = BTreeMap::new();
    for (name, shard) in &stored.shards {
        match *name {
            ShardName::Head => head = Some(document::read(*name, &shard.text)?),
            ShardName::Volumes(part) => {
                shards.insert(part, document::read(*name, &shard.text)?);
            }
        }
    }
    Ok((head, shards))
}
