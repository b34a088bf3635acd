//! The names of shards, and the path of a volume to its shard.

use sha2::{Digest as _, Sha256};

use nomad_csi_model::NamespacedId;

/// The maximum number of hash bits in a shard's name.
pub(super) const DEEPEST: u32 = 40;

/// The name of a shard, in the order of the texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ShardName {
    /// The head: `head`.
    Head,
    /// A shard of volumes: `v` and the bits that its volumes share.
    Volumes(VolumeShard),
}

impl ShardName {
    /// Parses a name; `None` if it is not the name of a shard.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "head" {
            return Some(Self::Head);
        }
        VolumeShard::parse(text.strip_prefix('v')?).map(Self::Volumes)
    }
}

impl std::fmt::Display for ShardName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Head => f.write_str("head"),
            Self::Volumes(shard) => shard.fmt(f),
        }
    }
}

/// A shard of volumes: the first bits that the hashes of their names share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeShard {
    /// The bits, from the highest one down; the others are zero.
    bits: u64,
    /// The number of bits.
    depth: u32,
}

impl VolumeShard {
    /// The shard of all volumes.
    pub(super) const ROOT: Self = Self { bits: 0, depth: 0 };

    fn parse(digits: &str) -> Option<Self> {
        let one = |shard: Self, digit: u8| {
            let [zero, one] = (shard.depth < DEEPEST).then(|| shard.halves())?;
            match digit {
                b'0' => Some(zero),
                b'1' => Some(one),
                _ => None,
            }
        };
        digits.bytes().try_fold(Self::ROOT, one)
    }

    /// Returns the two parts that the shard is split into. A shard of [`DEEPEST`] has none.
    pub(super) fn halves(self) -> [Self; 2] {
        let depth = self.depth + 1;
        let last = 1 << (u64::BITS - depth);
        [self.bits, self.bits | last].map(|bits| Self { bits, depth })
    }

    /// Returns the shards that can hold a volume with this path, from the root down.
    pub(super) fn all_of(path: ShardPath) -> impl Iterator<Item = Self> {
        (0..=DEEPEST).map(move |depth| Self::above(path.0, depth))
    }

    /// Returns the shards that this one is a part of, from the root down.
    pub(super) fn all_above(self) -> impl Iterator<Item = Self> {
        (0..self.depth).map(move |depth| Self::above(self.bits, depth))
    }

    fn above(bits: u64, depth: u32) -> Self {
        let bits = bits & mask(depth);
        Self { bits, depth }
    }

    pub(super) fn depth(self) -> u32 {
        self.depth
    }

    /// Returns whether the shard is a part of another one that has been split.
    pub(super) fn is_below(self, other: Self) -> bool {
        self.depth > other.depth && self.bits & mask(other.depth) == other.bits
    }

    /// Returns whether the shard can hold a volume with this path.
    pub(super) fn covers(self, path: ShardPath) -> bool {
        path.0 & mask(self.depth) == self.bits
    }
}

impl std::fmt::Display for VolumeShard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("v")?;
        let bits = (1..=self.depth).map(|depth| self.bits >> (u64::BITS - depth) & 1);
        bits.into_iter().try_for_each(|bit| write!(f, "{bit}"))
    }
}

/// Returns the highest bits.
fn mask(depth: u32) -> u64 {
    u64::MAX.checked_shl(u64::BITS - depth).unwrap_or(0)
}

/// The path of a volume: the bits of the deepest shard that can hold it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardPath(u64);

impl ShardPath {
    pub(super) fn of(volume: &NamespacedId) -> Self {
        let name = format!("{}\0{}", volume.namespace, volume.id);
        let hash: [u8; 32] = Sha256::digest(name.as_bytes()).into();
        let first = hash.first_chunk().copied().unwrap_or_default();
        Self(u64::from_be_bytes(first) & mask(DEEPEST))
    }

    /// Returns the smallest path below a shard.
    pub(super) fn first_below(shard: VolumeShard) -> Self {
        Self(shard.bits)
    }
}

/// Returns a number by which the volumes of one shard follow each other.
pub fn shard_order(volume: &NamespacedId) -> u64 {
    ShardPath::of(volume).0
}
