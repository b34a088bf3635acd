//! [`Reader`]: the snapshot and the log, all at one revision of etcd.

use std::sync::Arc;

use crate::api::{Etcd, KeyValue, Range, after_key, read_key};
use crate::batch::{BatchError, BatchHeader};
use crate::error::{EtcdError, EtcdErrorKind};
use crate::failure::{FORMAT, Failure};
use crate::keys::{Keys, decoded_index};
use crate::manifest::{Manifest, SetEntry};
use crate::snapshot_set::{SetError, decode_sets};
use nomad_csi_claims::state::{Event, State, StateSnapshot};
use nomad_csi_server::{NextSnapshot, Replay};

/// How often a load is begun again, when what it reads is compacted or etcd does not answer.
const ATTEMPTS: usize = 5;
/// The fewest and the most batches in one answer.
const FEWEST: i64 = 8;
const MOST: i64 = 512;
/// Answers with fewer bytes are asked for more batches.
const SMALL_ANSWER: usize = 1 << 20;
/// The chunks in one answer: 4 MiB.
const CHUNKS: i64 = 32;
/// The most events of a batch, as far as a search for it goes in one step.
const LOOKBACK: u64 = 1024;

/// Reads what leaders have written. Clones read the same.
#[derive(Clone)]
pub(crate) struct Reader {
    pub(crate) etcd: Arc<dyn Etcd>,
    pub(crate) keys: Keys,
}

/// Everything that is there.
pub(crate) struct Loaded {
    pub(crate) replay: Replay,
    pub(crate) manifest: Manifest,
    /// Whether the keys have a mark of their layout.
    pub(crate) has_format: bool,
}

impl Reader {
    /// Returns where it reads, for messages.
    pub(crate) fn place(&self) -> String {
        format!("{} {}", self.etcd.addresses(), self.keys.prefix())
    }

    /// Reads one key; the latest revision for 0.
    pub(crate) async fn read(
        &self,
        key: Vec<u8>,
        revision: i64,
    ) -> Result<(Option<KeyValue>, i64), EtcdError> {
        read_key(self.etcd.as_ref(), key, revision).await
    }

