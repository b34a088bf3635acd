//! [`Term`]: one leadership of one server.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One leadership of one server, in the order of leaderships.
///
/// A server without others has the index at which its journal recorded its start.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Term {
    /// The number of restores of the journal from a backup. It comes first: what was restored counts from a smaller revision.
    pub epoch: u64,
    /// The revision at which the leadership began.
    pub revision: u64,
}

impl Term {
    /// The epoch of a journal in a file. A server refuses to go on with an older copy of it, so it has no other.
    pub const EPOCH_OF_A_FILE: u64 = 0;
    /// The epoch of a journal in etcd that was never restored.
    pub const FIRST_EPOCH_OF_ETCD: u64 = 1;
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.revision)
    }
}
