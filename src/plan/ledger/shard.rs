//! How a set is cut into shards, and put together again.
//!
//! One shard is the head: the key, what was applied, and a counter of writings. The others hold
//! volumes. A volume belongs into the shard whose name is a beginning of the bits of its name's
//! hash: first there is one for all, `v`; one that would grow above [`LARGEST`] is split by the next
//! bit into `v0` and `v1`, and so on; two whose volumes need no more than half of that together are
//! put into one again; an empty one is removed. Where a volume lies depends on nothing but the names
//! of the shards that are there, so one changed volume changes one shard and the head, or, when a
//! shard is full, the one and its two halves.
//!
//! A writing goes head first, by check-and-set, with the counter raised: whoever read the set
//! earlier fails there before he has written anything. Then come the shards, last the removal of
//! those that were split or joined. A crash in between leaves old shards beside new ones; a volume is
//! then looked up in the shard with the highest counter of those that could hold it, so that each
//! writing holds for a volume entirely or not at all, and the next writing removes what is left over.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::document::{FORMAT, Row, Shard};
use super::entry::Entry;
use crate::model::NamespacedId;

/// The most bytes of a shard: Nomad 1.4 takes 16 KiB in a variable, later ones 64
/// (`nomad-neighbour-apis` 1.1 and 1.6), and the variable's item has a name as well.
pub(super) const LARGEST: usize = 15 << 10;
/// Bits of a hash that may be in a shard's name.
const DEEPEST: usize = 40;
/// What a shard has beside its rows, generously.
const FRAME: usize = 80;

/// What a shard is called: `head`, or `v` and the bits that its volumes share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardName(String);

impl ShardName {
    /// The one that concerns the set as a whole.
    pub fn head() -> Self {
        Self("head".to_owned())
    }

    fn root() -> Self {
        Self("v".to_owned())
    }

    fn halves(&self) -> [Self; 2] {
        [Self(format!("{}0", self.0)), Self(format!("{}1", self.0))]
    }

    /// The shard of that name; `None` if none is called so.
    pub fn parse(text: &str) -> Option<Self> {
        let bits = text.strip_prefix('v');
        let shard = bits.is_some_and(|bits| {
            bits.len() <= DEEPEST && bits.bytes().all(|bit| matches!(bit, b'0' | b'1'))
        });
        (shard || text == "head").then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_head(&self) -> bool {
        self.0 == "head"
    }

    fn depth(&self) -> usize {
        self.0.len() - 1
    }

    /// Whether a volume of that place could lie in it.
    fn covers(&self, place: &Place) -> bool {
        !self.is_head() && place.0.starts_with(&self.0)
    }
}

impl std::fmt::Display for ShardName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a volume belongs: the name of the deepest shard that could hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(String);

impl Place {
    fn of(key: &NamespacedId) -> Self {
        let name = format!("{}\0{}", key.namespace, key.id);
        let hash = Sha256::digest(name.as_bytes());
        let bits = hash
            .iter()
            .flat_map(|byte| (0..8).map(move |n| byte >> (7 - n) & 1));
        let bits = bits
            .take(DEEPEST)
            .map(|bit| if bit == 0 { '0' } else { '1' });
        Self(std::iter::once('v').chain(bits).collect())
    }
}

/// A shard as it lies in a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredShard {
    /// What a check-and-set compares.
    pub revision: u64,
    /// Its JSON.
    pub text: String,
}

/// A set as it lies in a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSet {
    /// Its shards; none if there is no such set.
    pub shards: BTreeMap<ShardName, StoredShard>,
}

impl StoredSet {
    /// Whether there is no such set.
    pub fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// What is stored after a change was made, which `revision` it has since.
    pub fn record(&mut self, change: &ShardChange, revision: u64) {
        match &change.text {
            Some(text) => {
                let text = text.clone();
                let stored = StoredShard { revision, text };
                self.shards.insert(change.shard.clone(), stored);
            }
            None => drop(self.shards.remove(&change.shard)),
        }
    }
}

