//! [`LedgerSet`]: the volumes of one set, as the ledger remembers them.

use std::collections::BTreeMap;

use super::document::{self, FORMAT, Head, Shard};
use super::entry::{Entry, Ownership, StoredValue};
use super::hash::{FieldHash, FieldHashes, LedgerKey};
use super::intent::Intent;
use super::shard::{LedgerProblem, ShardChange, ShardName, StoredSet, join, lay_out};
use crate::model::{
    HiddenField, MountOptions, NamespacedId, Secret, Secrets, SetName, Volume, VolumeRequest,
    WantedRequest,
};

/// So many applied plans are remembered, the latest.
const PLANS: usize = 100;
/// Fields that no server shows, or only as far as that there is something, by their hashes' names.
const SECRETS: &str = "secrets";
const MOUNT_FLAGS: &str = "mount_options.mount_flags";

/// What one set owns and what it has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerSet {
    name: SetName,
    key: LedgerKey,
    plans: BTreeMap<String, i64>,
    entries: BTreeMap<NamespacedId, Entry>,
}

impl LedgerSet {
    /// A set that owns nothing yet. `key` comes from chance.
    pub fn new(name: SetName, key: LedgerKey) -> Self {
        Self {
            name,
            key,
            plans: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    /// A set as it is stored; of a set that is not stored, an empty one with `fresh` as its key.
    ///
    /// If the head is lost and shards are left, the set still owns what it owns; hashes under the
    /// lost key are dropped, so that hidden fields count as unknown.
    ///
    /// # Errors
    /// If a later program wrote it, or something else did.
    pub fn read(
        name: SetName,
        stored: &StoredSet,
        fresh: LedgerKey,
    ) -> Result<Self, LedgerProblem> {
        let (head, shards) = parse(stored)?;
        let mut set = Self {
            entries: join(&shards)?,
            ..Self::new(name, fresh)
        };
        match head {
            Some(head) => {
                set.key = head.key;
                set.plans = head.plans;
            }
            None => {
                let owned = set.entries.values_mut().filter_map(|e| e.owned.as_mut());
                owned.for_each(|owned| owned.applied.clear());
            }
        }
        Ok(set)
    }

    /// What has to be written so that this set is stored, in this order; nothing if it is already.
    /// `save` is a text that no other writing has (a UUID).
    ///
    /// # Errors
    /// If what is stored cannot be read, or a volume fits into no shard.
    pub fn changes(
        &self,
        stored: &StoredSet,
        save: &str,
    ) -> Result<Vec<ShardChange>, LedgerProblem> {
        let (head, old) = parse(stored)?;
        let written = old.values().map(|shard| shard.sequence);
        let written = written.chain(head.iter().map(|head| head.sequence));
        let sequence = written.max().unwrap_or_default() + 1;
        let layout = lay_out(&self.entries, &old)?;
        let change = |shard: &ShardName, text: Option<String>| ShardChange {
            shard: shard.clone(),
            expected: stored.shards.get(shard).map(|stored| stored.revision),
            text,
        };
        let mut changes = vec![];
        for (name, volumes) in &layout {
            if old.get(name).is_none_or(|old| old.volumes != *volumes) {
                let text = document::write(&Shard {
                    format: FORMAT,
                    sequence,
                    volumes: volumes.clone(),
                });
                changes.push(change(name, Some(text)));
            }
        }
        let gone = old.keys().filter(|name| !layout.contains_key(name));
        changes.extend(gone.map(|name| change(name, None)));
        let same_head = head.is_some_and(|head| head.key == self.key && head.plans == self.plans);
        if changes.is_empty() && same_head {
            return Ok(vec![]);
        }
        let head = document::write(&Head {
            format: FORMAT,
            sequence,
            save: save.to_owned(),
            key: self.key.clone(),
            plans: self.plans.clone(),
        });
        changes.insert(0, change(&ShardName::head(), Some(head)));
        Ok(changes)
    }

    /// Its name.
    pub fn name(&self) -> &SetName {
        &self.name
    }

    /// The key of its hashes.
    pub fn key(&self) -> &LedgerKey {
        &self.key
    }

    /// What it owns, by volume.
    pub fn owned(&self) -> impl Iterator<Item = (&NamespacedId, &Ownership)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| Some((key, entry.owned.as_ref()?)))
    }

    /// How it owns a volume; `None` if it does not.
    pub fn ownership(&self, volume: &NamespacedId) -> Option<&Ownership> {
        self.entries.get(volume)?.owned.as_ref()
    }

    /// The same, to be changed.
    pub fn ownership_mut(&mut self, volume: &NamespacedId) -> Option<&mut Ownership> {
        self.entries.get_mut(volume)?.owned.as_mut()
    }

    /// Takes a volume into the set, or says anew how it owns it.
    pub fn own(&mut self, volume: NamespacedId, ownership: Ownership) {
        self.entries.entry(volume).or_default().owned = Some(ownership);
    }

    /// Records that a request was carried out: the set owns the volume, with the request's hashes.
    /// Protection, generation and what was seen stay as they were, and so does what is known of a
    /// hidden value that the request does not say; [`Self::record_none`] says that it is gone.
    pub fn record_applied(&mut self, request: &VolumeRequest) {
        let applied = self.key.of_request(request);
        self.replace_applied(request.key(), applied);
    }

    /// Records that an owned volume has another size, and what else was sent with it says nothing of
    /// what is wanted. Of a volume of which nothing was recorded nothing is.
    pub fn record_size(&mut self, request: &VolumeRequest) {
        let said = self.key.of_request(request);
        let Some(owned) = self.ownership_mut(&request.key()) else {
            return;
        };
        if owned.applied.is_empty() {
            return;
        }
        let is_size = |field: &str| field.starts_with("capacity_");
        owned.applied.retain(|field, _| !is_size(field));
        let sizes = said.into_iter().filter(|(field, _)| is_size(field));
        owned.applied.extend(sizes);
    }

