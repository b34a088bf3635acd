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

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.revision)
    }
}
