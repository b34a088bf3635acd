//! The ledger in Nomad variables, on a cluster or on the embedded agent.
//!
//! A set is stored below `nomad-csi/sets/<set>/`, one variable per shard. Its lock is a variable of
//! its own, because only the lock's ID can write a locked variable. Every write is a check-and-set.
//! If the outcome of a write is unknown, the client reads the variable and writes again: at most
//! one of the two writes succeeds.
//!
//! Variables need Nomad 1.4 and their locks 1.7; on older servers the error names the alternatives.
//! A token that may not list gets an empty list and no error, so the head is also read by its name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::FuturesUnordered;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use super::client::NomadClient;
use super::session::Session;
use super::variables::{CheckAndSet, LockResult, Variables};
use crate::ports::{ApiError, Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, hex};
use nomad_csi_plan::{SetName, ShardChange, ShardName, StoredSet, StoredShard};
use nomad_csi_wire::VariableDocument;

/// The path of all sets.
const SETS: &str = "nomad-csi/sets/";
/// The item that holds the JSON of a shard or of a lock.
const ITEM: &str = "ledger";
/// The name of a lock's variable, beside the shards.
const LOCK: &str = "lock";
/// The lifetime of a lock without renewal. The server releases it after twice that plus the lock
/// delay. Nomad's minimum is ten seconds.
const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// Limit of concurrent reads of shards.
const MAX_CONCURRENT_READS: usize = 16;
/// Limit of concurrent writes of shards, beside the calls of the steps that they record.
const MAX_CONCURRENT_WRITES: usize = 4;
/// Attempts to read a set that changes in the meantime, and to send a request whose response is lost.
const ATTEMPTS: usize = 4;

/// A ledger in the variables of one namespace.
#[derive(Debug)]
pub struct NomadLedger {
    session: Arc<Session>,
    namespace: Namespace,
    name: String,
}

impl NomadClient {
    /// Returns the ledger in this server's variables of one namespace.
    pub fn ledger(&self, namespace: Namespace) -> NomadLedger {
        let server = self.session.name();
        NomadLedger {
            name: format!("the variables of `{server}` in namespace `{namespace}`"),
            session: Arc::clone(&self.session),
            namespace,
        }
    }
}

/// The result of reading a set's shards once.
enum SetRead {
    /// All shards.
    Complete(StoredSet),
    /// A shard disappeared in the meantime.
    Changed,
    /// The head exists but is not listed: it is new, or the token may not list.
    Unlisted,
}

fn variable_path(set: &SetName, last: &str) -> String {
    format!("{SETS}{set}/{last}")
}

fn stored_text(variable: &VariableDocument) -> Option<&str> {
    let mut items = variable.items.as_ref()?.0.expose();
    items.find(|(key, _)| *key == ITEM).map(|(_, text)| text)
}

