//! The ledger in Nomad's variables, on a cluster or on our agent (`nomad-neighbour-apis` 1 and 2).
//!
//! A set lies below `nomad-csi/sets/<set>/`, a variable per shard, and its lock on a variable beside
//! them, since a locked variable can only be written with the lock's ID. Every write is a
//! check-and-set, so that one that may have been carried out can be found out by reading and, if it
//! was not, sent again: at most one of the two can succeed.
//!
//! Variables need Nomad 1.4, their locks 1.7; an older server has nothing at those paths, or locks
//! nothing without a word, and both are told with what to use instead. A token that may not list
//! sees an empty list and no error (1.9), so the head is asked for by name too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use sha2::{Digest as _, Sha256};

use super::client::NomadClient;
use super::session::Session;
use super::variables::{Lock, Put, Variables};
use crate::diagnostic::Code;
use crate::model::{Namespace, hex};
use crate::plan::{SetName, ShardChange, ShardName, StoredSet, StoredShard};
use crate::ports::{ApiError, Ledger, LedgerError, LedgerFailure, LockHolder, SetLock};
use crate::wire::VariableDocument;

/// Below this lie all sets.
const SETS: &str = "nomad-csi/sets/";
/// The item that holds a shard's JSON, or the lock's.
const ITEM: &str = "ledger";
/// What a lock's variable is called beside the shards.
const LOCK: &str = "lock";
/// How long a lock holds for whoever has it; the server lets go of it after twice that, and the lock
/// delay that `variables` asks for (2.6). Ten seconds is the least.
const TIME_TO_LIVE: Duration = Duration::from_secs(15);
/// So many shards are read at once.
const PARALLEL: usize = 16;
/// How often a set is read again that changes while it is read, and a write sent whose answer was
/// lost.
const ATTEMPTS: usize = 4;

/// A ledger in the variables of one namespace.
#[derive(Debug)]
pub struct NomadLedger {
    session: Arc<Session>,
    namespace: Namespace,
    name: String,
}

impl NomadClient {
    /// The ledger in this server's variables of one namespace.
    pub fn ledger(&self, namespace: Namespace) -> NomadLedger {
        let server = self.session.name();
        NomadLedger {
            name: format!("the variables of {server} in namespace {namespace}"),
            session: Arc::clone(&self.session),
            namespace,
        }
    }
}

/// What one look at a set's shards gave.
enum Look {
    /// All of them.
    Whole(StoredSet),
    /// One went away meanwhile.
    Moved,
    /// The head is there, and the list does not show it: it came meanwhile, or the token may not list.
    Unlisted,
}

fn path(set: &SetName, last: &str) -> String {
    format!("{SETS}{set}/{last}")
}

fn text(variable: &VariableDocument) -> Option<&str> {
    let mut items = variable.items.as_ref()?.0.expose();
    items.find(|(key, _)| *key == ITEM).map(|(_, text)| text)
}

