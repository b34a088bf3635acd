//! Where sets are remembered: by whom, and how two writers are kept apart.
//!
//! What is in a set, and how it is cut into shards, is `plan::LedgerSet`; a ledger keeps shards,
//! each with a revision, and changes them by check-and-set, so that nothing that somebody else wrote
//! is ever overwritten unseen. The lock of a set is a courtesy beside that: it makes the second of
//! two applies wait, and say for whom. A lock that ran out protects nothing; check-and-set still does.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::diagnostic::{Code, Diagnostic};
use crate::plan::{Actor, LedgerProblem, SetName, ShardChange, StoredSet};

/// Who holds a set's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// Who.
    pub by: Actor,
    /// Since when, nanoseconds since the epoch.
    pub since: i64,
}

/// What kind of failure a ledger's is: enough to decide what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerFailure {
    /// Somebody else wrote the set since it was read. Nothing more was written; read it again.
    Conflict,
    /// Somebody else holds the lock; `None` if he cannot be named.
    Held(Option<Box<LockHolder>>),
    /// The lock ran out, or was taken away: whoever goes on may not be alone.
    LockLost,
    /// This ledger cannot do it: the server is too old.
    Unsupported,
    /// The token may not do it.
    Forbidden,
    /// What is in the ledger cannot be used, or does not fit in.
    Unusable(Box<LedgerProblem>),
    /// The ledger cannot be reached, read or written.
    Unavailable,
    /// A write was sent and nobody knows whether it was carried out.
    OutcomeUnknown,
}

/// A ledger said no, or could not be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    /// What kind of failure.
    pub failure: LedgerFailure,
    /// The code that stands for it.
    pub code: Code,
    /// One sentence: what happened to which set, and why.
    pub message: String,
    /// What to do, if more is known than the code's remedy.
    pub help: Vec<String>,
    /// A server's own words, verbatim, if there was an answer.
    pub server_text: Option<String>,
}

impl LedgerError {
    /// Somebody else wrote the set since it was read.
    pub fn conflict(set: &SetName) -> Self {
        Self::new(
            LedgerFailure::Conflict,
            Code::LedgerConflict,
            format!("the ledger of set {set} was not written: somebody else wrote it meanwhile"),
        )
    }

    /// Somebody else holds the lock.
    pub fn held(set: &SetName, holder: Option<LockHolder>) -> Self {
        let who = match &holder {
            Some(holder) => holder.by.to_string(),
            None => "somebody who cannot be named".to_owned(),
        };
        Self::new(
            LedgerFailure::Held(holder.map(Box::new)),
            Code::LedgerHeld,
            format!("set {set} is being worked on by {who}"),
        )
    }

    /// The lock is no longer ours.
    pub fn lock_lost(set: &SetName) -> Self {
        Self::new(
            LedgerFailure::LockLost,
            Code::LedgerLockLost,
            format!("the lock of set {set} ran out while it was held"),
        )
    }

    /// What is in the ledger cannot be used, or does not fit in.
    pub fn unusable(set: &SetName, problem: LedgerProblem) -> Self {
        let message = format!("the ledger of set {set} cannot be used: {problem}");
        Self::new(
            LedgerFailure::Unusable(Box::new(problem)),
            Code::LedgerUnusable,
            message,
        )
    }

    /// A failure of that kind, of which no more is known than its code says.
    pub fn new(failure: LedgerFailure, code: Code, message: String) -> Self {
        Self {
            failure,
            code,
            message,
            help: vec![],
            server_text: None,
        }
    }

    /// As it is told to people: the message, a server's own words, what to do.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message.clone());
        if let Some(text) = self.server_text.as_deref() {
            diagnostic = diagnostic.note(format!("the server said: {}", text.trim()));
        }
        if self.help.is_empty() {
            return diagnostic.help(self.code.remedy());
        }
        diagnostic.help.extend(self.help.iter().cloned());
        diagnostic
    }
}

/// Keeps sets.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// What people call it: where it is.
    fn name(&self) -> &str;

    /// All sets that it has, as far as the token may see.
    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError>;

    /// Every shard of a set with its revision; none if there is no such set.
    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError>;

    /// Makes changes in their order and records each in `stored` as it is made. At the first that
    /// cannot be made it stops; those before it stay. A reply that was lost is not guessed at: the
    /// shard is read again, and it is an [`LedgerFailure::OutcomeUnknown`] only if that fails too.
    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: &[ShardChange],
    ) -> Result<(), LedgerError>;

    /// Takes the lock of a set, at once or not at all: [`LedgerFailure::Held`] says by whom it is
    /// held.
    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError>;
}

/// The lock of a set, while it is held. One that is dropped and not released is free once it has run
/// out, or when the process ends.
#[async_trait]
pub trait SetLock: Send + Sync {
    /// How long it holds without being renewed; `None` if it does not run out.
    fn time_to_live(&self) -> Option<Duration>;

    /// Makes it hold for another time to live; [`LedgerFailure::LockLost`] if it is no longer ours.
    async fn renew(&self) -> Result<(), LedgerError>;

    /// Gives it back.
    async fn release(self: Box<Self>) -> Result<(), LedgerError>;
}
