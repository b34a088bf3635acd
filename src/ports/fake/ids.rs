//! IDs and jitter that are the same in every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ports::ids::IdSource;

/// Counts. A clone goes on where the other is.
#[derive(Clone, Debug, Default)]
pub struct CountingIds {
    next: Arc<AtomicU64>,
}

impl CountingIds {
    /// The first ID is made of `seed`, the next of `seed + 1`.
    pub fn from(seed: u64) -> Self {
        Self {
            next: Arc::new(AtomicU64::new(seed)),
        }
    }
}

impl IdSource for CountingIds {
    /// `00000000-0000-4000-8000-000000000007`: a well-formed version 4 UUID that ends in the count.
    fn uuid(&self) -> String {
        let count = self.next.fetch_add(1, Ordering::SeqCst) & 0xffff_ffff_ffff;
        format!("00000000-0000-4000-8000-{count:012x}")
    }

    /// Always in the middle.
    fn jitter(&self) -> f64 {
        0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_ids_are_uuids_and_never_repeat() {
        let ids = CountingIds::from(15);
        let same = ids.clone();
        let made = [ids.uuid(), same.uuid(), ids.uuid()];
        for (id, end) in made.iter().zip(["00000f", "000010", "000011"]) {
            assert!(id.ends_with(end), "{id}");
            assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
        }
    }
}