impl NomadLedger {
    fn variables(&self) -> Variables<'_> {
        Variables {
            session: &self.session,
            namespace: self.namespace.as_str(),
        }
    }

    /// A failure in the ledger's words.
    fn failed(&self, error: ApiError) -> LedgerError {
        let (failure, code, help) = match error.code {
            Code::ApiNotNomad if error.status == Some(404) => {
                let why = "the server has no variables, which Nomad has since 1.4";
                return unsupported(why, error.server_text);
            }
            Code::ApiUnsupported => {
                return unsupported(
                    "a server of the cluster has no variables",
                    error.server_text,
                );
            }
            Code::ApiForbidden => (LedgerFailure::Forbidden, error.code, vec![self.policy()]),
            Code::ApiOutcomeUnknown => (LedgerFailure::OutcomeUnknown, error.code, error.help),
            Code::VariableLockLost => (LedgerFailure::LockLost, Code::LedgerLockLost, vec![]),
            code => (LedgerFailure::Unavailable, code, error.help),
        };
        LedgerError {
            failure,
            code,
            message: error.message,
            help,
            server_text: error.server_text,
        }
    }

    fn policy(&self) -> String {
        let namespace = &self.namespace;
        format!(
            "Give the token `namespace \"{namespace}\" {{ variables {{ path \"{SETS}*\" {{ capabilities = [\"list\", \"read\", \"write\", \"destroy\"] }} }} }}`, or keep the ledger in a file: --ledger file:PATH."
        )
    }

    /// The shards of a set, looked at once.
    async fn read_once(&self, set: &SetName) -> Result<Look, LedgerError> {
        let what = format!("the ledger of set {set} could not be read");
        let prefix = path(set, "");
        let listed = self.variables().list(&prefix, &what).await;
        let listed = listed.map_err(|error| self.failed(error))?;
        let names: BTreeSet<ShardName> = listed
            .iter()
            .filter_map(|path| ShardName::parse(path.strip_prefix(&prefix)?))
            .collect();
        // The head first and by itself, whatever the list says.
        let head = ShardName::head();
        let others = names
            .iter()
            .filter(|name| **name != head)
            .cloned()
            .collect();
        let mut read = self.read_shards(set, vec![head], &what).await?;
        read.extend(self.read_shards(set, others, &what).await?);
        let mut stored = StoredSet::default();
        for (shard, found) in read {
            match found {
                Some(variable) => {
                    if !names.contains(&shard) {
                        return Ok(Look::Unlisted);
                    }
                    let stored_shard = StoredShard {
                        revision: variable.modify_index,
                        text: text(&variable).unwrap_or_default().to_owned(),
                    };
                    stored.shards.insert(shard, stored_shard);
                }
                None if names.contains(&shard) => return Ok(Look::Moved),
                None => {}
            }
        }
        Ok(Look::Whole(stored))
    }

    /// Shards, and which of them are not there, so many at once.
    async fn read_shards(
        &self,
        set: &SetName,
        shards: Vec<ShardName>,
        what: &str,
    ) -> Result<Vec<(ShardName, Option<VariableDocument>)>, LedgerError> {
        let variables = self.variables();
        stream::iter(shards)
            .map(|shard| {
                let path = path(set, shard.as_str());
                async move {
                    let found = variables.read(&path, what).await;
                    found.map(|found| (shard, found))
                }
            })
            .buffer_unordered(PARALLEL)
            .try_collect()
            .await
            .map_err(|error| self.failed(error))
    }

    /// The head stays there, and no list shows it: the token may not list.
    fn unlisted(&self, set: &SetName) -> LedgerError {
        let message =
            format!("the ledger of set {set} could not be read: the token may not list it");
        LedgerError {
            help: vec![self.policy()],
            ..LedgerError::new(LedgerFailure::Forbidden, Code::ApiForbidden, message)
        }
    }

    /// Makes one change, and gives its revision.
    async fn change(&self, set: &SetName, change: &ShardChange) -> Result<u64, LedgerError> {
        let what = format!("the ledger of set {set} was not written");
        let path = path(set, change.shard.as_str());
        let index = change.expected.unwrap_or_default();
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            let made = match &change.text {
                Some(text) => {
                    let items = BTreeMap::from([(ITEM, text.as_str())]);
                    let put = self.variables().put(&path, index, &items, &what).await;
                    put.map(|put| match put {
                        Put::Written(variable) => Some(variable.modify_index),
                        Put::Conflict => None,
                    })
                }
                None => {
                    let deleted = self.variables().delete(&path, index, &what).await;
                    deleted.map(|deleted| deleted.then_some(0))
                }
            };
            match made {
                Ok(Some(revision)) => return Ok(revision),
                Ok(None) if lost.is_none() => return Err(LedgerError::conflict(set)),
                Ok(None) => {}
                Err(error) if error.code == Code::ApiOutcomeUnknown => lost = Some(error),
                Err(error) => return Err(self.failed(error)),
            }
            // Whether it was carried out although its answer was lost, only the variable can tell.
            let found = self.variables().read(&path, &what).await;
            let found = found.map_err(|error| self.failed(error))?;
            let now = found.as_ref().map(|variable| variable.modify_index);
            let now_text = found.as_ref().and_then(text);
            if now_text == change.text.as_deref() && now != change.expected {
                return Ok(now.unwrap_or_default());
            }
            if now != change.expected {
                return Err(LedgerError::conflict(set));
            }
        }
        match lost {
            Some(error) => Err(self.failed(error)),
            None => Err(LedgerError::conflict(set)),
        }
    }

    /// Takes a lock under an ID that is this holder's own, so that an attempt whose answer was lost is
    /// made again, instead of waiting for oneself.
    async fn acquire(&self, set: &SetName, path: &str, who: &str) -> Result<Lock, ApiError> {
        let what = format!("the lock of set {set} was not taken");
        let items = BTreeMap::from([(ITEM, who)]);
        let id = lock_id(set, who);
        let mut attempt = 1;
        loop {
            let variables = self.variables();
            let acquired = variables.acquire(path, &id, &items, TIME_TO_LIVE, &what);
            match acquired.await {
                Err(error) if error.code == Code::ApiOutcomeUnknown && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                acquired => return acquired,
            }
        }
    }

    /// A server without locks (1.4 to 1.6) writes the variable all the same. It is nobody's, and it is
    /// not left there; if it cannot be removed, it does no harm.
    async fn remove_unlocked(&self, path: &str) {
        let what = "a lock that holds nothing was not removed";
        if let Ok(Some(variable)) = self.variables().read(path, what).await {
            let index = variable.modify_index;
            let _gone_or_not = self.variables().delete(path, index, what).await;
        }
    }

    /// Who holds a set's lock, as far as he said.
    async fn holder(&self, set: &SetName) -> Option<LockHolder> {
        let what = format!("who holds the lock of set {set} could not be read");
        let found = self.variables().read(&path(set, LOCK), &what).await;
        let variable = found.ok().flatten()?;
        serde_json::from_str(text(&variable)?).ok()
    }
}

