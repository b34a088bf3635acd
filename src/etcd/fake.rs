//! An etcd in memory: linearizable, with leases, and with answers that are lost. It can be read at any revision.
//!
//! A lost answer has three forms: the request was carried out, it was not, or it is later, after requests that were sent
//! after it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use crate::api::{
    Condition, Etcd, KeyValue, Lease, MemberStatus, Operation, Range, RangeAnswer, Transaction,
    TransactionAnswer,
};
use crate::error::{EtcdError, EtcdErrorKind};

/// A fault of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is carried out, and its answer is lost.
    AnswerLost,
    /// It is not carried out, and there is no answer.
    RequestLost,
    /// There is no answer, and it is carried out after so many transactions that follow.
    Late(u32),
    /// It is refused: there is no space.
    NoSpace,
}

/// An etcd in memory. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct FakeEtcd(Arc<Mutex<Content>>);

#[derive(Clone, Debug, Default)]
struct Content {
    keys: BTreeMap<Vec<u8>, KeyValue>,
    /// Every key as each change left it, by the revision of the change.
    changes: BTreeMap<Vec<u8>, Vec<(i64, Option<KeyValue>)>>,
    revision: i64,
    leases: BTreeMap<i64, i64>,
    next_lease: i64,
    faults: VecDeque<Option<Fault>>,
    late: Vec<(u32, Transaction)>,
    transactions: usize,
    members: Vec<MemberStatus>,
    has_alarm: bool,
    reads: usize,
    is_silent: bool,
}

impl FakeEtcd {
    /// Returns another etcd with the same content, as a backup has it.
    #[must_use]
    pub fn copy(&self) -> Self {
        Self(Arc::new(Mutex::new(self.content().clone())))
    }

    /// Gives the next transactions these faults, in order; `None` is none.
    pub fn fault_next(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.content().faults.extend(faults);
    }

    /// Returns the number of transactions so far.
    pub fn transactions(&self) -> usize {
        self.content().transactions
    }

    /// Returns the number of reads so far.
    pub fn reads(&self) -> usize {
        self.content().reads
    }

    /// Answers no read, or answers again.
    pub fn set_silent(&self, is_silent: bool) {
        self.content().is_silent = is_silent;
    }

    /// Ends a lease, as etcd does when it was not renewed, and removes its keys.
    pub fn expire(&self, lease: i64) {
        self.content().end_lease(lease);
    }

    /// Ends all leases.
    pub fn expire_all(&self) {
        let leases: Vec<_> = self.content().leases.keys().copied().collect();
        for lease in leases {
            self.expire(lease);
        }
    }

    /// Carries out all late transactions now.
    pub fn deliver_late(&self) {
        let mut content = self.content();
        for (_, transaction) in std::mem::take(&mut content.late) {
            content.carry_out(&transaction);
        }
    }

    /// Returns all keys with their values.
    pub fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let content = self.content();
        content.keys.iter().map(|(key, kv)| (key.clone(), kv.value.clone())).collect()
    }

    /// Replaces the value of a key.
    pub fn overwrite(&self, key: &[u8], value: Vec<u8>) {
        let mut content = self.content();
        content.revision += 1;
        content.put(key.to_vec(), value, 0);
    }

    /// Removes a key.
    pub fn remove(&self, key: &[u8]) {
        let mut content = self.content();
        content.revision += 1;
        content.retain(|one, _| one != key);
    }

    /// Sets what members say, and whether there is an alarm.
    pub fn set_space(&self, members: Vec<MemberStatus>, has_alarm: bool) {
        let mut content = self.content();
        (content.members, content.has_alarm) = (members, has_alarm);
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock()
    }
}

