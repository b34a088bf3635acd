//! The transaction of an append, and the meaning of each answer to it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use super::Shared;
use crate::api::{Condition, KeyValue, Operation, Transaction, TransactionAnswer};
use crate::batch::{Batch, BatchHeader, BatchId};
use crate::error::{EtcdError, EtcdErrorKind};
use crate::failure::Failure;
use crate::keys::{decoded_index, encoded_index};
use nomad_csi_claims::state::{Event, State};

/// The first and the longest pause before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// What is known about a batch after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is durable.
    Done,
    /// It was not written, and never will be.
    NotLeader,
    /// Another server leads, and what is under the index cannot be seen any more or is not ours.
    Unknown,
    /// This server leads, and the log ends elsewhere.
    Gap(u64),
}

/// Returns what an answer says about a batch. `found` is the leader's key, the end of the log, and the batch under the index.
pub(super) fn ended(answer: &TransactionAnswer, id: BatchId, first: u64, leader: i64) -> Appended {
    if answer.succeeded {
        return Appended::Done;
    }
    let found = |at: usize| answer.found.get(at).and_then(Option::as_ref);
    let is_ours = |kv: &KeyValue| {
        BatchHeader::read(first, &kv.value).is_ok_and(|(header, _)| header.id == id)
    };
    // First: a batch that is there counts, whichever server leads by now.
    if found(2).is_some_and(is_ours) {
        return Appended::Done;
    }
    let head = found(1).and_then(|kv| decoded_index(&kv.value));
    let head = head.unwrap_or(State::FIRST_INDEX);
    let leads = found(0).is_some_and(|kv| kv.create_revision == leader);
    match (leads, head < first) {
        (true, _) => Appended::Gap(head),
        (false, true) => Appended::NotLeader,
        (false, false) => Appended::Unknown,
    }
}

impl Shared {
    pub(super) async fn append(&self, first: u64, events: &[Event]) -> Result<(), Failure> {
        if self.is_over.load(Ordering::Acquire) {
            return Err(Failure::NotLeader);
        }
        if events.is_empty() {
            return Ok(());
        }
        let batch = Batch::new(self.next_id(), first, events)?;
        for (number, piece) in (0..).zip(batch.pieces()) {
            self.put(self.reader.keys.part(first, batch.id, number), piece.to_vec()).await?;
        }
        let transaction = self.appending(&batch);
        let (answer, was_unknown) = self.decided(&batch, transaction).await?;
        match ended(&answer, batch.id, first, self.leadership.revision()) {
            Appended::Done => {
                self.note_growth(batch.events.len());
                Ok(())
            }
            Appended::NotLeader => Err(self.over(Failure::NotLeader)),
            // The only request was answered, and it was refused.
            Appended::Unknown if !was_unknown => Err(self.over(Failure::NotLeader)),
            Appended::Unknown => Err(self.over(Failure::OutcomeUnknown)),
            Appended::Gap(last) => Err(self.over(Failure::Gap { last, first })),
        }
    }

    fn over(&self, failure: Failure) -> Failure {
        self.end();
        failure
    }

    fn appending(&self, batch: &Batch) -> Transaction {
        let (head, log) = (self.reader.keys.head(), self.reader.keys.log(batch.first));
        // The first batch of all finds no end of the log.
        let before = match batch.first - 1 {
            State::FIRST_INDEX => Condition::Created(head.clone(), 0),
            last => Condition::Value(head.clone(), encoded_index(last)),
        };
        let put = |key, value| Operation::Put { key, value, lease: 0 };
        let get = |key| Operation::Get { key };
        Transaction {
            conditions: vec![self.leads(), before],
            success: vec![
                put(log.clone(), batch.value()),
                put(head.clone(), encoded_index(batch.last())),
            ],
            failure: vec![get(self.reader.keys.leader()), get(head), get(log)],
        }
    }

    /// Sends the transaction until an answer decides, or the leadership is over. Returns whether an answer was lost, too.
    async fn decided(
        &self,
        batch: &Batch,
        transaction: Transaction,
    ) -> Result<(TransactionAnswer, bool), Failure> {
        let [mut pause, longest] = PAUSES;
        let mut was_unknown = false;
        loop {
            let error = match self.reader.etcd.transact(transaction.clone()).await {
                Ok(answer) => return Ok((answer, was_unknown)),
                Err(error) => error,
            };
            if error.kind != EtcdErrorKind::Unknown && !was_unknown {
                return Err(error.into());
            }
            if was_unknown && error.kind == EtcdErrorKind::NoSpace && self.is_there(batch).await {
                let done = TransactionAnswer { succeeded: true, ..TransactionAnswer::default() };
                return Ok((done, true));
            }
            if !was_unknown {
                tracing::warn!(%error, first = batch.first, "no answer to an append: it is repeated until its end is known");
            }
            was_unknown = true;
            tokio::select! {
                () = sleep(pause) => {}
                () = self.given_up.cancelled() => return Err(self.over(Failure::OutcomeUnknown)),
                () = self.leadership.lost().cancelled() => {
                    return Err(self.over(Failure::OutcomeUnknown));
                }
            }
            pause = (pause * 2).min(longest);
        }
    }

    /// Returns whether the batch is stored. A full etcd refuses the transaction also if it would only read.
    async fn is_there(&self, batch: &Batch) -> bool {
        let found = self.reader.read(self.reader.keys.log(batch.first), 0).await;
        let Ok((Some(found), _)) = found else {
            return false;
        };
        BatchHeader::read(batch.first, &found.value).is_ok_and(|(header, _)| header.id == batch.id)
    }

    /// Writes a key as the leader. Repeats it until it is written: a second time changes nothing.
    pub(super) async fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<i64, Failure> {
        let transaction = Transaction {
            conditions: vec![self.leads()],
            success: vec![Operation::Put { key, value, lease: 0 }],
            failure: vec![],
        };
        self.as_leader(transaction).await
    }

    /// Sends a transaction that changes nothing when it is repeated, until it is carried out. Returns the revision.
    pub(super) async fn as_leader(&self, transaction: Transaction) -> Result<i64, Failure> {
        let [mut pause, longest] = PAUSES;
        loop {
            match self.reader.etcd.transact(transaction.clone()).await {
                Ok(answer) if answer.succeeded => return Ok(answer.revision),
                Ok(_) => return Err(self.over(Failure::NotLeader)),
                Err(EtcdError { kind: EtcdErrorKind::Unknown, .. }) => {}
                Err(error) => return Err(error.into()),
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.given_up.cancelled() => return Err(Failure::NotLeader),
                () = self.leadership.lost().cancelled() => return Err(Failure::NotLeader),
            }
            pause = (pause * 2).min(longest);
        }
    }
}
