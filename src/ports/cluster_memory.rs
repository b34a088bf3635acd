//! What a node remembers of its cluster: the highest place in its log that it has seen.
//!
//! A server of another cluster, or one that was restored from a backup, must not make a node stop tasks. The node
//! compares what a server says with this record, which outlives its process.

use serde::{Deserialize, Serialize};

use nomad_csi_model::Term;

/// A place in the log of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterPosition {
    /// The ID of the cluster, a UUID.
    pub cluster_id: String,
    /// The leadership.
    pub term: Term,
    /// The index of the last event.
    pub index: u64,
    /// The unique ID of the leadership. After a restore from a backup, another leader may begin at the same index.
    pub leader: String,
}

impl ClusterPosition {
    /// Returns whether this is of the same cluster, neither its term nor its index is below those of `known`, and one term has
    /// one leader.
    pub fn follows(&self, known: &Self) -> bool {
        let is_known_leader = self.term != known.term || self.leader == known.leader;
        self.cluster_id == known.cluster_id
            && self.term >= known.term
            && self.index >= known.index
            && is_known_leader
    }
}

/// The record cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ClusterMemoryError {
    /// A text for the operator: what cannot be done with which object, why, and what to do.
    pub reason: String,
}

/// The record of one node. Its methods block.
pub trait ClusterMemory: Send + Sync {
    /// Returns the record; `None` before the first contact with a cluster.
    ///
    /// # Errors
    /// If it cannot be read. That is not the same as no record: the node would believe any cluster.
    fn load(&self) -> Result<Option<ClusterPosition>, ClusterMemoryError>;

    /// Replaces the record durably, as a whole or not at all.
    ///
    /// # Errors
    /// If it cannot be written.
    fn store(&self, position: &ClusterPosition) -> Result<(), ClusterMemoryError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cluster: &str, epoch: u64, revision: u64, index: u64) -> ClusterPosition {
        let term = Term { epoch, revision };
        let leader = format!("leader-{revision}");
        ClusterPosition { cluster_id: cluster.to_owned(), term, index, leader }
    }

    #[test]
    fn only_a_position_of_the_same_cluster_that_is_nowhere_lower_follows() {
        let known = at("c1", 2, 7, 100);
        for follows in [at("c1", 2, 7, 100), at("c1", 2, 8, 100), at("c1", 3, 1, 101)] {
            assert!(follows.follows(&known), "{follows:?}");
        }
        for stays in
            [at("c2", 2, 7, 100), at("c1", 1, 9, 101), at("c1", 2, 6, 101), at("c1", 3, 1, 99)]
        {
            assert!(!stays.follows(&known), "{stays:?}");
        }
        let restored = ClusterPosition { leader: "another".to_owned(), ..at("c1", 2, 7, 200) };
        assert!(!restored.follows(&known));
    }
}