    /// Records that a volume was found as a file wants it: the set owns it. Of what the server does
    /// not show nothing new is known.
    pub fn record_found(&mut self, wanted: &WantedRequest, found: &Volume) {
        let without = WantedRequest {
            secrets: None,
            ..wanted.clone()
        };
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
        let entry = self.entries.entry(volume).or_default();
        let owned = entry.owned.get_or_insert_default();
        for field in [SECRETS, MOUNT_FLAGS] {
            if let Some(hash) = owned.applied.get(field) {
                applied.entry(field.to_owned()).or_insert(*hash);
            }
        }
        owned.applied = applied;
    }

    /// Records that an owned volume has none of a hidden value.
    pub fn record_none(&mut self, volume: &NamespacedId, field: HiddenField) {
        let (name, hash) = match field {
            HiddenField::Secrets => (SECRETS, self.key.of_secrets(volume, &Secrets::default())),
            HiddenField::MountFlags => (MOUNT_FLAGS, self.key.of_mount_flags(volume, &[])),
        };
        if let Some(owned) = self.ownership_mut(volume) {
            owned.applied.insert(name.to_owned(), hash);
        }
    }

    /// Records that nobody knows any more which hidden values a volume has.
    pub fn doubt_hidden(&mut self, volume: &NamespacedId) {
        if let Some(owned) = self.ownership_mut(volume) {
            owned.applied.remove(SECRETS);
            owned.applied.remove(MOUNT_FLAGS);
        }
    }

    /// Lets a volume go: the set no longer owns it. Whether it did.
    pub fn forget(&mut self, volume: &NamespacedId) -> bool {
        self.take(volume, |entry| entry.owned.take().is_some())
    }

    /// What has been begun and not ended, by volume.
    pub fn intents(&self) -> impl Iterator<Item = (&NamespacedId, &Intent)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| Some((key, entry.intent.as_ref()?)))
    }

    /// What has been begun with a volume and not ended.
    pub fn intent(&self, volume: &NamespacedId) -> Option<&Intent> {
        self.entries.get(volume)?.intent.as_ref()
    }

    /// Records that something is about to be done to a volume. One thing at a time is.
    pub fn intend(&mut self, volume: NamespacedId, intent: Intent) {
        self.entries.entry(volume).or_default().intent = Some(intent);
    }

    /// Records that what was begun with a volume has ended, in whatever way. Whether there was
    /// something.
    pub fn settle(&mut self, volume: &NamespacedId) -> bool {
        self.take(volume, |entry| entry.intent.take().is_some())
    }

    /// When a saved plan was applied, nanoseconds since the epoch; `None` if it was not.
    pub fn applied_plan(&self, id: &str) -> Option<i64> {
        self.plans.get(id).copied()
    }

    /// Records that a saved plan is applied. The latest hundred are remembered.
    pub fn record_plan(&mut self, id: impl Into<String>, at: i64) {
        self.plans.insert(id.into(), at);
        while self.plans.len() > PLANS {
            let oldest = self.plans.iter().min_by_key(|(_, at)| **at);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else {
                return;
            };
            self.plans.remove(&id);
        }
    }

    /// What is known of a volume's stored secrets, which no server shows.
    pub fn secrets(&self, volume: &NamespacedId) -> StoredValue {
        let empty = self.key.of_secrets(volume, &Secrets::default());
        self.hidden(volume, SECRETS, empty)
    }

    /// Whether these secrets are those that were last applied; `None` if that is not known.
    pub fn same_secrets(&self, volume: &NamespacedId, secrets: &Secrets) -> Option<bool> {
        let hash = self.key.of_secrets(volume, secrets);
        Some(self.applied(volume, SECRETS)? == hash)
    }

    /// What is known of a volume's stored mount flags, which servers redact.
    pub fn mount_flags(&self, volume: &NamespacedId) -> StoredValue {
        let empty = self.key.of_mount_flags(volume, &[]);
        self.hidden(volume, MOUNT_FLAGS, empty)
    }

    /// Whether these flags are those that were last applied; `None` if that is not known.
    pub fn same_mount_flags(&self, volume: &NamespacedId, flags: &[String]) -> Option<bool> {
        let hash = self.key.of_mount_flags(volume, flags);
        Some(self.applied(volume, MOUNT_FLAGS)? == hash)
    }

    fn applied(&self, volume: &NamespacedId, field: &str) -> Option<FieldHash> {
        self.ownership(volume)?.applied.get(field).copied()
    }

    fn hidden(&self, volume: &NamespacedId, field: &str, empty: FieldHash) -> StoredValue {
        match self.applied(volume, field) {
            None => StoredValue::Unknown,
            Some(hash) if hash == empty => StoredValue::Empty,
            Some(_) => StoredValue::Given,
        }
    }

    fn take(&mut self, volume: &NamespacedId, what: impl FnOnce(&mut Entry) -> bool) -> bool {
        let Some(entry) = self.entries.get_mut(volume) else {
            return false;
        };
        let taken = what(entry);
        if entry.is_empty() {
            self.entries.remove(volume);
        }
        taken
    }
}

fn parse(stored: &StoredSet) -> Result<(Option<Head>, BTreeMap<ShardName, Shard>), LedgerProblem> {
    let mut head = None;
    let mut shards = BTreeMap::new();
    for (name, shard) in &stored.shards {
        if name.is_head() {
            head = Some(document::read(name, &shard.text)?);
        } else {
            shards.insert(name.clone(), document::read(name, &shard.text)?);
        }
    }
    Ok((head, shards))
}
