//! A ledger in memory, with check-and-set, locks and injected failures.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use crate::ports::ledger::{Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_plan::{SetName, ShardChange, StoredSet};

/// A fault of one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerFault {
    /// The changes are made, but the reply is lost.
    ReplyLost,
    /// Only the first change is made; then another command interferes.
    ConflictAfterFirst,
    /// The ledger is unavailable.
    Unavailable,
}

/// A ledger in memory. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryLedger(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    revision: u64,
    sets: BTreeMap<SetName, StoredSet>,
    locks: BTreeMap<SetName, (u64, LockHolder)>,
    faults: VecDeque<LedgerFault>,
}

impl MemoryLedger {
    /// Makes the next writes fail, in this order.
    pub(crate) fn fail_next(&self, faults: &[LedgerFault]) {
        self.content().faults.extend(faults);
    }

    /// Expires all locks.
    pub(crate) fn expire_locks(&self) {
        self.content().locks.clear();
    }

    /// Returns whether the set is locked.
    pub(crate) fn is_locked(&self, set: &SetName) -> bool {
        self.content().locks.contains_key(set)
    }

    /// Returns the text of every shard, so a test can search it for secrets.
    pub(crate) fn texts(&self) -> Vec<String> {
        let content = self.content();
        let shards = content.sets.values().flat_map(|set| set.shards.values());
        shards.map(|shard| shard.text.clone()).collect()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock()
    }
}

impl Content {
    fn change(&mut self, set: &SetName, change: &ShardChange) -> Result<u64, LedgerError> {
        let stored = self.sets.entry(set.clone()).or_default();
        let now = stored.shards.get(&change.shard).map(|shard| shard.revision);
        if now != change.expected {
            return Err(LedgerError::conflict(set));
        }
        self.revision += 1;
        stored.record(change.clone(), self.revision);
        Ok(self.revision)
    }
}

fn failed(failure: LedgerFailure, code: Code) -> LedgerError {
    LedgerError::new(
        failure,
        code,
        "the ledger in memory failed because of an injected fault".to_owned(),
    )
}

#[async_trait]
impl Ledger for MemoryLedger {
    fn name(&self) -> &str {
        "the ledger in memory"
    }

    fn is_on_server(&self) -> bool {
        true
    }

    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError> {
        Ok(self.content().sets.keys().cloned().collect())
    }

    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        Ok(self.content().sets.get(set).cloned().unwrap_or_default())
    }

    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: Vec<ShardChange>,
    ) -> Result<(), LedgerError> {
        let mut content = self.content();
        let fault = content.faults.pop_front();
        let arriving = match fault {
            None | Some(LedgerFault::ReplyLost) => changes.len(),
            Some(LedgerFault::ConflictAfterFirst) => changes.len().min(1),
            Some(LedgerFault::Unavailable) => 0,
        };
        for change in changes.into_iter().take(arriving) {
            let revision = content.change(set, &change)?;
            if fault.is_none() {
                stored.record(change, revision);
            }
        }
        match fault {
            None => Ok(()),
            Some(LedgerFault::ReplyLost) => {
                Err(failed(LedgerFailure::OutcomeUnknown, Code::ApiOutcomeUnknown))
            }
            Some(LedgerFault::ConflictAfterFirst) => Err(LedgerError::conflict(set)),
            Some(LedgerFault::Unavailable) => {
                Err(failed(LedgerFailure::Unavailable, Code::ApiConnectionLost))
            }
        }
    }

    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let mut content = self.content();
        if let Some((_, other)) = content.locks.get(set) {
            return Err(LedgerError::locked(set, Some(other.clone())));
        }
        content.revision += 1;
        let id = content.revision;
        content.locks.insert(set.clone(), (id, holder.clone()));
        Ok(Box::new(MemoryLock { ledger: self.clone(), set: set.clone(), id }))
    }

    async fn release_ended(&self, set: &SetName, holder: &LockHolder) -> Result<(), LedgerError> {
        let mut content = self.content();
        if content.locks.get(set).is_some_and(|(_, now)| now == holder) {
            content.locks.remove(set);
        }
        Ok(())
    }
}

struct MemoryLock {
    ledger: MemoryLedger,
    set: SetName,
    id: u64,
}

impl MemoryLock {
    fn check(&self) -> Result<(), LedgerError> {
        match self.ledger.content().locks.get(&self.set) {
            Some((id, _)) if *id == self.id => Ok(()),
            Some(_) | None => Err(LedgerError::lock_lost(&self.set)),
        }
    }
}

#[async_trait]
impl SetLock for MemoryLock {
    fn time_to_live(&self) -> Option<Duration> {
        Some(Duration::from_secs(15))
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        self.check()
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        self.check()?;
        self.ledger.content().locks.remove(&self.set);
        Ok(())
    }
}
