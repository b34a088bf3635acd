//! Writing a set of the snapshot.

use tokio::time::{Instant, sleep};

use super::{Failure, Shared};
use crate::manifest::Manifest;
use crate::snapshot_set::encode_set;
use nomad_csi_claims::state::SnapshotChanges;
use nomad_csi_server::NextSnapshot;

impl Shared {
    pub(super) async fn write_set(&self, changes: SnapshotChanges) -> Result<NextSnapshot, Failure> {
        let before = self.manifest.lock().clone();
        let index = changes.numbers.index;
        if before.index().is_some_and(|last| last >= index) {
            return Ok(before.next());
        }
        if !changes.is_complete && before.sets.is_empty() {
            return Err(Failure::NothingToChange);
        }
        let encoded = tokio::task::spawn_blocking(move || encode_set(&changes)).await?;
        let (entry, chunks) = encoded?;
        for (number, chunk) in (0..).zip(chunks) {
            let begun = Instant::now();
            self.put(self.keys.chunk(index, number), chunk).await?;
            // Appends wait for a chunk; so that they do not wait half of the time, it rests as long.
            sleep(begun.elapsed()).await;
        }
        let manifest = before.with(entry);
        let value = serde_json::to_vec(&manifest).map_err(|_| Failure::Key("snapshots"))?;
        self.put(self.keys.snapshots(), value).await?;
        let next = manifest.next();
        *self.manifest.lock() = manifest.clone();
        self.trim(&manifest).await?;
        Ok(next)
    }

    /// Removes what the snapshot replaces.
    async fn trim(&self, manifest: &Manifest) -> Result<(), Failure> {
        self.remove_other_sets(manifest).await?;
        let covered = manifest.index().unwrap_or_default().saturating_sub(self.history);
        self.remove_log_up_to(covered).await
    }
}
