//! [`SetHistory`]: what a set knows of its past, besides the volumes that it owns.
//!
//! It serves runs that are repeated: a saved plan is applied once, and an approval stays valid after the
//! approved removal. Only the latest hundred of each are kept, so that the head shard stays small.

use std::collections::BTreeMap;

use super::hash::FieldHash;

/// How many plans, and how many volumes, are kept.
const KEPT: usize = 100;

/// The applied plans and released volumes of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SetHistory {
    /// The applied saved plans, with their times.
    pub(super) plans: BTreeMap<String, i64>,
    /// The hashes of the volumes that the set released, the latest last.
    pub(super) released: Vec<FieldHash>,
}

impl SetHistory {
    pub(super) fn add_plan(&mut self, id: String, at: i64) {
        self.plans.insert(id, at);
        while self.plans.len() > KEPT {
            let oldest = self.plans.iter().min_by_key(|(_, at)| **at);
            let Some(id) = oldest.map(|(id, _)| id.clone()) else {
                return;
            };
            self.plans.remove(&id);
        }
    }

    pub(super) fn add_released(&mut self, volume: FieldHash) {
        self.released.retain(|other| *other != volume);
        self.released.push(volume);
        let surplus = self.released.len().saturating_sub(KEPT);
        self.released.drain(..surplus);
    }
}
