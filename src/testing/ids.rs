//! Deterministic IDs and jitter.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nomad_csi_ports::IdSource;

/// An ID source that counts. A clone shares the counter.
#[derive(Clone, Debug, Default)]
pub struct CountingIds {
    next: Arc<AtomicU64>,
}

impl CountingIds {
    /// Creates a source whose first ID contains `seed`, the next `seed + 1`.
    pub fn from(seed: u64) -> Self {
        Self { next: Arc::new(AtomicU64::new(seed)) }
    }
}

impl IdSource for CountingIds {
    /// Returns a valid version 4 UUID that ends in the count: `00000000-0000-4000-8000-000000000007`.
    fn uuid(&self) -> String {
        let count = self.next.fetch_add(1, Ordering::SeqCst) & 0xffff_ffff_ffff;
        format!("00000000-0000-4000-8000-{count:012x}")
    }

    /// Always returns 0.5.
    fn jitter(&self) -> f64 {
        0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counted_ids_are_unique_valid_uuids() {
        let ids = CountingIds::from(15);
        let same = ids.clone();
        let made = [ids.uuid(), same.uuid(), ids.uuid()];
        for (id, end) in made.iter().zip(["00000f", "000010", "000011"]) {
            assert!(id.ends_with(end), "{id}");
            assert!(uuid::Uuid::parse_str(id).is_ok(), "{id}");
        }
    }
}
