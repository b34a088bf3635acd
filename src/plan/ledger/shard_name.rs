//! The names of shards, and the path of a volume to its shard.

use sha2::{Digest as _, Sha256};

use crate::model::NamespacedId;

/// The maximum number of hash bits in a shard's name.
pub(super) const DEEPEST: usize = 40;

/// The name of a shard: `head`, or `v` and the bits that its volumes share.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardName(String);

impl ShardName {
    /// Returns the name of the head.
    pub fn head() -> Self {
        Self("head".to_owned())
    }

    pub(super) fn root() -> Self {
        Self("v".to_owned())
    }

    pub(super) fn halves(&self) -> [Self; 2] {
        [Self(format!("{}0", self.0)), Self(format!("{}1", self.0))]
    }

    /// Parses a name; `None` if it is not the name of a shard.
    pub fn parse(text: &str) -> Option<Self> {
        let bits = text.strip_prefix('v');
        let shard = bits.is_some_and(|bits| {
            bits.len() <= DEEPEST && bits.bytes().all(|bit| matches!(bit, b'0' | b'1'))
        });
        (shard || text == "head").then(|| Self(text.to_owned()))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the shards that can hold a volume with this path, from the root down.
    pub(super) fn all_of(path: &ShardPath) -> impl Iterator<Item = Self> {
        (1..=path.0.len()).map(|length| Self(path.0[..length].to_owned()))
    }

    /// Returns the shards that this one is a part of, from the root down.
    pub(super) fn all_above(&self) -> impl Iterator<Item = Self> {
        (1..self.0.len()).map(|length| Self(self.0[..length].to_owned()))
    }

    pub(super) fn is_head(&self) -> bool {
        self.0 == "head"
    }

    pub(super) fn depth(&self) -> usize {
        self.0.len() - 1
    }

    /// Whether the shard is a part of another one that has been split.
    pub(super) fn is_below(&self, other: &Self) -> bool {
        self != other && self.0.starts_with(&other.0)
    }

    /// Whether the shard can hold a volume with this path.
    pub(super) fn covers(&self, path: &ShardPath) -> bool {
        !self.is_head() && path.0.starts_with(&self.0)
    }
}

impl std::fmt::Display for ShardName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a volume: the name of the deepest shard that can hold it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShardPath(String);

impl ShardPath {
    /// Returns the smallest path below a shard.
    pub(super) fn first_below(shard: &ShardName) -> Self {
        Self(shard.0.clone())
    }

    pub(super) fn of(key: &NamespacedId) -> Self {
        let hash = path_hash(key);
        let bits = hash
            .iter()
            .flat_map(|byte| (0..8).map(move |n| byte >> (7 - n) & 1));
        let bits = bits
            .take(DEEPEST)
            .map(|bit| if bit == 0 { '0' } else { '1' });
        Self(std::iter::once('v').chain(bits).collect())
    }
}

/// Returns a number by which the volumes of one shard follow each other.
pub fn shard_order(volume: &NamespacedId) -> u64 {
    let hash = path_hash(volume);
    hash.iter()
        .take(DEEPEST / 8)
        .fold(0, |order, byte| order << 8 | u64::from(*byte))
}

fn path_hash(volume: &NamespacedId) -> [u8; 32] {
    let name = format!("{}\0{}", volume.namespace, volume.id);
    Sha256::digest(name.as_bytes()).into()
}
