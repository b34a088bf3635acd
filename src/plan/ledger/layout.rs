//! [`SetLayout`]: which shards a stored set has, so that a write lays out only those that change.
//!
//! The size of every shard that was split is known. A changed volume changes the sizes on its path. The
//! first shard on the path that is not split, or whose parts fit into it again, is laid out, and no other, from
//! the kept texts of the records. The result is the one of [`LedgerSet::changes`], which lays out everything.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use serde_json::value::RawValue;

use super::document::{LedgerVolume, RecordText, ShardDocument};
use super::set::{LedgerSet, parse};
use super::shard_name::{ShardName, ShardPath, VolumeShard};
use super::sharding::{PlacedVolume, divide, fits_again, size_in_shard};
use super::stored_set::{LedgerProblem, ShardChange, StoredSet};
use nomad_csi_model::{Namespace, NamespacedId, VolumeId};

/// The shards of a stored set.
#[derive(Clone, Debug, Default)]
pub struct SetLayout {
    /// The sequence of the last write.
    sequence: u64,
    /// The records, in the order of their paths.
    volumes: BTreeMap<(ShardPath, NamespacedId), RecordText>,
    /// The sizes of the records below every shard that was split.
    split: BTreeMap<VolumeShard, usize>,
    shards: BTreeSet<VolumeShard>,
    /// The number of records that were laid out.
    laid_out: usize,
}

impl SetLayout {
    /// Returns the layout of a set that is stored as it is.
    ///
    /// # Errors
    /// If the stored set cannot be read.
    pub fn of(set: &LedgerSet, stored: &StoredSet) -> Result<Self, LedgerProblem> {
        let (head, shards) = parse(stored)?;
        let mut layout = Self {
            sequence: head.map_or(0, |head| head.sequence),
            shards: shards.into_keys().collect(),
            ..Self::default()
        };
        for (volume, _) in set.entries().all() {
            layout.measure(set, volume);
        }
        Ok(layout)
    }

    /// Returns how many records were laid out since the layout was made.
    pub fn laid_out(&self) -> usize {
        self.laid_out
    }

    /// Returns the writes that store what changed in the set, in order; none if nothing did. The layout
    /// is then the one after these writes, and holds only if all of them succeed. `save` is a unique ID
    /// of this write (a UUID).
    ///
    /// # Errors
    /// If a volume fits into no shard.
    pub fn changes(
        &mut self,
        set: &LedgerSet,
        stored: &StoredSet,
        save: &str,
    ) -> Result<Vec<ShardChange>, LedgerProblem> {
        let changed: Vec<&NamespacedId> = set.entries().changed().collect();
        if changed.is_empty() && !set.has_new_history() {
            return Ok(vec![]);
        }
        self.sequence += 1;
        let paths: BTreeSet<ShardPath> =
            changed.into_iter().map(|volume| self.measure(set, volume)).collect();
        let outdated: BTreeSet<VolumeShard> =
            paths.into_iter().map(|path| self.outdated(path)).collect();
        let mut changes = vec![set.head_change(stored, self.sequence, save)];
        let mut gone = vec![];
        for shard in outdated {
            let old = self.take_shards(shard);
            let new = self.divide(shard, &old)?;
            let left = old.iter().filter(|name| !new.contains_key(name));
            gone.extend(left.map(|name| ShardChange::of(stored, ShardName::Volumes(*name), None)));
            self.add_shards(shard, &new);
            changes.extend(new.into_iter().map(|(name, new)| {
                ShardChange::of(stored, ShardName::Volumes(name), Some(new.text))
            }));
        }
        changes.extend(gone);
        Ok(changes)
    }

    /// Takes over the record of a volume, and returns its path.
    fn measure(&mut self, set: &LedgerSet, volume: &NamespacedId) -> ShardPath {
        let path = ShardPath::of(volume);
        let place = (path, volume.clone());
        let entry = set.entries().get(volume);
        let record = entry.map(|entry| LedgerVolume::new(volume, entry).text());
        let size = |record: &RecordText| size_in_shard(record);
        let new = record.as_ref().map(size);
        let old = match record {
            Some(record) => self.volumes.insert(place, record),
            None => self.volumes.remove(&place),
        };
        let old = old.as_ref().map(size);
        for shard in VolumeShard::all_of(path).take_while(|shard| is_split(&self.shards, *shard)) {
            let size = self.split.entry(shard).or_default();
            *size = (*size + new.unwrap_or_default()).saturating_sub(old.unwrap_or_default());
        }
        path
    }

    /// Returns the shard on a path that has to be laid out again.
    fn outdated(&self, path: ShardPath) -> VolumeShard {
        let size = |shard| self.split.get(&shard).copied().unwrap_or_default();
        VolumeShard::all_of(path)
            .find(|shard| !is_split(&self.shards, *shard) || fits_again(size(*shard)))
            .unwrap_or(VolumeShard::ROOT)
    }

    /// Divides the volumes of a shard that was taken, and lays out the parts.
    fn divide(
        &self,
        shard: VolumeShard,
        taken: &[VolumeShard],
    ) -> Result<BTreeMap<VolumeShard, LaidOutShard>, LedgerProblem> {
        let first = NamespacedId::new(Namespace::new(""), VolumeId::new(""));
        let inside = self
            .volumes
            .range((ShardPath::first_below(shard), first)..)
            .take_while(|((path, _), _)| shard.covers(*path));
        let placed: Vec<PlacedVolume<'_, &RawValue>> = inside
            .map(|((path, key), record)| PlacedVolume {
                path: *path,
                key,
                record: &**record,
                size: size_in_shard(record),
            })
            .collect();
        let was_split = |shard: VolumeShard| taken.iter().any(|other| other.is_below(shard));
        let parts = divide(shard, &placed, was_split)?.into_iter();
        let lay_out = |(name, records)| (name, LaidOutShard::new(self.sequence, records));
        Ok(parts.map(lay_out).collect())
    }

    /// Takes a shard and those below it out of the layout.
    fn take_shards(&mut self, shard: VolumeShard) -> Vec<VolumeShard> {
        let from = self.shards.range(shard..).copied();
        let taken = from.take_while(|name| *name == shard || name.is_below(shard));
        let taken: Vec<VolumeShard> = taken.collect();
        for name in &taken {
            self.shards.remove(name);
        }
        if taken.iter().any(|name| *name != shard) {
            self.split.retain(|name, _| *name != shard && !name.is_below(shard));
        }
        taken
    }

    /// Adds a shard or its parts to the layout.
    fn add_shards(&mut self, shard: VolumeShard, new: &BTreeMap<VolumeShard, LaidOutShard>) {
        self.shards.extend(new.keys());
        self.laid_out += new.values().map(|new| new.records).sum::<usize>();
        for (name, new) in new.iter().filter(|(name, _)| **name != shard) {
            for above in name.all_above().filter(|above| !shard.is_below(*above)) {
                *self.split.entry(above).or_default() += new.size;
            }
        }
    }
}

/// A shard to write.
struct LaidOutShard {
    text: String,
    /// The number of its records.
    records: usize,
    /// The size of its records.
    size: usize,
}

impl LaidOutShard {
    fn new(sequence: u64, records: Vec<&RawValue>) -> Self {
        Self {
            records: records.len(),
            size: records.iter().map(|record| size_in_shard(record)).sum(),
            text: ShardDocument::text(sequence, records),
        }
    }
}

fn is_split(shards: &BTreeSet<VolumeShard>, shard: VolumeShard) -> bool {
    let mut below = shards.range((Excluded(shard), Unbounded));
    below.next().is_some_and(|next| next.is_below(shard))
}