/// One thing to write into a ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardChange {
    /// Which shard.
    pub shard: ShardName,
    /// The revision that it must have for the change to be made; `None`: it must not exist.
    pub expected: Option<u64>,
    /// What it shall hold; `None`: it shall be gone.
    pub text: Option<String>,
}

/// What lies in a ledger cannot be used, or does not fit in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LedgerProblem {
    /// A later program wrote it.
    #[error("its shard `{shard}` has format {format}, and this program reads format {FORMAT}")]
    TooNew {
        /// Which shard.
        shard: ShardName,
        /// Its format.
        format: u32,
    },
    /// It is not what this program writes.
    #[error("its shard `{shard}` is damaged: {why}")]
    Damaged {
        /// Which shard.
        shard: ShardName,
        /// What is wrong with it.
        why: String,
    },
    /// What is to be kept of one volume is larger than a shard.
    #[error("volume {0} has so long a name that it fits into no shard")]
    TooLarge(NamespacedId),
}

/// The volumes of shards that may overlap after a crash.
pub(super) fn join(
    shards: &BTreeMap<ShardName, Shard>,
) -> Result<BTreeMap<NamespacedId, Entry>, LedgerProblem> {
    let mut entries = BTreeMap::new();
    for (name, shard) in shards {
        for row in &shard.volumes {
            let key = row.key();
            let place = Place::of(&key);
            if !name.covers(&place) {
                let why = format!("volume {key} does not belong there");
                let shard = name.clone();
                return Err(LedgerProblem::Damaged { shard, why });
            }
            let newest = shards
                .iter()
                .filter(|(name, _)| name.covers(&place))
                .max_by_key(|(name, shard)| (shard.sequence, name.depth()));
            if newest.is_some_and(|(newest, _)| newest == name) {
                entries.insert(key, row.entry());
            }
        }
    }
    Ok(entries)
}

struct Placed<'e> {
    place: Place,
    key: &'e NamespacedId,
    row: Row,
    size: usize,
}

/// Which volumes lie in which shard, given the shards that there are.
pub(super) fn lay_out(
    entries: &BTreeMap<NamespacedId, Entry>,
    present: &BTreeMap<ShardName, Shard>,
) -> Result<BTreeMap<ShardName, Vec<Row>>, LedgerProblem> {
    let mut placed: Vec<Placed<'_>> = entries
        .iter()
        .map(|(key, entry)| {
            let row = Row::new(key, entry);
            let size = super::document::write(&row).len() + 1;
            let place = Place::of(key);
            Placed {
                place,
                key,
                row,
                size,
            }
        })
        .collect();
    placed.sort_by(|a, b| a.place.cmp(&b.place));
    let mut shards = BTreeMap::new();
    let mut waiting = vec![(ShardName::root(), &placed[..])];
    while let Some((name, inside)) = waiting.pop() {
        let size = FRAME + inside.iter().map(|one| one.size).sum::<usize>();
        let is_split = present
            .keys()
            .any(|other| other.0.starts_with(&name.0) && *other != name);
        let room = if is_split { LARGEST / 2 } else { LARGEST };
        if inside.is_empty() {
            continue;
        }
        if size <= room {
            let rows = inside.iter().map(|one| one.row.clone()).collect();
            shards.insert(name, rows);
            continue;
        }
        if let Some(largest) = inside.iter().max_by_key(|one| one.size)
            && (inside.len() == 1 || name.depth() == DEEPEST)
        {
            return Err(LedgerProblem::TooLarge(largest.key.clone()));
        }
        let [zero, one] = name.halves();
        let middle = inside.partition_point(|one| zero.covers(&one.place));
        let (left, right) = inside.split_at(middle);
        waiting.extend([(zero, left), (one, right)]);
    }
    Ok(shards)
}
