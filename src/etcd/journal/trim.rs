//! Removing what a snapshot has replaced, in transactions of bounded size.

use super::load::after_key;
use super::{Failure, Shared};
use crate::api::{Operation, Range, Transaction};
use crate::manifest::Manifest;

/// The most keys that one transaction removes.
const KEYS: i64 = 1_000;

impl Shared {
    /// Removes the batches that end at this index or before, and their pieces.
    pub(super) async fn remove_log_up_to(&self, index: u64) -> Result<(), Failure> {
        let kept = self.batch_of(index.saturating_add(1)).await?;
        self.remove((self.keys.log(0), self.keys.log(kept))).await?;
        self.remove((self.keys.parts_from(0), self.keys.parts_from(kept))).await
    }

    /// Removes the chunks of sets that do not count.
    pub(super) async fn remove_other_sets(&self, manifest: &Manifest) -> Result<(), Failure> {
        let (mut from, to) = self.keys.chunks();
        loop {
            let range = Range { from, to: to.clone(), limit: KEYS, revision: 0, keys_only: true };
            let answer = self.etcd.range(range).await?;
            let Some(last) = answer.kvs.last() else {
                return Ok(());
            };
            from = after_key(&last.key);
            let mut indexes: Vec<_> =
                answer.kvs.iter().filter_map(|kv| self.keys.index_of_chunk(&kv.key)).collect();
            indexes.dedup();
            for index in indexes {
                if manifest.sets.iter().all(|set| set.index != index) {
                    self.remove(self.keys.chunks_of(index)).await?;
                }
            }
            if !answer.more {
                return Ok(());
            }
        }
    }

    /// Removes all keys of this range.
    async fn remove(&self, (mut from, to): (Vec<u8>, Vec<u8>)) -> Result<(), Failure> {
        loop {
            let range = Range {
                from: from.clone(),
                to: to.clone(),
                limit: KEYS,
                revision: 0,
                keys_only: true,
            };
            let answer = self.etcd.range(range).await?;
            let Some(last) = answer.kvs.last() else {
                return Ok(());
            };
            let end = after_key(&last.key);
            let removal = Transaction {
                conditions: vec![self.leads()],
                success: vec![Operation::Delete { from, to: end.clone() }],
                failure: vec![],
            };
            self.as_leader(removal).await?;
            if !answer.more {
                return Ok(());
            }
            from = end;
        }
    }
}
