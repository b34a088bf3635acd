//! [`Manifest`]: which sets of the snapshot count.

use serde::{Deserialize, Serialize};

use crate::api::KeyValue;
use nomad_csi_server::NextSnapshot;

/// The most sets of a chain.
const MAX_SETS: usize = 16;

/// One set: everything, or what changed since the set before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SetEntry {
    /// The index of its last event.
    pub index: u64,
    /// Whether it has everything.
    pub is_complete: bool,
    /// How many keys it has.
    pub chunks: u32,
    /// How many bytes they have.
    pub bytes: u64,
    /// The SHA-256 of these bytes.
    pub sha256: String,
}

/// The chain of sets that counts. The first one is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub sets: Vec<SetEntry>,
}

impl Manifest {
    /// Reads what its key has; `None` if that is damaged.
    pub(crate) fn read(found: Option<&KeyValue>) -> Option<Self> {
        let Some(found) = found else {
            return Some(Self::default());
        };
        let manifest: Self = serde_json::from_slice(&found.value).ok()?;
        manifest.is_chain().then_some(manifest)
    }

    /// Returns the index of the snapshot.
    pub(crate) fn index(&self) -> Option<u64> {
        self.sets.last().map(|set| set.index)
    }

    /// Returns the chain with another set.
    pub(crate) fn with(&self, set: SetEntry) -> Self {
        let before = match set.is_complete {
            true => vec![],
            false => self.sets.clone(),
        };
        Self { sets: before.into_iter().chain([set]).collect() }
    }

    /// Returns whether each set follows the one before.
    fn is_chain(&self) -> bool {
        let is_first_complete = self.sets.first().is_none_or(|set| set.is_complete);
        let follows = self.sets.windows(2).all(|pair| {
            let [before, after] = pair else { return false };
            before.index < after.index && !after.is_complete
        });
        is_first_complete && follows
    }

    /// Returns what the next set has to contain: everything when the changes have more than half the bytes of the
    /// complete set, or the chain is long.
    pub(crate) fn next(&self) -> NextSnapshot {
        let Some((complete, changes)) = self.sets.split_first() else {
            return NextSnapshot::Complete;
        };
        let changed: u64 = changes.iter().map(|set| set.bytes).sum();
        match changed > complete.bytes / 2 || self.sets.len() >= MAX_SETS {
            true => NextSnapshot::Complete,
            false => NextSnapshot::Changes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(index: u64, is_complete: bool, bytes: u64) -> SetEntry {
        SetEntry { index, is_complete, chunks: 1, bytes, sha256: String::new() }
    }

    #[test]
    fn a_chain_ends_when_it_is_long_or_its_changes_are_large() {
        let mut chain = Manifest::default();
        assert_eq!(chain.next(), NextSnapshot::Complete);
        chain = chain.with(set(10, true, 100));
        for at in 1..16 {
            assert_eq!(chain.next(), NextSnapshot::Changes, "{at}");
            chain = chain.with(set(10 + at, false, 2));
            assert!(chain.is_chain());
        }
        assert_eq!(chain.next(), NextSnapshot::Complete, "16 sets");
        chain = chain.with(set(40, true, 100));
        assert_eq!((chain.sets.len(), chain.index()), (1, Some(40)));
        assert_eq!(chain.with(set(41, false, 50)).next(), NextSnapshot::Changes);
        assert_eq!(chain.with(set(41, false, 51)).next(), NextSnapshot::Complete);
    }

    #[test]
    fn what_is_no_chain_is_found() {
        for sets in [
            vec![set(1, false, 1)],
            vec![set(2, true, 1), set(2, false, 1)],
            vec![set(2, true, 1), set(3, true, 1)],
        ] {
            assert!(!Manifest { sets }.is_chain());
        }
    }
}