impl NomadLedger {
    fn variables(&self) -> Variables<'_> {
        Variables { session: &self.session, namespace: self.namespace.as_str() }
    }

    /// Converts an API error to a ledger error.
    fn ledger_error(&self, error: ApiError) -> LedgerError {
        let (failure, code, help) = match error.code {
            Code::ApiNotNomad if error.status == Some(404) => {
                let why = "the server has no variables; they require Nomad 1.4 or later";
                return unsupported(why, error.server_text);
            }
            Code::ApiUnsupported => {
                return unsupported(
                    "a server of the cluster has no variables; they require Nomad 1.4 or later",
                    error.server_text,
                );
            }
            Code::ApiForbidden => (LedgerFailure::Forbidden, error.code, vec![self.policy_help()]),
            Code::ApiOutcomeUnknown => (LedgerFailure::OutcomeUnknown, error.code, error.help),
            Code::VariableLockLost => (LedgerFailure::LockLost, Code::LedgerLockLost, vec![]),
            code => (LedgerFailure::Unavailable, code, error.help),
        };
        LedgerError { failure, code, message: error.message, help, server_text: error.server_text }
    }

    fn policy_help(&self) -> String {
        let namespace = &self.namespace;
        format!(
            "grant the token `namespace \"{namespace}\" {{ variables {{ path \"{SETS}*\" {{ capabilities = [\"list\", \"read\", \"write\", \"destroy\"] }} }} }}`, or use `--ledger file:PATH`"
        )
    }

    /// Reads the shards of a set once.
    async fn read_once(&self, set: &SetName) -> Result<SetRead, LedgerError> {
        let action = format!("read the ledger of set `{set}`");
        let prefix = variable_path(set, "");
        let listed = self.variables().list(&prefix, &action).await;
        let listed = listed.map_err(|error| self.ledger_error(error))?;
        let names: BTreeSet<ShardName> = listed
            .iter()
            .filter_map(|path| ShardName::parse(path.strip_prefix(&prefix)?))
            .collect();
        // The head is read first, whether it is listed or not.
        let head = ShardName::Head;
        let others = names.iter().filter(|name| **name != head).copied().collect();
        let mut read = self.read_shards(set, vec![head], &action).await?;
        read.extend(self.read_shards(set, others, &action).await?);
        let mut stored = StoredSet::default();
        for (shard, found) in read {
            match found {
                Some(variable) => {
                    if !names.contains(&shard) {
                        return Ok(SetRead::Unlisted);
                    }
                    let stored_shard = StoredShard {
                        revision: variable.modify_index,
                        text: stored_text(&variable).unwrap_or_default().to_owned(),
                    };
                    stored.shards.insert(shard, stored_shard);
                }
                None if names.contains(&shard) => return Ok(SetRead::Changed),
                None => {}
            }
        }
        Ok(SetRead::Complete(stored))
    }

    /// Reads shards concurrently; a missing shard is `None`.
    async fn read_shards(
        &self,
        set: &SetName,
        shards: Vec<ShardName>,
        action: &str,
    ) -> Result<Vec<(ShardName, Option<VariableDocument>)>, LedgerError> {
        let variables = self.variables();
        stream::iter(shards)
            .map(|shard| {
                let path = variable_path(set, &shard.to_string());
                async move {
                    let found = variables.read(&path, action).await;
                    found.map(|found| (shard, found))
                }
            })
            .buffer_unordered(MAX_CONCURRENT_READS)
            .try_collect()
            .await
            .map_err(|error| self.ledger_error(error))
    }

    /// The error of a head that exists but is never listed.
    fn unlisted_error(&self, set: &SetName) -> LedgerError {
        let message =
            format!("cannot read the ledger of set `{set}`: the token may not list its variables");
        LedgerError {
            help: vec![self.policy_help()],
            ..LedgerError::new(LedgerFailure::Forbidden, Code::ApiForbidden, message)
        }
    }

    /// Writes one change and returns its revision.
    async fn write_change(&self, set: &SetName, change: &ShardChange) -> Result<u64, LedgerError> {
        let action = format!("write the ledger of set `{set}`");
        let path = variable_path(set, &change.shard.to_string());
        let index = change.expected.unwrap_or_default();
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            let result = match &change.text {
                Some(text) => {
                    let items = BTreeMap::from([(ITEM, text.as_str())]);
                    let put = self.variables().put(&path, index, &items, &action).await;
                    put.map(|put| match put {
                        CheckAndSet::Written(index) => Some(index),
                        CheckAndSet::Conflict => None,
                    })
                }
                None => {
                    let deleted = self.variables().delete(&path, index, &action).await;
                    deleted.map(|deleted| deleted.then_some(0))
                }
            };
            match result {
                Ok(Some(revision)) => return Ok(revision),
                Ok(None) if lost.is_none() => return Err(LedgerError::conflict(set)),
                Ok(None) => {}
                Err(error) if error.code == Code::ApiOutcomeUnknown => lost = Some(error),
                Err(error) => return Err(self.ledger_error(error)),
            }
            // The variable shows whether a write whose response is lost took effect.
            let found = self.variables().read(&path, &action).await;
            let found = found.map_err(|error| self.ledger_error(error))?;
            let now = found.as_ref().map(|variable| variable.modify_index);
            let now_text = found.as_ref().and_then(stored_text);
            if now_text == change.text.as_deref() && now != change.expected {
                return Ok(now.unwrap_or_default());
            }
            if now != change.expected {
                return Err(LedgerError::conflict(set));
            }
        }
        match lost {
            Some(error) => Err(self.ledger_error(error)),
            None => Err(LedgerError::conflict(set)),
        }
    }

    /// Writes changes in any order. After a failure nothing more is begun, and what was begun is ended.
    async fn write_shards(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: Vec<ShardChange>,
    ) -> Result<(), LedgerError> {
        let write = async |change| (self.write_change(set, &change).await, change);
        let mut waiting = changes.into_iter();
        let mut running = FuturesUnordered::new();
        let mut failed = None;
        loop {
            while failed.is_none()
                && running.len() < MAX_CONCURRENT_WRITES
                && let Some(change) = waiting.next()
            {
                running.push(write(change));
            }
            let Some((written, change)) = running.next().await else {
                return failed.map_or(Ok(()), Err);
            };
            match written {
                Ok(revision) => stored.record(change, revision),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
    }

    /// Acquires a lock with an ID derived from the holder. An attempt whose response is lost can
    /// then be repeated without waiting for its own lock.
    async fn acquire(
        &self,
        set: &SetName,
        path: &str,
        holder: &str,
    ) -> Result<LockResult, ApiError> {
        let action = format!("acquire the lock of set `{set}`");
        let items = BTreeMap::from([(ITEM, holder)]);
        let id = lock_id(set, holder);
        let mut attempt = 1;
        loop {
            let variables = self.variables();
            let acquired = variables.acquire(path, &id, &items, TIME_TO_LIVE, &action);
            match acquired.await {
                Err(error) if error.code == Code::ApiOutcomeUnknown && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                acquired => return acquired,
            }
        }
    }

    /// Removes the lock's variable, which a server without locks (Nomad 1.4 to 1.6) writes without
    /// locking it. The variable does no harm if this fails.
    async fn remove_unlocked(&self, path: &str) {
        let action = "remove an unused lock variable";
        if let Ok(Some(variable)) = self.variables().read(path, action).await {
            let index = variable.modify_index;
            let _ignored = self.variables().delete(path, index, action).await;
        }
    }

    /// Reads the holder of a set's lock as it is stored, if the lock's variable names one.
    async fn read_holder_text(&self, set: &SetName) -> Result<Option<String>, ApiError> {
        let action = format!("read the holder of the lock of set `{set}`");
        let path = variable_path(set, LOCK);
        let variable = self.variables().read(&path, &action).await?;
        Ok(variable.as_ref().and_then(stored_text).map(str::to_owned))
    }

    async fn read_holder(&self, set: &SetName) -> Option<LockHolder> {
        let text = self.read_holder_text(set).await.ok()??;
        serde_json::from_str(&text).ok()
    }
}

/// Returns a lock ID in the form of Nomad's own IDs.
fn lock_id(set: &SetName, holder: &str) -> String {
    let digest = Sha256::digest(format!("{set}\n{holder}"));
    let digits: String = hex(&digest[..16]).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn unsupported(why: &str, server_text: Option<String>) -> LedgerError {
    let message = format!("cannot keep the ledger in Nomad variables: {why}");
    LedgerError {
        server_text: server_text.filter(|text| !text.is_empty()),
        ..LedgerError::new(LedgerFailure::Unsupported, Code::LedgerUnsupported, message)
    }
}

#[async_trait]
impl Ledger for NomadLedger {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_on_server(&self) -> bool {
        true
    }

    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError> {
        let action = "list the sets";
        let listed = self.variables().list(SETS, action).await;
        let listed = listed.map_err(|error| self.ledger_error(error))?;
        let name = |path: &String| {
            let (set, shard) = path.strip_prefix(SETS)?.split_once('/')?;
            ShardName::parse(shard)?;
            SetName::parse(set).ok()
        };
        Ok(listed.iter().filter_map(name).collect())
    }

    async fn read(&self, set: &SetName) -> Result<StoredSet, LedgerError> {
        let mut is_listed = true;
        for _ in 0..ATTEMPTS {
            is_listed = match self.read_once(set).await? {
                SetRead::Complete(stored) => return Ok(stored),
                SetRead::Changed => true,
                SetRead::Unlisted => false,
            };
        }
        if !is_listed {
            return Err(self.unlisted_error(set));
        }
        let error = LedgerError::conflict(set);
        let message =
            format!("cannot read the ledger of set `{set}`: other commands keep changing it");
        Err(LedgerError { message, ..error })
    }

    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: Vec<ShardChange>,
    ) -> Result<(), LedgerError> {
        let (head, others): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.shard == ShardName::Head);
        let (written, removed): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|change| change.text.is_some());
        let removed = removed.into_iter().map(|change| vec![change]);
        for changes in [head, written].into_iter().chain(removed) {
            self.write_shards(set, stored, changes).await?;
        }
        Ok(())
    }

    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let holder_json = serde_json::to_string(holder).unwrap_or_default();
        let path = variable_path(set, LOCK);
        let acquired = self.acquire(set, &path, &holder_json).await;
        match acquired.map_err(|error| self.ledger_error(error))? {
            LockResult::Held(Some(id)) => Ok(Box::new(NomadLock {
                ledger: Self {
                    session: Arc::clone(&self.session),
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                },
                set: set.clone(),
                path,
                id,
            })),
            LockResult::Held(None) => {
                self.remove_unlocked(&path).await;
                let why = "the server's variables have no locks; they require Nomad 1.7 or later";
                Err(unsupported(why, None))
            }
            LockResult::NotHeld => Err(LedgerError::locked(set, self.read_holder(set).await)),
        }
    }

    /// The ID of the lock follows from its holder, so the lock of another holder is never released.
    async fn release_ended(&self, set: &SetName, holder: &LockHolder) -> Result<(), LedgerError> {
        let text = self.read_holder_text(set).await;
        let text = text.map_err(|error| self.ledger_error(error))?;
        let Some(text) =
            text.filter(|text| serde_json::from_str(text).ok().as_ref() == Some(holder))
        else {
            return Ok(());
        };
        let action = format!("release the lock of set `{set}`, whose holder has ended");
        let (path, id) = (variable_path(set, LOCK), lock_id(set, &text));
        match self.variables().release(&path, &id, &action).await {
            Ok(LockResult::Held(_) | LockResult::NotHeld) => Ok(()),
            Err(error) if error.code == Code::VariableLockLost => Ok(()),
            Err(error) => Err(self.ledger_error(error)),
        }
    }
}