    pub(crate) async fn load(&self) -> Result<Loaded, Failure> {
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.load_once().await {
                Err(Failure::Etcd(error))
                    if attempt < ATTEMPTS
                        && matches!(
                            error.kind,
                            EtcdErrorKind::Unknown | EtcdErrorKind::Compacted
                        ) =>
                {
                    tracing::warn!(%error, "the journal is read again");
                }
                loaded => return loaded,
            }
        }
    }

    /// Refuses the layout of a later version. Returns whether there is a mark of the layout, and the revision at which it was
    /// read.
    pub(crate) async fn check_format(&self) -> Result<(bool, i64), Failure> {
        let (format, revision) = self.read(self.keys.format(), 0).await?;
        match format {
            Some(found) if found.value != FORMAT.as_bytes() => {
                Err(Failure::Format(String::from_utf8_lossy(&found.value).into_owned()))
            }
            found => Ok((found.is_some(), revision)),
        }
    }

    async fn load_once(&self) -> Result<Loaded, Failure> {
        let (has_format, revision) = self.check_format().await?;
        let (manifest, _) = self.read(self.keys.snapshots(), revision).await?;
        let manifest = Manifest::read(manifest.as_ref()).ok_or(Failure::Key("snapshots"))?;
        let snapshot = self.load_sets(&manifest, revision).await?;
        let head = match self.head_at(revision).await? {
            (Some(head), _) => head,
            (None, _) if manifest.sets.is_empty() => State::FIRST_INDEX,
            (None, _) => return Err(Failure::NoHead),
        };
        let after = manifest.index().unwrap_or(State::FIRST_INDEX);
        let events = self.load_log(after, head, revision).await?;
        let accepts_changes = manifest.next() == NextSnapshot::Changes;
        let replay = Replay { snapshot, accepts_changes, events };
        Ok(Loaded { replay, manifest, has_format })
    }

    /// Returns the index of the last event at this revision, if there is one; at the latest for 0, linearizably. Returns the
    /// revision, too.
    pub(crate) async fn head_at(&self, revision: i64) -> Result<(Option<u64>, i64), Failure> {
        let (head, revision) = self.read(self.keys.head(), revision).await?;
        let head = head.map(|kv| decoded_index(&kv.value).ok_or(Failure::Key("head")));
        Ok((head.transpose()?, revision))
    }

    /// Returns some of the events after this index, which is the end of a batch, at a revision at which there are some; `None`
    /// if they are not there any more.
    pub(crate) async fn events_after(
        &self,
        after: u64,
        revision: i64,
    ) -> Result<Option<Vec<Event>>, Failure> {
        let mut limit = FEWEST;
        let batches = self.page(&self.keys.log(after + 1), &mut limit, revision).await?;
        let mut events = vec![];
        for batch in &batches {
            let (first, more) = self.read_batch(batch, revision).await?;
            if first != after + 1 + events.len() as u64 {
                break;
            }
            events.extend(more);
        }
        Ok((!events.is_empty()).then_some(events))
    }

    async fn load_sets(
        &self,
        manifest: &Manifest,
        revision: i64,
    ) -> Result<Option<StateSnapshot>, Failure> {
        let mut sets = vec![];
        for entry in &manifest.sets {
            sets.push((entry.clone(), self.load_set(entry, revision).await?));
        }
        Ok(tokio::task::spawn_blocking(move || decode_sets(&sets)).await??)
    }

    async fn load_set(&self, entry: &SetEntry, revision: i64) -> Result<Vec<u8>, Failure> {
        let (mut from, to) = self.keys.chunks_of(entry.index);
        let (mut bytes, mut number) = (vec![], 0);
        loop {
            let range = Range { from, to: to.clone(), limit: CHUNKS, revision, keys_only: false };
            let answer = self.etcd.range(range).await?;
            let Some(last) = answer.kvs.last() else {
                break;
            };
            from = after_key(&last.key);
            for chunk in answer.kvs {
                if chunk.key != self.keys.chunk(entry.index, number) {
                    return Err(SetError::Damaged { index: entry.index }.into());
                }
                number += 1;
                bytes.extend(chunk.value);
            }
            if !answer.more {
                break;
            }
        }
        match number == entry.chunks {
            true => Ok(bytes),
            false => Err(SetError::Damaged { index: entry.index }.into()),
        }
    }

    /// Reads the events after this index, up to the end of the log.
    async fn load_log(&self, after: u64, head: u64, revision: i64) -> Result<Vec<Event>, Failure> {
        let mut events = vec![];
        let mut last = after;
        let mut from = self.keys.log(after + 1);
        let mut limit = FEWEST;
        while last < head {
            let batches = self.page(&from, &mut limit, revision).await?;
            let Some(end) = batches.last() else {
                return Err(Failure::Short { found: last, head });
            };
            from = after_key(&end.key);
            for batch in &batches {
                let (first, more) = self.read_batch(batch, revision).await?;
                if first != last + 1 {
                    return Err(BatchError::Damaged { first: last + 1 }.into());
                }
                last += more.len() as u64;
                events.extend(more);
            }
        }
        match last == head {
            true => Ok(events),
            false => Err(Failure::Short { found: last, head }),
        }
    }

    /// Reads some batches from this key on. `limit` follows their size.
    async fn page(
        &self,
        from: &[u8],
        limit: &mut i64,
        revision: i64,
    ) -> Result<Vec<KeyValue>, Failure> {
        loop {
            let (from, to) = (from.to_vec(), self.keys.log_end());
            let range = Range { from, to, limit: *limit, revision, keys_only: false };
            match self.etcd.range(range).await {
                Ok(answer) => {
                    let bytes: usize = answer.kvs.iter().map(|kv| kv.value.len()).sum();
                    if bytes < SMALL_ANSWER {
                        *limit = (*limit * 4).min(MOST);
                    }
                    return Ok(answer.kvs);
                }
                Err(EtcdError { kind: EtcdErrorKind::TooLarge, .. }) if *limit > FEWEST => {
                    *limit = FEWEST;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the index of the first event of a batch, and its events.
    async fn read_batch(
        &self,
        batch: &KeyValue,
        revision: i64,
    ) -> Result<(u64, Vec<Event>), Failure> {
        let first = self.keys.first_of_log(&batch.key).ok_or(Failure::Key("log/"))?;
        let (header, events) = BatchHeader::read(first, &batch.value)?;
        if header.pieces == 0 {
            return Ok((first, header.events(events)?));
        }
        let mut joined = vec![];
        for number in 0..header.pieces {
            let (piece, _) = self.read(self.keys.part(first, header.id, number), revision).await?;
            let piece = piece.ok_or(BatchError::Damaged { first })?;
            joined.extend(piece.value);
        }
        Ok((first, header.events(&joined)?))
    }

    /// Returns up to `limit` events after this index.
    pub(crate) async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, Failure> {
        let mut from = self.keys.log(self.batch_of(after.saturating_add(1)).await?);
        let mut found = vec![];
        let mut pages = FEWEST;
        while found.len() < limit {
            let batches = self.page(&from, &mut pages, 0).await?;
            let Some(end) = batches.last() else {
                break;
            };
            from = after_key(&end.key);
            for batch in &batches {
                let (first, events) = self.read_batch(batch, 0).await?;
                found.extend((first..).zip(events).filter(|(index, _)| *index > after));
                if found.len() >= limit {
                    break;
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Returns the first index of the batch that has this event, or would.
    pub(crate) async fn batch_of(&self, index: u64) -> Result<u64, Failure> {
        let mut back = LOOKBACK;
        loop {
            let start = index.saturating_sub(back);
            let (from, to) = (self.keys.log(start), after_key(&self.keys.log(index)));
            let range = Range { from, to, keys_only: true, ..Range::default() };
            let keys = self.etcd.range(range).await?.kvs;
            if let Some(last) = keys.last() {
                return self.keys.first_of_log(&last.key).ok_or(Failure::Key("log/"));
            }
            if start == 0 {
                return Ok(index);
            }
            back = back.saturating_mul(8);
        }
    }
}
