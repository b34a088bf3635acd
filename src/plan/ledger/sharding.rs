//! Divides a set into shards, and reads shards back.
//!
//! The head shard holds the key, the applied plans and a sequence number. The others hold volumes: a
//! volume belongs to the shard whose name is a prefix of the bits of the hash of its name. A shard
//! larger than [`LARGEST`] splits by the next bit (`v` into `v0` and `v1`); two siblings that fit into
//! half of it merge. So one changed volume rewrites one shard and the head.
//!
//! A write starts with the head, by check-and-set, and removes old shards last. After a crash, the
//! shard with the highest sequence decides each volume, so a write applies entirely or not at all.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::document::{ShardDocument, VolumeRecord};
use super::entry::Entry;
use super::shard_name::{DEEPEST, ShardName, ShardPath};
use super::stored_set::LedgerProblem;
use crate::model::NamespacedId;

/// The maximum size of a shard in bytes. A variable has at most 64 KiB, including the name of the item,
/// since Nomad 1.5. The locks of sets require 1.7.
pub(super) const LARGEST: usize = 60 << 10;
/// An upper bound for the size of a shard without its records.
pub(super) const FRAME: usize = 80;

/// Returns the volumes of shards, which may overlap after a crash.
pub(super) fn merge_shards(
    mut shards: BTreeMap<ShardName, ShardDocument>,
) -> Result<BTreeMap<NamespacedId, Entry>, LedgerProblem> {
    let overlapping = Overlap::of(&shards);
    let mut entries = vec![];
    for (name, shard) in &mut shards {
        for record in std::mem::take(&mut shard.volumes) {
            let key = record.key();
            let path = ShardPath::of(&key);
            if !name.covers(&path) {
                let why = format!("volume {} belongs to another shard", key.quoted());
                let shard = name.clone();
                return Err(LedgerProblem::Damaged { shard, why });
            }
            let decides = |overlap: &Overlap| overlap.newest(&path) == Some(name);
            if overlapping.as_ref().is_none_or(decides) {
                entries.push((key, record.into_entry()));
            }
        }
    }
    // Collected at once, the keys are sorted and not looked up one by one.
    Ok(entries.into_iter().collect())
}

/// The sequences of shards of which some are parts of others, as a crash leaves them.
struct Overlap {
    sequences: BTreeMap<ShardName, u64>,
    deepest: usize,
}

impl Overlap {
    /// Returns `None` if no shard is a part of another one.
    fn of(shards: &BTreeMap<ShardName, ShardDocument>) -> Option<Self> {
        // In their order, the parts of a shard follow it.
        let mut pairs = shards.keys().zip(shards.keys().skip(1));
        if !pairs.any(|(shard, next)| next.is_below(shard)) {
            return None;
        }
        let sequences = shards.iter();
        let sequences = sequences.map(|(name, shard)| (name.clone(), shard.sequence));
        Some(Self {
            sequences: sequences.collect(),
            deepest: shards.keys().map(ShardName::depth).max()?,
        })
    }

    /// Returns the shard that decides the volume with this path.
    fn newest(&self, path: &ShardPath) -> Option<&ShardName> {
        let covering = ShardName::all_of(path).take(self.deepest + 1);
        let stored = covering.filter_map(|name| self.sequences.get_key_value(&name));
        let newest = stored.max_by_key(|(name, sequence)| (**sequence, name.depth()));
        newest.map(|(name, _)| name)
    }
}

/// A record on the way to its shard, or its text.
pub(super) struct PlacedVolume<'e, R> {
    pub(super) path: &'e ShardPath,
    pub(super) key: &'e NamespacedId,
    pub(super) record: R,
    pub(super) size: usize,
}

/// Returns the size of a record in a shard.
pub(super) fn size_in_shard(record: &RawValue) -> usize {
    record.get().len() + 1
}

/// Returns the largest size of a shard before it splits, or before its halves stay apart.
pub(super) fn room(is_split: bool) -> usize {
    if is_split { LARGEST / 2 } else { LARGEST }
}

/// Assigns the volumes to shards, given the existing shards.
pub(super) fn assign_to_shards<'e>(
    entries: &'e BTreeMap<NamespacedId, Entry>,
    present: &BTreeMap<ShardName, ShardDocument>,
) -> Result<BTreeMap<ShardName, Vec<VolumeRecord<'e>>>, LedgerProblem> {
    let mut paths: Vec<(ShardPath, &NamespacedId, &Entry)> = entries
        .iter()
        .map(|(key, entry)| (ShardPath::of(key), key, entry))
        .collect();
    paths.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let placed = paths.iter().map(|(path, key, entry)| {
        let record = VolumeRecord::new(key, entry);
        let size = size_in_shard(&record.text());
        PlacedVolume {
            path,
            key,
            record,
            size,
        }
    });
    let placed: Vec<PlacedVolume<'_, _>> = placed.collect();
    let is_split = |name: &ShardName| present.keys().any(|other| other.is_below(name));
    divide(ShardName::root(), &placed, is_split)
}

/// Divides the volumes of a shard, which are in the order of their paths, until every part fits.
pub(super) fn divide<R: Clone>(
    shard: ShardName,
    placed: &[PlacedVolume<'_, R>],
    is_split: impl Fn(&ShardName) -> bool,
) -> Result<BTreeMap<ShardName, Vec<R>>, LedgerProblem> {
    let mut shards = BTreeMap::new();
    let mut waiting = vec![(shard, placed)];
    while let Some((name, inside)) = waiting.pop() {
        let size = FRAME + inside.iter().map(|one| one.size).sum::<usize>();
        if inside.is_empty() {
            continue;
        }
        if size <= room(is_split(&name)) {
            let records = inside.iter().map(|one| one.record.clone()).collect();
            shards.insert(name, records);
            continue;
        }
        if let Some(largest) = inside.iter().max_by_key(|one| one.size)
            && (inside.len() == 1 || name.depth() == DEEPEST)
        {
            return Err(LedgerProblem::TooLarge(largest.key.clone()));
        }
        let [zero, one] = name.halves();
        let middle = inside.partition_point(|one| zero.covers(one.path));
        let (left, right) = inside.split_at(middle);
        waiting.extend([(zero, left), (one, right)]);
    }
    Ok(shards)
}
