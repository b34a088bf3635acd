//! One set of a ledger: read once, changed as often as needed.
//!
//! A change is a function on the set. If another command wrote the set in the meantime, or the reply to
//! a write was lost, the set is read again and the same change is made to it. So a change states what
//! must hold (`own`, `settle`), and never counts. The first write after a read lays out the whole set; a
//! later one only the shards that change.
//!
//! [`SetLedger::lock`] waits for the set's lock, and [`super::lock_renewal`] renews it while the work goes
//! on.

use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::lock_renewal::LockState;
use super::lock_takeover::has_ended;
use crate::ports::{Ledger, LedgerError, LedgerFailure, LockHolder, ProcessTable, SetLock};
use nomad_csi_plan::{LedgerKey, LedgerProblem, LedgerSet, SetLayout, SetName, StoredSet};
use nomad_csi_ports::IdSource;

/// How often a change is tried.
const ATTEMPTS: u32 = 6;
/// The pause between two attempts to take a lock.
const LOCK_POLL_INTERVAL: Duration = Duration::from_secs(2);

/// A set of a ledger.
pub struct SetLedger {
    ledger: Arc<dyn Ledger>,
    ids: Arc<dyn IdSource>,
    set: LedgerSet,
    stored: StoredSet,
    layout: Layout,
    lock: Option<watch::Receiver<LockState>>,
}

/// The known layout of the shards that a set is stored in.
enum Layout {
    /// Nothing: a crash may have left shards of two writes.
    Unknown,
    /// They are those of the whole set.
    Whole,
    /// They are these.
    Known(SetLayout),
}

impl std::fmt::Debug for SetLedger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetLedger")
            .field("ledger", &self.ledger.name())
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}

