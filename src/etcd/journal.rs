//! [`EtcdJournal`]: the journal of several servers.
//!
//! **An append is one transaction.** It requires the key of the leader, as it was created, and the end of the log. So a deposed
//! leader writes nothing, and the log has no gap.
//!
//! **A lost answer** is repeated until its end is known or the leadership is over: the same bytes under the same index, which
//! are the only ones that this leader ever sends there. Reading is not enough: a request that is under way may be carried out
//! after a reading that did not find it; the repeated transaction decides, because etcd orders both. An append that ends
//! otherwise is the last one: nothing follows [`NotLeader`](JournalErrorKind::NotLeader) or
//! [`OutcomeUnknown`](JournalErrorKind::OutcomeUnknown).
//!
//! **Snapshots** are chains of sets (`manifest`). The chunks of a set are written one after the other with rests, and count
//! with one transaction. Only the leader writes, so everything that no manifest names is left over and is removed.

mod append;
mod maintain;
mod trim;
mod write_set;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::{Condition, Etcd};
use crate::batch::BatchId;
use crate::failure::{FORMAT, Failure};
use crate::keys::Keys;
use crate::leadership::Leadership;
use crate::manifest::Manifest;
use crate::reader::{Loaded, Reader};
use crate::space::Space;
use nomad_csi_claims::state::{Event, SnapshotChanges, is_growth};
use nomad_csi_server::{Journal, JournalError, NextSnapshot, Replay};

/// How many of the events that a snapshot replaces are kept.
const HISTORY_EVENTS: u64 = 100_000;
/// The time between two snapshots that are written because space is short.
const SHORT_OF_SPACE: Duration = Duration::from_secs(60);

/// The journal of a leader in etcd. Clones share their state.
#[derive(Clone)]
pub struct EtcdJournal(Arc<Shared>);

struct Shared {
    reader: Reader,
    leadership: Arc<Leadership>,
    /// The bytes that etcd may use, for members that do not say theirs.
    quota: Option<u64>,
    /// How many of the events that a snapshot replaces are kept.
    history: u64,
    /// The number of the next batch.
    next: AtomicU64,
    /// Whether an append ended so that nothing may follow.
    is_over: AtomicBool,
    /// Ends a repetition of which the end is not known.
    given_up: CancellationToken,
    manifest: Mutex<Manifest>,
    space: Mutex<Space>,
    /// The bytes that were appended since the space was measured.
    appended: AtomicU64,
    /// Wakes the measurement before it is due.
    has_grown: Notify,
    snapshot_at: Mutex<Option<Instant>>,
}

impl EtcdJournal {
    /// Returns the journal below these keys, for the server that leads. `quota` is what etcd may use, for members that do not
    /// say theirs.
    pub fn new(
        etcd: Arc<dyn Etcd>,
        keys: Keys,
        leadership: Arc<Leadership>,
        quota: Option<u64>,
    ) -> Self {
        Self(Arc::new(Shared {
            reader: Reader { etcd, keys },
            leadership,
            quota,
            history: HISTORY_EVENTS,
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            given_up: CancellationToken::new(),
            manifest: Mutex::default(),
            space: Mutex::default(),
            appended: AtomicU64::new(0),
            has_grown: Notify::new(),
            snapshot_at: Mutex::default(),
        }))
    }

    /// Ends a repetition of which the end is not known: its change is then of unknown outcome, and nothing follows.
    pub fn give_up(&self) {
        self.0.given_up.cancel();
    }

    /// Ties the cluster to the key that seals its secrets, by a text that only this key gives: the first server writes it.
    ///
    /// # Errors
    /// If etcd does not answer, or another server leads. `Ok(false)` is another key.
    pub async fn has_key(&self, fingerprint: &str) -> Result<bool, JournalError> {
        self.described("read", self.0.has_key(fingerprint).await)
    }

    /// Writes a state as the first content of the cluster, with the index that it has.
    ///
    /// # Errors
    /// If there is content, or it cannot be written. Nothing counts then.
    pub async fn begin_with(&self, state: SnapshotChanges) -> Result<(), JournalError> {
        self.described("write a snapshot to", self.0.begin_with(state).await)
    }

    /// Looks after etcd until `stop`: its space, and what it need not remember.
    pub async fn maintain(&self, stop: CancellationToken) {
        self.0.maintain(stop).await;
    }

    /// Returns how much space etcd had when it was asked last.
    pub fn space(&self) -> Space {
        *self.0.space.lock()
    }

    /// Keeps this many of the events that a snapshot replaces.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn with_history(mut self, history: u64) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            shared.history = history;
        }
        self
    }

    fn described<T>(
        &self,
        operation: &'static str,
        result: Result<T, Failure>,
    ) -> Result<T, JournalError> {
        result.map_err(|failure| failure.described(operation, self.place()))
    }
}

impl Shared {
    /// Returns the identity of the next batch.
    fn next_id(&self) -> BatchId {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        BatchId { term: self.leadership.term(), number }
    }

    /// Returns the condition that this server leads.
    fn leads(&self) -> Condition {
        Condition::Created(self.reader.keys.leader(), self.leadership.revision())
    }

    /// Reads everything, and marks keys that have no mark of their layout.
    async fn load(&self) -> Result<Replay, Failure> {
        let Loaded { replay, manifest, has_format } = self.reader.load().await?;
        if !has_format {
            self.mark_format().await?;
        }
        *self.manifest.lock() = manifest;
        Ok(replay)
    }

    async fn mark_format(&self) -> Result<i64, Failure> {
        self.put(self.reader.keys.format(), FORMAT.into()).await
    }

    async fn has_key(&self, fingerprint: &str) -> Result<bool, Failure> {
        let key = self.reader.keys.key_fingerprint();
        if let (Some(found), _) = self.reader.read(key.clone(), 0).await? {
            return Ok(found.value == fingerprint.as_bytes());
        }
        self.put(key, fingerprint.into()).await?;
        Ok(true)
    }

    /// Remembers that nothing may follow, and that the leadership is over.
    fn end(&self) {
        self.is_over.store(true, Ordering::Release);
        self.leadership.lost().cancel();
    }
}

#[async_trait]
impl Journal for EtcdJournal {
    fn place(&self) -> String {
        self.0.reader.place()
    }

    fn is_full(&self) -> bool {
        self.space() == Space::Full
    }

    fn wants_snapshot(&self) -> bool {
        let is_recent = self.0.snapshot_at.lock().is_some_and(|at| at.elapsed() < SHORT_OF_SPACE);
        self.space() >= Space::Short && !is_recent
    }

    async fn load(&self) -> Result<Replay, JournalError> {
        self.described("read", self.0.load().await)
    }

    async fn append(&self, first: u64, events: Arc<[Event]>) -> Result<(), JournalError> {
        let is_refused = self.is_full() && is_growth(&events);
        let appended = match is_refused {
            true => Err(Failure::NearlyFull),
            false => self.0.append(first, &events).await,
        };
        self.described("append to", appended)
    }

    async fn read_events(
        &self,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Event)>, JournalError> {
        self.described("read", self.0.reader.read_events(after, limit).await)
    }

    async fn write_snapshot(&self, changes: SnapshotChanges) -> Result<NextSnapshot, JournalError> {
        *self.0.snapshot_at.lock() = Some(Instant::now());
        self.described("write a snapshot to", self.0.write_set(changes).await)
    }

    async fn close(&self) -> Result<(), JournalError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
