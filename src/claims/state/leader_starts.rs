//! [`LeaderStarts`]: where in the journal each leader began.
//!
//! With them a server can tell whether it has the history that a node has seen: under one leader the journal has the indexes up to the
//! start of the next one. After a restore from a backup it has another leader there.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most starts that are kept.
const MOST: usize = 1_024;

/// The indexes at which leaders began, in order, with the unique IDs of these starts: after a restore, another leader may begin at
/// the same index. Clones are cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderStarts {
    starts: Arc<Vec<(u64, String)>>,
    /// The last start that is not kept any more; 0 if all are.
    forgotten: u64,
}

impl LeaderStarts {
    pub(super) fn add(&mut self, index: u64, id: &str) {
        let starts = Arc::make_mut(&mut self.starts);
        starts.push((index, id.to_owned()));
        if starts.len() > MOST {
            self.forgotten = starts.remove(0).0;
        }
    }

    /// Returns the unique ID of the newest start; empty before the first one.
    pub fn newest(&self) -> &str {
        self.starts.last().map_or("", |(_, id)| id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Returns whether the journal can have had this index while the leader with this ID led; `None` if a leader of that time
    /// is not kept any more. The journal ends at `last`.
    pub fn includes(&self, id: &str, index: u64, last: u64) -> Option<bool> {
        let first = self.starts.first().map_or(0, |(first, _)| *first);
        let Some(place) = self.starts.iter().rposition(|(_, known)| known == id) else {
            let may_be_forgotten = self.forgotten > 0 && index < first;
            return (!may_be_forgotten).then_some(false);
        };
        let end = self.starts.get(place + 1).map_or(last, |(next, _)| next - 1);
        Some(index <= end)
    }
}

impl Serialize for LeaderStarts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.forgotten, &*self.starts).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for LeaderStarts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (forgotten, starts) = Deserialize::deserialize(deserializer)?;
        Ok(Self { starts: Arc::new(starts), forgotten })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id_of(index: u64) -> String {
        format!("leader-{index}")
    }

    fn starts(indexes: impl IntoIterator<Item = u64>) -> LeaderStarts {
        let mut starts = LeaderStarts::default();
        indexes.into_iter().for_each(|index| starts.add(index, &id_of(index)));
        starts
    }

    #[test]
    fn a_leader_has_the_indexes_up_to_the_next_one() {
        let starts = starts([2, 10, 101]);
        for (start, index, expected) in [
            (2, 9, true),
            (2, 10, false),
            (10, 100, true),
            // The node saw more under this leader than the journal has: a restore cut it off.
            (10, 490, false),
            (101, 600, true),
            (101, 601, false),
            // A leader that the journal does not have.
            (300, 300, false),
            (9, 9, false),
        ] {
            let found = starts.includes(&id_of(start), index, 600);
            assert_eq!(found, Some(expected), "{start} {index}");
            assert_eq!(starts.includes("another", index, 600), Some(false));
        }
        assert_eq!(starts.newest(), "leader-101");
    }

    #[test]
    fn the_oldest_starts_are_forgotten_and_then_nothing_is_said_of_them() {
        let starts = starts((1..=2_000).map(|number| number * 10));
        assert_eq!(starts.starts.len(), MOST);
        assert_eq!(starts.includes(&id_of(9_760), 9_765, 30_000), None);
        assert_eq!(starts.includes(&id_of(9_770), 9_775, 30_000), Some(true));
        assert_eq!(starts.includes("another", 9_765, 30_000), None);
        assert_eq!(starts.includes("another", 9_770, 30_000), Some(false));
        let written = serde_json::to_string(&starts).unwrap();
        assert_eq!(serde_json::from_str::<LeaderStarts>(&written).unwrap(), starts);
    }
}
