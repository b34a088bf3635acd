//! Writing a set of the snapshot.

use tokio::time::{Instant, sleep};

use super::Shared;
use crate::api::{Operation, Transaction};
use crate::failure::Failure;
use crate::keys::encoded_index;
use crate::manifest::{Manifest, SetEntry};
use crate::snapshot_set::encode_set;
use nomad_csi_claims::state::SnapshotChanges;
use nomad_csi_server::NextSnapshot;

/// Returns the entry and the chunks of a set.
async fn encode(changes: SnapshotChanges) -> Result<(SetEntry, Vec<Vec<u8>>), Failure> {
    Ok(tokio::task::spawn_blocking(move || encode_set(&changes)).await??)
}

impl Shared {
    pub(super) async fn write_set(
        &self,
        changes: SnapshotChanges,
    ) -> Result<NextSnapshot, Failure> {
        let before = self.manifest.lock().clone();
        let index = changes.numbers.index;
        if before.index().is_some_and(|last| last >= index) {
            return Ok(before.next());
        }
        if !changes.is_complete && before.sets.is_empty() {
            return Err(Failure::NothingToChange);
        }
        let (entry, chunks) = encode(changes).await?;
        self.put_chunks(index, chunks).await?;
        let manifest = before.with(entry);
        let value = serde_json::to_vec(&manifest).map_err(|_| Failure::Key("snapshots"))?;
        self.put(self.reader.keys.snapshots(), value).await?;
        let next = manifest.next();
        *self.manifest.lock() = manifest.clone();
        self.trim(&manifest).await?;
        Ok(next)
    }

    /// Writes a complete set and the end of the log at its index, where nothing has been.
    pub(super) async fn begin_with(&self, changes: SnapshotChanges) -> Result<(), Failure> {
        let (has_format, _) = self.reader.check_format().await?;
        if let (Some(head), _) = self.reader.head_at(0).await? {
            return Err(Failure::NotEmpty(head));
        }
        if !has_format {
            self.mark_format().await?;
        }
        let index = changes.numbers.index;
        let (entry, chunks) = encode(changes).await?;
        self.put_chunks(index, chunks).await?;
        let manifest = Manifest::default().with(entry);
        let value = serde_json::to_vec(&manifest).map_err(|_| Failure::Key("snapshots"))?;
        let put = |key, value| Operation::Put { key, value, lease: 0 };
        let begin = Transaction {
            conditions: vec![self.leads()],
            success: vec![
                put(self.reader.keys.snapshots(), value),
                put(self.reader.keys.head(), encoded_index(index)),
            ],
            failure: vec![],
        };
        self.as_leader(begin).await?;
        *self.manifest.lock() = manifest;
        Ok(())
    }

    async fn put_chunks(&self, index: u64, chunks: Vec<Vec<u8>>) -> Result<(), Failure> {
        for (number, chunk) in (0..).zip(chunks) {
            let begun = Instant::now();
            self.put(self.reader.keys.chunk(index, number), chunk).await?;
            // Appends wait for a chunk; so that they do not wait half of the time, it rests as long.
            sleep(begun.elapsed()).await;
        }
        Ok(())
    }
}
