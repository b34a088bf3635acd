//! Storage of ledgers: the record of what each set owns.
//!
//! `plan::LedgerSet` defines the content of a set and its shards. A ledger stores shards, each with a
//! revision, and writes them by check-and-set, so no writer overwrites another. The lock of a set is
//! advisory: it makes a second command wait and names the lock's owner. After a lock expires, only
//! check-and-set protects the ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::process_table::ProcessIdentity;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_plan::{Actor, LedgerProblem, SetName, ShardChange, StoredSet};

/// The owner of a set's lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockHolder {
    /// The user and machine that hold the lock.
    pub by: Actor,
    /// When the lock was acquired, in nanoseconds since the epoch.
    pub since: i64,
    /// The process that holds the lock, if its system shows processes. Earlier versions recorded none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessIdentity>,
}

/// The kind of a ledger failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerFailure {
    /// Another command wrote the set after it was read. Read it again.
    Conflict,
    /// Another command holds the lock; `None` if its owner is unknown.
    Locked(Option<Box<LockHolder>>),
    /// The lock expired or was taken, so another command may be changing the set.
    LockLost,
    /// The server is too old to store this ledger.
    Unsupported,
    /// The token lacks a permission.
    Forbidden,
    /// The content of the ledger is unusable, or a change does not fit.
    Unusable(Box<LedgerProblem>),
    /// The ledger cannot be reached, read or written.
    Unavailable,
    /// A write was sent, but its result is unknown.
    OutcomeUnknown,
}

/// A ledger operation failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct LedgerError {
    /// The kind of failure.
    pub failure: LedgerFailure,
    /// The code of the failure.
    pub code: Code,
    /// The headline: what failed for which set, and why.
    pub message: String,
    /// The remedies; empty to use the remedy of the code.
    pub help: Vec<String>,
    /// The server's error text, verbatim, if the server answered.
    pub server_text: Option<String>,
}

impl LedgerError {
    /// Another command wrote the set after it was read.
    pub fn conflict(set: &SetName) -> Self {
        Self::new(
            LedgerFailure::Conflict,
            Code::LedgerConflict,
            format!("cannot write the ledger of set `{set}`: another command changed it"),
        )
    }

    /// Another command holds the lock.
    pub fn locked(set: &SetName, holder: Option<LockHolder>) -> Self {
        let who = match &holder {
            Some(holder) => holder.by.to_string(),
            None => "another command".to_owned(),
        };
        Self::new(
            LedgerFailure::Locked(holder.map(Box::new)),
            Code::LedgerHeld,
            format!("{who} holds the lock of set `{set}`"),
        )
    }

    /// This command no longer holds the lock.
    pub fn lock_lost(set: &SetName) -> Self {
        Self::new(
            LedgerFailure::LockLost,
            Code::LedgerLockLost,
            format!("the lock of set `{set}` expired before the command finished"),
        )
    }

    /// The content of the ledger is unusable, or a change does not fit.
    pub fn unusable(set: &SetName, problem: LedgerProblem) -> Self {
        let message = format!("cannot use the ledger of set `{set}`: {problem}");
        Self::new(LedgerFailure::Unusable(Box::new(problem)), Code::LedgerUnusable, message)
    }

    /// Creates an error without additional help.
    pub fn new(failure: LedgerFailure, code: Code, message: String) -> Self {
        Self { failure, code, message, help: vec![], server_text: None }
    }

    /// Returns the diagnostic: the message, the server's error text, and what to do.
    pub fn diagnostic(&self) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.message.clone());
        let text = self.server_text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        if let Some(text) = text {
            diagnostic = diagnostic.note(format!("server response: {text}"));
        }
        if self.help.is_empty() {
            return diagnostic.help(self.code.advice());
        }
        diagnostic.help.extend(self.help.iter().cloned());
        diagnostic
    }
}

/// Stores the ledgers of sets.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Returns the location for messages.
    fn name(&self) -> &str;

    /// Returns whether the server that has the volumes stores the ledger. Then an index in the ledger is one of that
    /// server, also after its state was restored.
    fn is_on_server(&self) -> bool;

    /// Returns all sets that the token can see.
    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError>;

    /// Returns every shard of a set with its revision; empty if the set does not exist.
    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError>;

    /// Writes the head, then the other shards in any order, then removes shards one after another in the
    /// order of `changes`, and records each change in `stored`.
    /// Nothing more is begun after a failure; what was written stays. If a reply is lost, the ledger
    /// reads the shard again. It returns [`LedgerFailure::OutcomeUnknown`] only if that read fails too.
    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: Vec<ShardChange>,
    ) -> Result<(), LedgerError>;

    /// Acquires the lock of a set without waiting. Fails with [`LedgerFailure::Locked`] and the
    /// owner if another command holds it.
    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError>;

    /// Releases the lock of a holder whose process has ended. Does nothing if another command holds the
    /// lock now, or if the lock ended with its process.
    async fn release_ended(&self, set: &SetName, holder: &LockHolder) -> Result<(), LedgerError>;
}

/// The acquired lock of a set. A lock that is dropped without a release stays until it expires or
/// the process exits.
#[async_trait]
pub trait SetLock: Send + Sync {
    /// Returns the time until the lock expires without a renewal; `None` if it never expires.
    fn time_to_live(&self) -> Option<Duration>;

    /// Extends the lock. Fails with [`LedgerFailure::LockLost`] if another command took it.
    async fn renew(&self) -> Result<(), LedgerError>;

    /// Releases the lock.
    async fn release(self: Box<Self>) -> Result<(), LedgerError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_text_is_not_quoted() {
        let error = |text: Option<&str>| LedgerError {
            server_text: text.map(str::to_owned),
            ..LedgerError::new(LedgerFailure::Unavailable, Code::LedgerUnusable, "m".to_owned())
        };
        for (text, notes) in [(None, 0), (Some(" \n"), 0), (Some(" no leader\n"), 1)] {
            let notes_seen = error(text).diagnostic().notes;
            assert_eq!(notes_seen.len(), notes, "{text:?}: {notes_seen:?}");
            assert!(notes_seen.iter().all(|note| note == "server response: no leader"));
        }
    }
}