impl SetLedger {
    /// Reads a set. A set that the ledger does not have is empty until its first change.
    ///
    /// # Errors
    /// If the ledger cannot be read or used.
    pub async fn open(
        ledger: Arc<dyn Ledger>,
        name: SetName,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, LedgerError> {
        let (stored, set) = read(&*ledger, &name, &*ids).await?;
        Ok(Self { ledger, ids, set, stored, layout: Layout::Unknown, lock: None })
    }

    /// Sets the lock under which the set is changed.
    pub(super) fn hold(&mut self, lock: watch::Receiver<LockState>) {
        self.lock = Some(lock);
    }

    /// Returns the lock under which the set is changed, if there is one.
    pub(super) fn lock_state(&self) -> Option<watch::Receiver<LockState>> {
        self.lock.clone()
    }

    /// Returns the set as it was last read or written.
    pub fn set(&self) -> &LedgerSet {
        &self.set
    }

    /// Returns whether the server that has the volumes stores the set.
    pub fn is_on_server(&self) -> bool {
        self.ledger.is_on_server()
    }

    /// Returns whether the ledger has the set.
    pub fn exists(&self) -> bool {
        !self.stored.is_empty()
    }

    /// Makes a change and writes it. Repeats the change if another command wrote the set.
    ///
    /// # Errors
    /// If the ledger cannot be written, or other commands keep writing it. The set is then as last
    /// read, without the change.
    pub async fn update(
        &mut self,
        change: impl Fn(&mut LedgerSet) + Send + Sync,
    ) -> Result<(), LedgerError> {
        let mut attempt = 0;
        loop {
            // A write that was cancelled may have left a change.
            self.set.revert();
            let layout = self.take_layout()?;
            change(&mut self.set);
            let error = match self.write(layout).await {
                Ok(layout) => {
                    self.layout = layout;
                    self.set.settle();
                    return Ok(());
                }
                Err(error) => error,
            };
            self.set.revert();
            attempt += 1;
            if attempt == ATTEMPTS || !can_be_repeated(&error.failure) {
                return Err(error);
            }
            // The jitter keeps two writers out of step.
            let pause = Duration::from_millis(100).mul_f64(f64::from(attempt) * self.ids.jitter());
            sleep(pause).await;
            let name = self.set.name().clone();
            (self.stored, self.set) = read(&*self.ledger, &name, &*self.ids).await?;
        }
    }

    /// Takes the layout of the stored set, which is unknown until a write succeeds.
    fn take_layout(&mut self) -> Result<Option<SetLayout>, LedgerError> {
        match std::mem::replace(&mut self.layout, Layout::Unknown) {
            Layout::Unknown => Ok(None),
            Layout::Whole => SetLayout::of(&self.set, &self.stored)
                .map(Some)
                .map_err(|problem| LedgerError::unusable(self.set.name(), problem)),
            Layout::Known(layout) => Ok(Some(layout)),
        }
    }

    /// Writes the set, and returns the layout of what is stored then.
    async fn write(&mut self, layout: Option<SetLayout>) -> Result<Layout, LedgerError> {
        let (set, stored, save) = (&self.set, &self.stored, self.ids.uuid());
        let unusable = |problem: LedgerProblem| LedgerError::unusable(set.name(), problem);
        let (changes, layout) = match layout {
            None => {
                let changes = set.changes(stored, &save).map_err(unusable)?;
                (changes, Layout::Whole)
            }
            Some(mut layout) => {
                let changes = layout.changes(set, stored, &save).map_err(unusable)?;
                (changes, Layout::Known(layout))
            }
        };
        if !changes.is_empty() {
            let stored = &mut self.stored;
            self.ledger.write(set.name(), stored, changes).await?;
        }
        Ok(layout)
    }

    /// Takes the set's lock. Waits while another command holds it, unless that has ended, and calls `report`
    /// once per holder.
    ///
    /// # Errors
    /// If the lock is still held, or the ledger cannot be used.
    pub async fn lock(
        &self,
        holder: &LockHolder,
        wait: LockWait<'_>,
        mut report: impl FnMut(LockEvent<'_>) + Send,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let start = Instant::now();
        let mut reported: Option<Option<Box<LockHolder>>> = None;
        loop {
            let error = match self.ledger.lock(self.set.name(), holder).await {
                Ok(lock) => return Ok(lock),
                Err(error) => error,
            };
            let LedgerFailure::Locked(other) = &error.failure else {
                return Err(error);
            };
            let is_new = reported.as_ref() != Some(other);
            if let (true, Some(ended)) = (is_new, other)
                && wait.processes.is_some_and(|processes| has_ended(ended, processes))
            {
                report(LockEvent::HolderEnded(ended));
                reported = Some(other.clone());
                self.ledger.release_ended(self.set.name(), ended).await?;
                continue;
            }
            if start.elapsed() + LOCK_POLL_INTERVAL > wait.timeout {
                return Err(error);
            }
            if is_new {
                report(LockEvent::Waiting(other.as_deref()));
                reported = Some(other.clone());
            }
            sleep(LOCK_POLL_INTERVAL).await;
        }
    }
}

/// How a command waits for the lock of a set.
#[derive(Clone, Copy)]
pub struct LockWait<'a> {
    /// The longest wait.
    pub timeout: Duration,
    /// The processes of this machine; `None` to wait for a holder that has ended, too.
    pub processes: Option<&'a dyn ProcessTable>,
}

/// An event that a command which needs a lock reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockEvent<'a> {
    /// It waits for this holder; `None` if the holder is unknown.
    Waiting(Option<&'a LockHolder>),
    /// It takes the lock over, because the process that held it has ended.
    HolderEnded(&'a LockHolder),
}

async fn read(
    ledger: &dyn Ledger,
    name: &SetName,
    ids: &dyn IdSource,
) -> Result<(StoredSet, LedgerSet), LedgerError> {
    let stored = ledger.read(name).await?;
    let chance = format!("{}{}", ids.uuid(), ids.uuid());
    let fresh = LedgerKey::new(Sha256::digest(chance.as_bytes()).into());
    match LedgerSet::read(name.clone(), &stored, fresh) {
        Ok(set) => Ok((stored, set)),
        Err(problem) => Err(LedgerError::unusable(name, problem)),
    }
}

fn can_be_repeated(failure: &LedgerFailure) -> bool {
    match failure {
        LedgerFailure::Conflict | LedgerFailure::OutcomeUnknown => true,
        LedgerFailure::Locked(_)
        | LedgerFailure::LockLost
        | LedgerFailure::Unsupported
        | LedgerFailure::Forbidden
        | LedgerFailure::Unusable(_)
        | LedgerFailure::Unavailable => false,
    }
}

#[cfg(test)]
mod tests;
