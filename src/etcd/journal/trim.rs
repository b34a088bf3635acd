//! Removing what a snapshot has replaced, in transactions of bounded size.

use super::Shared;
use crate::api::{Operation, Range, Transaction, after_key, end_of_removal};
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::space::Space;

/// The chunks that are looked at in one answer.
const CHUNKS: i64 = 1_000;

impl Shared {
    /// Removes what the snapshot replaces, except the newest events. Without space, those go too.
    pub(super) async fn trim(&self, manifest: &Manifest) -> Result<(), Failure> {
        self.remove_other_sets(manifest).await?;
        let is_short = *self.space.lock() >= Space::Short;
        let history = if is_short { 0 } else { self.history };
        let covered = manifest.index().unwrap_or_default().saturating_sub(history);
        let kept = self.reader.batch_of(covered.saturating_add(1)).await?;
        self.remove(self.reader.keys.log(0), self.reader.keys.log(kept)).await?;
        self.remove(self.reader.keys.parts_from(0), self.reader.keys.parts_from(kept)).await
    }

    /// Removes the chunks of sets that do not count.
    async fn remove_other_sets(&self, manifest: &Manifest) -> Result<(), Failure> {
        let (mut from, to) = self.reader.keys.chunks();
        loop {
            let to = to.clone();
            let range = Range { from, to, limit: CHUNKS, keys_only: true, ..Range::default() };
            let answer = self.reader.etcd.range(range).await?;
            let Some(last) = answer.kvs.last() else {
                return Ok(());
            };
            from = after_key(&last.key);
            let mut indexes: Vec<_> = answer
                .kvs
                .iter()
                .filter_map(|kv| self.reader.keys.index_of_chunk(&kv.key))
                .collect();
            indexes.dedup();
            for index in indexes {
                if manifest.sets.iter().all(|set| set.index != index) {
                    let (from, to) = self.reader.keys.chunks_of(index);
                    self.remove(from, to).await?;
                }
            }
        }
    }

    /// Removes all keys of this range.
    async fn remove(&self, mut from: Vec<u8>, to: Vec<u8>) -> Result<(), Failure> {
        while let Some(end) = end_of_removal(self.reader.etcd.as_ref(), &from, &to).await? {
            let removal = Transaction {
                conditions: vec![self.leads()],
                success: vec![Operation::Delete { from, to: end.clone() }],
                failure: vec![],
            };
            self.as_leader(removal).await?;
            from = end;
        }
        Ok(())
    }
}