impl Content {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>, lease: i64) {
        let known = self.keys.get(&key).map(|kv| kv.create_revision);
        let create_revision = known.unwrap_or(self.revision);
        let kv = KeyValue { key: key.clone(), create_revision, value, lease };
        self.changes.entry(key.clone()).or_default().push((self.revision, Some(kv.clone())));
        self.keys.insert(key, kv);
    }

    fn retain(&mut self, is_kept: impl Fn(&[u8], &KeyValue) -> bool) {
        let (revision, changes) = (self.revision, &mut self.changes);
        self.keys.retain(|key, kv| {
            let is_kept = is_kept(key, kv);
            if !is_kept {
                changes.entry(key.clone()).or_default().push((revision, None));
            }
            is_kept
        });
    }

    /// Returns the keys of a range at a revision.
    fn at(&self, range: &Range) -> Vec<KeyValue> {
        let within = range.from.clone()..range.to.clone();
        if range.revision == 0 {
            return self.keys.range(within).map(|(_, kv)| kv.clone()).collect();
        }
        let changes = self.changes.range(within);
        let then = changes.filter_map(|(_, changes)| {
            let before = changes.iter().take_while(|(revision, _)| *revision <= range.revision);
            before.last()?.1.clone()
        });
        then.collect()
    }

    fn end_lease(&mut self, lease: i64) {
        if self.leases.remove(&lease).is_some() {
            self.revision += 1;
            self.retain(|_, kv| kv.lease != lease);
        }
    }

    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Created(key, revision) => {
                self.keys.get(key).map_or(0, |kv| kv.create_revision) == *revision
            }
            Condition::Value(key, value) => self.keys.get(key).is_some_and(|kv| kv.value == *value),
        }
    }

    fn carry_out(&mut self, transaction: &Transaction) -> Option<TransactionAnswer> {
        let succeeded = transaction.conditions.iter().all(|condition| self.holds(condition));
        let operations = match succeeded {
            true => &transaction.success,
            false => &transaction.failure,
        };
        let is_lost = |operation: &&Operation| match operation {
            Operation::Put { lease, .. } => *lease != 0 && !self.leases.contains_key(lease),
            Operation::Get { .. } | Operation::Delete { .. } => false,
        };
        if operations.iter().any(|operation| is_lost(&operation)) {
            return None;
        }
        if operations.iter().any(|operation| !matches!(operation, Operation::Get { .. })) {
            self.revision += 1;
        }
        let mut found = vec![];
        for operation in operations {
            match operation.clone() {
                Operation::Put { key, value, lease } => self.put(key, value, lease),
                Operation::Get { key } => found.push(self.keys.get(&key).cloned()),
                Operation::Delete { from, to } => {
                    self.retain(|key, _| key < from.as_slice() || key >= to.as_slice());
                }
            }
        }
        Some(TransactionAnswer { succeeded, revision: self.revision, found })
    }

    fn deliver_due(&mut self) {
        let mut rest = vec![];
        for (after, transaction) in std::mem::take(&mut self.late) {
            match after {
                0 => drop(self.carry_out(&transaction)),
                _ => rest.push((after - 1, transaction)),
            }
        }
        self.late = rest;
    }
}

fn failed(kind: EtcdErrorKind) -> EtcdError {
    EtcdError { kind, member: "memory".to_owned(), reason: format!("an injected fault: {kind:?}") }
}

#[async_trait]
impl Etcd for FakeEtcd {
    fn addresses(&self) -> String {
        "memory".to_owned()
    }

    async fn transact(&self, transaction: Transaction) -> Result<TransactionAnswer, EtcdError> {
        tokio::task::yield_now().await;
        let mut content = self.content();
        content.transactions += 1;
        let fault = content.faults.pop_front().flatten();
        let answer = match fault {
            None => content.carry_out(&transaction).ok_or(failed(EtcdErrorKind::NoLease)),
            Some(Fault::AnswerLost) => {
                content.carry_out(&transaction);
                Err(failed(EtcdErrorKind::Unknown))
            }
            Some(Fault::RequestLost) => Err(failed(EtcdErrorKind::Unknown)),
            Some(Fault::Late(after)) => {
                content.late.push((after + 1, transaction));
                Err(failed(EtcdErrorKind::Unknown))
            }
            Some(Fault::NoSpace) => Err(failed(EtcdErrorKind::NoSpace)),
        };
        content.deliver_due();
        answer
    }

    async fn range(&self, range: Range) -> Result<RangeAnswer, EtcdError> {
        tokio::task::yield_now().await;
        let mut content = self.content();
        content.reads += 1;
        if content.is_silent {
            return Err(failed(EtcdErrorKind::Unknown));
        }
        let mut kvs = content.at(&range);
        let limit = usize::try_from(range.limit).unwrap_or_default();
        let more = limit != 0 && kvs.len() > limit;
        if more {
            kvs.truncate(limit);
        }
        if range.keys_only {
            kvs.iter_mut().for_each(|kv| kv.value.clear());
        }
        Ok(RangeAnswer { kvs, more, revision: content.revision })
    }

    async fn compact(&self, _revision: i64) -> Result<(), EtcdError> {
        Ok(())
    }

    async fn grant(&self, seconds: i64) -> Result<Lease, EtcdError> {
        let mut content = self.content();
        content.next_lease += 1;
        let id = content.next_lease;
        content.leases.insert(id, seconds);
        Ok(Lease { id, seconds })
    }

    async fn keep_alive(&self, lease: i64) -> Result<i64, EtcdError> {
        Ok(self.content().leases.get(&lease).copied().unwrap_or_default())
    }

    async fn revoke(&self, lease: i64) -> Result<(), EtcdError> {
        self.content().end_lease(lease);
        Ok(())
    }

    async fn status(&self) -> Vec<MemberStatus> {
        self.content().members.clone()
    }

    async fn has_no_space_alarm(&self) -> Result<bool, EtcdError> {
        Ok(self.content().has_alarm)
    }

    async fn defragment(&self, member: &str) -> Result<(), EtcdError> {
        let mut content = self.content();
        for one in content.members.iter_mut().filter(|one| one.member == member) {
            one.size /= 2;
        }
        Ok(())
    }

    async fn disarm(&self) -> Result<(), EtcdError> {
        self.content().has_alarm = false;
        Ok(())
    }
}
