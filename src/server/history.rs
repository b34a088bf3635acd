//! The history of one volume, from the journal.
//!
//! The journal keeps a bounded history and has no index by volume, so all of it is read, some events at a
//! time. Changes wait for one such part at most.

use std::collections::VecDeque;

use super::cell::StateCell;
use crate::journal::JournalError;
use nomad_csi_claims::state::{Event, VolumeHistory};
use nomad_csi_model::NamespacedId;

/// How many events are read at a time.
const EVENTS_PER_READ: usize = 512;

/// Returns the newest events of a volume, at most `limit`, with their indexes, in order.
///
/// # Errors
/// If the journal cannot be read.
pub async fn volume_history(
    cell: &StateCell,
    key: &NamespacedId,
    limit: usize,
) -> Result<Vec<(u64, Event)>, JournalError> {
    let mut newest = VecDeque::new();
    let mut history = None;
    let mut last = 0;
    loop {
        let events = cell.read_events(last, EVENTS_PER_READ).await?;
        let Some((first, (index, _))) = events.first().zip(events.last()) else {
            return Ok(newest.into());
        };
        last = *index;
        let begin = || cell.read(|state| VolumeHistory::new(state, key, first.1.at));
        let history = history.get_or_insert_with(begin);
        for (index, event) in events {
            if !history.contains(&event.kind) {
                continue;
            }
            if newest.len() == limit {
                newest.pop_front();
            }
            newest.push_back((index, event));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cell::{CellOptions, Expected};
    use crate::fake::MemoryJournal;
    use nomad_csi_claims::state::EventKind;
    use nomad_csi_claims::state::samples::{key, registered, started};

    async fn indexes(cell: &StateCell, id: &str, limit: usize) -> Vec<u64> {
        let events = volume_history(cell, &key("default", id), limit).await;
        events.unwrap().into_iter().map(|(index, _)| index).collect()
    }

    #[tokio::test]
    async fn the_newest_events_of_a_volume_are_found_also_behind_a_snapshot() {
        let options = CellOptions { snapshot_every: 3, ..CellOptions::default() };
        let journal = Arc::new(MemoryJournal::default());
        let cell = StateCell::open(journal, options).await.unwrap();
        let (db, web) = (key("default", "db"), key("default", "web"));
        let removed = || EventKind::VolumeDeregistered { key: db.clone() };
        let mut kinds = vec![started(), registered(&web, "2")];
        for _ in 0..400 {
            kinds.extend([registered(&db, "1"), removed()]);
        }
        for (at, kind) in (1..).zip(kinds) {
            cell.commit(Expected::Any, Event::new(at, kind)).await.unwrap();
        }
        assert_eq!(indexes(&cell, "web", 9).await, [3]);
        assert_eq!(indexes(&cell, "db", 3).await, [801, 802, 803]);
        assert_eq!(indexes(&cell, "db", 2000).await, Vec::from_iter(4..=803));
        assert!(indexes(&cell, "none", 9).await.is_empty());
        cell.stop().await;
    }
}
