//! One set of a ledger, open: read once, changed as often as needed, nothing of others overwritten.
//!
//! A change is a function on the set, so that it can be made again: if somebody else wrote the set
//! meanwhile, or a write's answer was lost for good, the set is read anew and the same change is
//! made to what is there. A change must therefore say what shall hold (`own`, `settle`), never count.
//!
//! The lock is beside that: [`SetLedger::lock`] waits for it and says for whom, and [`hold_lock`] renews it
//! while the work goes on. A lock that is lost does not stop the work by force, since calls that are
//! under way end better than they break off; it says so, and nothing new should be begun.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::diagnostic::Code;
use crate::model::NamespacedId;
use crate::plan::{LedgerKey, LedgerProblem, LedgerSet, SetName, StoredSet};
use crate::ports::{IdSource, Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};

/// How often a change is made anew before it is given up.
const ATTEMPTS: u32 = 6;
/// How many sets are read at once.
const PARALLEL: usize = 8;
/// The pause between two looks at a lock that somebody holds.
const LOOK: Duration = Duration::from_secs(2);
/// The pause before a renewal that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A set of a ledger.
pub struct SetLedger {
    ledger: Arc<dyn Ledger>,
    ids: Arc<dyn IdSource>,
    set: LedgerSet,
    stored: StoredSet,
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
    /// Reads a set; one that the ledger does not have is empty until it is first changed.
    ///
    /// # Errors
    /// If the ledger cannot be read or used.
    pub async fn open(
        ledger: Arc<dyn Ledger>,
        name: SetName,
        ids: Arc<dyn IdSource>,
    ) -> Result<Self, LedgerError> {
        let (stored, set) = read(&*ledger, &name, &*ids).await?;
        Ok(Self {
            ledger,
            ids,
            set,
            stored,
        })
    }

    /// The set as it was last read or written.
    pub fn set(&self) -> &LedgerSet {
        &self.set
    }

    /// Whether the ledger has it.
    pub fn exists(&self) -> bool {
        !self.stored.is_empty()
    }

    /// What people call the ledger.
    pub fn ledger_name(&self) -> &str {
        self.ledger.name()
    }

    /// Makes a change and writes it; on what somebody else wrote meanwhile it is made anew.
    ///
    /// # Errors
    /// If the ledger cannot be written, or others keep writing it. The set is then as it was read
    /// last, without the change.
    pub async fn update(
        &mut self,
        change: impl Fn(&mut LedgerSet) + Send + Sync,
    ) -> Result<(), LedgerError> {
        let mut attempt = 0;
        loop {
            let mut changed = self.set.clone();
            change(&mut changed);
            let error = match self.write(&changed).await {
                Ok(()) => {
                    self.set = changed;
                    return Ok(());
                }
                Err(error) => error,
            };
            attempt += 1;
            if attempt == ATTEMPTS || !may_be_made_anew(&error.failure) {
                return Err(error);
            }
            // Two who keep missing each other should not do so in step.
            let pause = Duration::from_millis(100).mul_f64(f64::from(attempt) * self.ids.jitter());
            sleep(pause).await;
            let name = self.set.name().clone();
            (self.stored, self.set) = read(&*self.ledger, &name, &*self.ids).await?;
        }
    }

    /// Which other sets of the ledger own these volumes. Reads all of them: for volumes that are about
    /// to be taken in, not for every plan. A set that cannot be read owns nothing as far as is known.
    ///
    /// # Errors
    /// If the sets cannot be listed.
    pub async fn other_owners(
        &self,
        volumes: &BTreeSet<NamespacedId>,
    ) -> Result<BTreeMap<NamespacedId, BTreeSet<SetName>>, LedgerError> {
        let mut owners: BTreeMap<_, BTreeSet<SetName>> = BTreeMap::new();
        let sets = all_sets(&self.ledger, &self.ids).await?;
        let others = sets.into_iter().filter_map(Result::ok);
        for set in others.filter(|other| other.set.name() != self.set.name()) {
            let set = set.set();
            for (key, _) in set.owned().filter(|(key, _)| volumes.contains(*key)) {
                let sets = owners.entry(key.clone()).or_default();
                sets.insert(set.name().clone());
            }
        }
        Ok(owners)
    }

