//! The allocations and nodes that a person approved to cut off.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Allocations and nodes, by their full IDs, of which a person says that they write no more: `--approve cuts-off:ID`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CutOffs(BTreeSet<String>);

impl CutOffs {
    /// Returns whether the allocation or node of this full ID was approved.
    pub fn allow(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// Returns whether nothing was approved.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The full IDs.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Adds other approvals.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }
}

impl<T: Into<String>> FromIterator<T> for CutOffs {
    fn from_iter<I: IntoIterator<Item = T>>(ids: I) -> Self {
        Self(ids.into_iter().map(Into::into).collect())
    }
}
