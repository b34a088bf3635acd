//! [`MeasuredJournal`]: a journal whose writes are measured.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;

use nomad_csi_claims::state::{Event, SnapshotChanges};
use nomad_csi_ports::Measurements;
use nomad_csi_server::{Journal, JournalError, NextSnapshot, Replay};

/// Another journal, and what measures it.
pub(super) struct MeasuredJournal<J> {
    journal: J,
    measurements: Arc<dyn Measurements>,
}

impl<J> MeasuredJournal<J> {
    /// Measures the writes of this journal.
    pub(super) fn new(journal: J, measurements: Arc<dyn Measurements>) -> Self {
        Self { journal, measurements }
    }
}

#[async_trait]
impl<J: Journal> Journal for MeasuredJournal<J> {
    fn place(&self) -> String {
        self.journal.place()
    }

    fn is_full(&self) -> bool {
        self.journal.is_full()
    }

    fn wants_snapshot(&self) -> bool {
        self.journal.wants_snapshot()
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        self.journal.load().await
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        let (begun, number) = (Instant::now(), events.len());
        let written = self.journal.append(first, events).await;
        self.measurements.journal_write(number, written.is_ok(), begun.elapsed());
        written
    }

    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        self.journal.read_events(after, limit).await
    }

    async fn write_snapshot(&self, changes: SnapshotChanges) -> Result<NextSnapshot, JournalError> {
        let begun = Instant::now();
        let written = self.journal.write_snapshot(changes).await;
        self.measurements.snapshot_write(written.is_ok(), begun.elapsed());
        written
    }

    async fn close(&self) -> Result<(), JournalError> {
        self.journal.close().await
    }
}