    async fn write(&mut self, changed: &LedgerSet) -> Result<(), LedgerError> {
        let name = changed.name().clone();
        let unusable = |problem: LedgerProblem| LedgerError::unusable(&name, problem);
        let changes = changed
            .changes(&self.stored, &self.ids.uuid())
            .map_err(unusable)?;
        if changes.is_empty() {
            return Ok(());
        }
        self.ledger.write(&name, &mut self.stored, &changes).await
    }

    /// Takes the set's lock. While somebody else holds it, it is waited for, and `waiting` hears of
    /// it once per holder; after `patience` it is given up.
    ///
    /// # Errors
    /// If it is still held, or the ledger cannot be used.
    pub async fn lock(
        &self,
        holder: &LockHolder,
        patience: Duration,
        mut waiting: impl FnMut(Option<&LockHolder>) + Send,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let start = Instant::now();
        let mut told: Option<Option<Box<LockHolder>>> = None;
        loop {
            let error = match self.ledger.lock(self.set.name(), holder).await {
                Ok(lock) => return Ok(lock),
                Err(error) => error,
            };
            let LedgerFailure::Locked(other) = &error.failure else {
                return Err(error);
            };
            if start.elapsed() + LOOK > patience {
                return Err(error);
            }
            if told.as_ref() != Some(other) {
                waiting(other.as_deref());
                told = Some(other.clone());
            }
            sleep(LOOK).await;
        }
    }
}

/// All sets of a ledger, by name. One that cannot be read hides none of the others.
///
/// # Errors
/// If the sets cannot be listed.
pub async fn all_sets(
    ledger: &Arc<dyn Ledger>,
    ids: &Arc<dyn IdSource>,
) -> Result<Vec<Result<SetLedger, LedgerError>>, LedgerError> {
    let names = ledger.sets().await?.into_iter();
    let reads = names.map(|name| SetLedger::open(Arc::clone(ledger), name, Arc::clone(ids)));
    Ok(stream::iter(reads).buffered(PARALLEL).collect().await)
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

/// Does work while a lock is held, renews the lock meanwhile, and gives it back.
///
/// The work is handed a channel that turns `true` when the lock is lost. What it gives is given on,
/// beside how the lock ended.
pub async fn hold_lock<T>(
    lock: Box<dyn SetLock>,
    work: impl AsyncFnOnce(watch::Receiver<bool>) -> T,
) -> (T, Result<(), LedgerError>) {
    let (lost, is_lost) = watch::channel(false);
    let (done, ended) = {
        let mut renewing = std::pin::pin!(renew(&*lock));
        let mut work = std::pin::pin!(work(is_lost));
        tokio::select! {
            done = &mut work => (done, None),
            error = &mut renewing => {
                lost.send_replace(true);
                (work.await, Some(error))
            }
        }
    };
    match ended {
        Some(error) => (done, Err(error)),
        None => (done, lock.release().await),
    }
}

fn may_be_made_anew(failure: &LedgerFailure) -> bool {
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

/// Renews a lock until that fails for good, or until it must have run out.
async fn renew(lock: &dyn SetLock) -> LedgerError {
    let Some(time_to_live) = lock.time_to_live() else {
        return std::future::pending().await;
    };
    let mut renewed = Instant::now();
    let mut pause = time_to_live / 2;
    loop {
        sleep(pause).await;
        // The server counts from when it answers, so counting from here is on the safe side.
        let asked = Instant::now();
        let left = time_to_live.saturating_sub(renewed.elapsed());
        match timeout(left, lock.renew()).await {
            Ok(Ok(())) => {
                renewed = asked;
                pause = (time_to_live / 2).saturating_sub(asked.elapsed());
            }
            Ok(Err(error)) => {
                let left = time_to_live.saturating_sub(renewed.elapsed());
                if error.failure == LedgerFailure::LockLost || left.is_zero() {
                    return error;
                }
                pause = AGAIN.min(left);
            }
            Err(_) => return unanswered(time_to_live),
        }
    }
}

fn unanswered(time_to_live: Duration) -> LedgerError {
    let seconds = time_to_live.as_secs();
    let message = format!(
        "the set's lock may have run out: the server did not renew it in the {seconds} seconds that it holds"
    );
    LedgerError::new(LedgerFailure::LockLost, Code::LedgerLockLost, message)
}

#[cfg(test)]
mod tests;
