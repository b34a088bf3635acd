//! Divides a set into shards, and reads shards back.
//!
//! The head shard holds the key, the applied plans and a sequence number. The others hold volumes: a
//! volume belongs to the shard whose name is a prefix of the bits of the hash of its name. A shard
//! larger than [`ROOM`] splits by the next bit (`v` into `v0` and `v1`); two siblings that fit into
//! half of it merge. So one changed volume rewrites one shard and the head. A volume that needs more
//! room has a shard of its own, up to [`LARGEST`].
//!
//! A write starts with the head, by check-and-set, and removes old shards last; between these, shards
//! are written in any order. After a crash, the shard with the highest sequence decides each volume, so
//! each volume is as before the write or as after it. Shards are removed one after another, the lowest
//! sequence first: a shard that an earlier crash left behind goes before the one that decides in its
//! place.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::document::{LedgerVolume, ShardDocument};
use super::entry::Entry;
use super::shard_name::{DEEPEST, ShardName, ShardPath, VolumeShard};
use super::stored_set::LedgerProblem;
use nomad_csi_model::NamespacedId;

/// The maximum size of a shard in bytes. A variable has at most 64 KiB, including the name of the item,
/// since Nomad 1.5. The locks of sets require 1.7.
pub(super) const LARGEST: usize = 60 << 10;
/// The size in bytes above which a shard splits. A write of a few volumes writes whole shards, and a
/// plan reads every shard: smaller ones cost more reads, and larger ones more bytes.
pub(super) const ROOM: usize = 30 << 10;
/// An upper bound for the size of a shard without its records.
pub(super) const FRAME: usize = 80;

/// Returns the volumes of shards, which may overlap after a crash.
pub(super) fn merge_shards(
    mut shards: BTreeMap<VolumeShard, ShardDocument>,
) -> Result<BTreeMap<NamespacedId, Entry>, LedgerProblem> {
    let overlapping = Overlap::of(&shards);
    let mut entries = vec![];
    for (&name, shard) in &mut shards {
        for record in std::mem::take(&mut shard.volumes) {
            let key = record.key();
            let path = ShardPath::of(&key);
            if !name.covers(path) {
                let why = format!("volume {} belongs to another shard", key.quoted());
                let shard = ShardName::Volumes(name);
                return Err(LedgerProblem::Damaged { shard, why });
            }
            let decides = |overlap: &Overlap| overlap.newest(path) == Some(name);
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
    sequences: BTreeMap<VolumeShard, u64>,
    deepest: u32,
}

impl Overlap {
    /// Returns `None` if no shard is a part of another one.
    fn of(shards: &BTreeMap<VolumeShard, ShardDocument>) -> Option<Self> {
        // In their order, the parts of a shard follow it.
        let mut pairs = shards.keys().zip(shards.keys().skip(1));
        if !pairs.any(|(shard, next)| next.is_below(*shard)) {
            return None;
        }
        let sequences = shards.iter();
        let sequences = sequences.map(|(name, shard)| (*name, shard.sequence));
        Some(Self {
            sequences: sequences.collect(),
            deepest: shards.keys().map(|shard| shard.depth()).max()?,
        })
    }

    /// Returns the shard that decides the volume with this path.
    fn newest(&self, path: ShardPath) -> Option<VolumeShard> {
        let covering = VolumeShard::all_of(path).take_while(|shard| shard.depth() <= self.deepest);
        let stored = covering.filter_map(|shard| Some((*self.sequences.get(&shard)?, shard)));
        let newest = stored.max_by_key(|(sequence, shard)| (*sequence, shard.depth()));
        newest.map(|(_, shard)| shard)
    }
}

/// A record on the way to its shard, or its text.
pub(super) struct PlacedVolume<'e, R> {
    pub(super) path: ShardPath,
    pub(super) key: &'e NamespacedId,
    pub(super) record: R,
    pub(super) size: usize,
}

/// Returns the size of a record in a shard.
pub(super) fn size_in_shard(record: &RawValue) -> usize {
    record.get().len() + 1
}

/// Returns whether a shard that was split holds records of this size again.
pub(super) fn fits_again(size: usize) -> bool {
    FRAME + size <= ROOM / 2
}

/// Assigns the volumes to shards, given the existing shards.
pub(super) fn assign_to_shards<'e>(
    entries: impl Iterator<Item = (&'e NamespacedId, &'e Entry)>,
    present: &BTreeMap<VolumeShard, ShardDocument>,
) -> Result<BTreeMap<VolumeShard, Vec<LedgerVolume<'e>>>, LedgerProblem> {
    let mut paths: Vec<(ShardPath, &NamespacedId, &Entry)> =
        entries.map(|(key, entry)| (ShardPath::of(key), key, entry)).collect();
    paths.sort_by_key(|(path, ..)| *path);
    let placed = paths.into_iter().map(|(path, key, entry)| {
        let record = LedgerVolume::new(key, entry);
        let size = size_in_shard(&record.text());
        PlacedVolume { path, key, record, size }
    });
    let placed: Vec<PlacedVolume<'_, _>> = placed.collect();
    let is_split = |shard: VolumeShard| present.keys().any(|other| other.is_below(shard));
    divide(VolumeShard::ROOT, &placed, is_split)
}

/// Divides the volumes of a shard, which are in the order of their paths, until every part fits.
pub(super) fn divide<R: Clone>(
    shard: VolumeShard,
    placed: &[PlacedVolume<'_, R>],
    is_split: impl Fn(VolumeShard) -> bool,
) -> Result<BTreeMap<VolumeShard, Vec<R>>, LedgerProblem> {
    let mut shards = BTreeMap::new();
    let mut waiting = vec![(shard, placed)];
    while let Some((shard, inside)) = waiting.pop() {
        let Some(largest) = inside.iter().max_by_key(|one| one.size) else {
            continue;
        };
        let size = inside.iter().map(|one| one.size).sum::<usize>();
        let fits = if is_split(shard) {
            fits_again(size)
        } else if inside.len() == 1 || shard.depth() == DEEPEST {
            if FRAME + size > LARGEST {
                return Err(LedgerProblem::TooLarge(largest.key.clone()));
            }
            true
        } else {
            FRAME + size <= ROOM
        };
        if fits {
            let records = inside.iter().map(|one| one.record.clone()).collect();
            shards.insert(shard, records);
            continue;
        }
        let [zero, one] = shard.halves();
        let middle = inside.partition_point(|one| zero.covers(one.path));
        let (left, right) = inside.split_at(middle);
        waiting.extend([(zero, left), (one, right)]);
    }
    Ok(shards)
}