/// The held lock of a set.
struct NomadLock {
    ledger: NomadLedger,
    set: SetName,
    path: String,
    id: String,
}

#[async_trait]
impl SetLock for NomadLock {
    fn time_to_live(&self) -> Option<Duration> {
        Some(TIME_TO_LIVE)
    }

    async fn renew(&self) -> Result<(), LedgerError> {
        let action = format!("renew the lock of set `{}`", self.set);
        let variables = self.ledger.variables();
        match variables.renew(&self.path, &self.id, &action).await {
            Ok(LockResult::Held(_)) => Ok(()),
            Ok(LockResult::NotHeld) => Err(LedgerError::lock_lost(&self.set)),
            Err(error) => Err(self.ledger.ledger_error(error)),
        }
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        let action = format!("release the lock of set `{}`", self.set);
        let variables = self.ledger.variables();
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            match variables.release(&self.path, &self.id, &action).await {
                Ok(LockResult::Held(_)) => return Ok(()),
                // An earlier attempt, whose response is lost, released it.
                Ok(LockResult::NotHeld) if lost.is_some() => return Ok(()),
                Err(error) if lost.is_some() && error.code == Code::VariableLockLost => {
                    return Ok(());
                }
                Ok(LockResult::NotHeld) => break,
                Err(error) if error.code == Code::ApiOutcomeUnknown => lost = Some(error),
                Err(error) => return Err(self.ledger.ledger_error(error)),
            }
        }
        Err(lost.map_or_else(
            || LedgerError::lock_lost(&self.set),
            |error| self.ledger.ledger_error(error),
        ))
    }
}