/// In the form that the server gives IDs of its own.
fn lock_id(set: &SetName, who: &str) -> String {
    let digest = Sha256::digest(format!("{set}\n{who}"));
    let digits: String = hex(&digest[..16]).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

fn unsupported(why: &str, server_text: Option<String>) -> LedgerError {
    let message = format!("the ledger cannot be kept in Nomad's variables: {why}");
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

    async fn sets(&self) -> Result<BTreeSet<SetName>, LedgerError> {
        let what = "the sets could not be listed";
        let listed = self.variables().list(SETS, what).await;
        let listed = listed.map_err(|error| self.failed(error))?;
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
                Look::Whole(stored) => return Ok(stored),
                Look::Moved => true,
                Look::Unlisted => false,
            };
        }
        if !is_listed {
            return Err(self.unlisted(set));
        }
        let error = LedgerError::conflict(set);
        let message = format!("the ledger of set {set} changes faster than it can be read");
        Err(LedgerError { message, ..error })
    }

    async fn write(
        &self,
        set: &SetName,
        stored: &mut StoredSet,
        changes: &[ShardChange],
    ) -> Result<(), LedgerError> {
        for change in changes {
            let revision = self.change(set, change).await?;
            stored.record(change, revision);
        }
        Ok(())
    }

    async fn lock(
        &self,
        set: &SetName,
        holder: &LockHolder,
    ) -> Result<Box<dyn SetLock>, LedgerError> {
        let who = serde_json::to_string(holder).unwrap_or_default();
        let path = path(set, LOCK);
        let acquired = self.acquire(set, &path, &who).await;
        match acquired.map_err(|error| self.failed(error))? {
            Lock::Held(Some(id)) => Ok(Box::new(NomadLock {
                ledger: Self {
                    session: Arc::clone(&self.session),
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                },
                set: set.clone(),
                path,
                id,
            })),
            Lock::Held(None) => {
                self.remove_unlocked(&path).await;
                let why = "the server has variables, but no locks, which Nomad has since 1.7";
                Err(unsupported(why, None))
            }
            Lock::NotOurs => Err(LedgerError::held(set, self.holder(set).await)),
        }
    }
}

/// A lock that is held.
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
        let what = format!("the lock of set {} was not renewed", self.set);
        let variables = self.ledger.variables();
        match variables.renew(&self.path, &self.id, &what).await {
            Ok(Lock::Held(_)) => Ok(()),
            Ok(Lock::NotOurs) => Err(LedgerError::lock_lost(&self.set)),
            Err(error) => Err(self.ledger.failed(error)),
        }
    }

    async fn release(self: Box<Self>) -> Result<(), LedgerError> {
        let what = format!("the lock of set {} was not given back", self.set);
        let variables = self.ledger.variables();
        let mut lost = None;
        for _ in 0..ATTEMPTS {
            match variables.release(&self.path, &self.id, &what).await {
                Ok(Lock::Held(_)) => return Ok(()),
                // An answer was lost before: that was the one.
                Ok(Lock::NotOurs) if lost.is_some() => return Ok(()),
                Err(error) if lost.is_some() && error.code == Code::VariableLockLost => {
                    return Ok(());
                }
                Ok(Lock::NotOurs) => break,
                Err(error) if error.code == Code::ApiOutcomeUnknown => lost = Some(error),
                Err(error) => return Err(self.ledger.failed(error)),
            }
        }
        Err(lost.map_or_else(
            || LedgerError::lock_lost(&self.set),
            |error| self.ledger.failed(error),
        ))
    }
}
