//! [`AclService`]: tokens, policies, and what a token grants.
//!
//! A secret is a random UUID, is returned once, and only its SHA-256 is recorded: 122 random bits need no slow hash.
//! Whether a token has expired is decided when it is used; the leader removes it some time later.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::rights::Rights;
use crate::cell::{CommitError, StateCell};
use crate::error::{AclError, ServerError};
use nomad_csi_claims::state::{
    AclEntry, AclEvent, AclKey, AclPolicyEntry, AclRecord, AclTokenEntry, Event, EventKind, State,
};
use nomad_csi_model::hex;
use nomad_csi_ports::{Clock, IdSource};
use nomad_csi_spec::{AclPolicy, acl_policy, checked_acl_policy};

/// The policy of requests without a token.
const ANONYMOUS: &str = "anonymous";
/// The name of the first token.
const BOOTSTRAP_NAME: &str = "Bootstrap Token";
/// The longest name of a token or a policy, and the longest description, as in Nomad.
const MAX_NAME: usize = 256;
const MAX_POLICY_NAME: usize = 128;
/// The longest rules of a policy.
const MAX_RULES: usize = 256 << 10;
/// The shortest life of a token that ends.
const SHORTEST_LIFE: Duration = Duration::from_secs(60);
/// How many sets of policies are kept parsed.
const KEPT_POLICIES: usize = 256;
/// How often expired tokens are removed.
const EXPIRY_PERIOD: Duration = Duration::from_secs(60);
/// How often a change is decided again after another one.
const CONFLICT_RETRIES: usize = 16;

/// The SHA-256 of a secret, in hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretHash(String);

impl SecretHash {
    /// Hashes a secret.
    pub fn of(secret: &[u8]) -> Self {
        Self(hex(&Sha256::digest(secret)).collect())
    }
}

/// Whether a server has an ACL, as its configuration says. If it says nothing, there is one once a first token was made: a
/// server of a cluster with an ACL whose file lacks the section is not open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AclSettings {
    /// `None` if the configuration says nothing.
    pub is_enabled: Option<bool>,
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// The operator of the server's machine.
    Operator,
    /// A client without a token.
    Anonymous,
    /// The bearer of this token.
    Token(Arc<AclRecord>),
}

/// The kind of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// It may do everything.
    Management,
    /// It may do what these policies grant.
    Client(BTreeSet<String>),
}

/// When a new token ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenExpiry {
    /// Never.
    Never,
    /// At this time, in nanoseconds since the epoch.
    At(i64),
    /// After this time.
    After(Duration),
}

/// A token to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Its name.
    pub name: String,
    /// What it may do.
    pub kind: TokenKind,
    /// Whether it is of all regions.
    pub is_global: bool,
    /// When it ends.
    pub expiry: TokenExpiry,
}

/// A change of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUpdate {
    /// Its new name.
    pub name: String,
    /// What it may do from now on.
    pub kind: TokenKind,
}

/// The parsed policies of the ACL at one index.
#[derive(Default)]
struct ParsedPolicies {
    index: u64,
    sets: HashMap<BTreeSet<String>, Arc<AclPolicy>>,
}

/// Tokens and policies. Clones share their state.
#[derive(Clone)]
pub struct AclService {
    cell: StateCell,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
    settings: AclSettings,
    parsed: Arc<Mutex<ParsedPolicies>>,
}

impl AclService {
    /// A service that records in `cell`.
    pub fn new(
        cell: StateCell,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn IdSource>,
        settings: AclSettings,
    ) -> Self {
        Self { cell, clock, ids, settings, parsed: Arc::default() }
    }

    /// The same service with other settings.
    #[must_use]
    pub fn with_settings(self, settings: AclSettings) -> Self {
        Self { settings, ..self }
    }

    /// Returns whether requests need rights.
    pub fn is_enabled(&self) -> bool {
        let bootstrapped = || self.cell.read(|state| state.acl(&AclKey::Bootstrap).is_some());
        self.settings.is_enabled.unwrap_or_else(bootstrapped)
    }

    /// Refuses a request about the ACL of a server that has none.
    ///
    /// # Errors
    /// If there is no ACL.
    pub fn check_enabled(&self) -> Result<(), AclError> {
        self.is_enabled().then_some(()).ok_or(AclError::Disabled)
    }

    /// Returns who has the secret with this hash; without a secret, a client without a token.
    ///
    /// # Errors
    /// If no token has it, or the token has expired.
    pub fn bearer(&self, secret: Option<&SecretHash>) -> Result<Bearer, AclError> {
        let Some(SecretHash(secret)) = secret else {
            return Ok(Bearer::Anonymous);
        };
        let record = self.cell.read(|state| state.acl_token_of(secret).cloned());
        let record = record.ok_or(AclError::UnknownToken)?;
        let now = self.clock.now();
        match record.token().is_some_and(|token| token.is_expired(now)) {
            true => Err(AclError::ExpiredToken),
            false => Ok(Bearer::Token(record)),
        }
    }

    /// Returns what a bearer may do.
    pub fn rights(&self, bearer: &Bearer) -> Rights {
        let policies = match bearer {
            Bearer::Operator => return Rights::Everything,
            Bearer::Anonymous => BTreeSet::from([ANONYMOUS.to_owned()]),
            Bearer::Token(record) => match record.token().map(|token| &token.policies) {
                Some(None) => return Rights::Everything,
                Some(Some(policies)) => policies.clone(),
                None => BTreeSet::new(),
            },
        };
        Rights::Granted(self.parsed(policies))
    }

    /// Returns what policies grant together. One that does not exist grants nothing.
    fn parsed(&self, policies: BTreeSet<String>) -> Arc<AclPolicy> {
        let (index, rules) = self.cell.read(|state| {
            let named = policies.iter().map(|name| AclKey::Policy(name.clone()));
            let records = named.filter_map(|key| state.acl(&key).cloned());
            (state.acl_index(), records.collect::<Vec<_>>())
        });
        let mut parsed = self.parsed.lock();
        if parsed.index != index || parsed.sets.len() >= KEPT_POLICIES {
            *parsed = ParsedPolicies { index, sets: HashMap::new() };
        }
        if let Some(kept) = parsed.sets.get(&policies) {
            return kept.clone();
        }
        let rules = rules.iter().filter_map(|record| record.policy());
        // What is recorded was parsed before.
        let rules = rules.filter_map(|policy| acl_policy(&policy.rules).ok());
        let merged = Arc::new(rules.fold(AclPolicy::default(), AclPolicy::merged));
        parsed.sets.insert(policies, merged.clone());
        merged
    }

    /// Makes the first token, which may do everything, with this secret or a new one.
    ///
    /// # Errors
    /// If it was made before, or it cannot be recorded.
    pub async fn bootstrap(
        &self,
        secret: Option<Zeroizing<String>>,
    ) -> Result<(Arc<AclRecord>, Zeroizing<String>), ServerError> {
        self.check_enabled()?;
        if secret.as_ref().is_some_and(|secret| !is_uuid(secret)) {
            let why = "the secret of the first token is not a UUID".to_owned();
            return Err(AclError::Invalid(why).into());
        }
        let secret = secret.unwrap_or_else(|| Zeroizing::new(self.ids.uuid()));
        let entry = AclTokenEntry {
            name: BOOTSTRAP_NAME.to_owned(),
            policies: None,
            is_global: true,
            secret_hash: SecretHash::of(secret.as_bytes()).0,
            expires_at: None,
        };
        let token = AclKey::Token(self.ids.uuid());
        let done = AclEvent::Written { entry: AclEntry::Bootstrapped, expected: None };
        let made = AclEvent::Written { entry: AclEntry::Token(entry), expected: None };
        match self.commit(vec![(AclKey::Bootstrap, done), (token.clone(), made)]).await {
            Ok(_) => {}
            Err(CommitError::InvalidEvent(_)) => {
                let reset_index = self.cell.read(|state| {
                    state.acl(&AclKey::Bootstrap).map_or(0, |record| record.modify_index)
                });
                return Err(AclError::AlreadyBootstrapped { reset_index }.into());
            }
            Err(error) => return Err(error.into()),
        }
        Ok((self.recorded(&token)?, secret))
    }

    /// Makes a token, and returns it with its secret.
    ///
    /// # Errors
    /// If it is not valid, or cannot be recorded.
    pub async fn create_token(
        &self,
        new: NewToken,
    ) -> Result<(Arc<AclRecord>, Zeroizing<String>), ServerError> {
        check_token(&new.name, &new.kind)?;
        let now = self.clock.now();
        let expires_at = expires_at(new.expiry, now)?;
        let secret = Zeroizing::new(self.ids.uuid());
        let entry = AclTokenEntry {
            name: new.name,
            policies: policies_of(new.kind),
            is_global: new.is_global,
            secret_hash: SecretHash::of(secret.as_bytes()).0,
            expires_at,
        };
        let key = AclKey::Token(self.ids.uuid());
        let event = AclEvent::Written { entry: AclEntry::Token(entry), expected: None };
        let made = (key.clone(), event);
        let done = AclEvent::Written { entry: AclEntry::Bootstrapped, expected: None };
        // From the first token on, no server of the cluster is open.
        let is_first = self.cell.read(|state| state.acl(&AclKey::Bootstrap).is_none());
        let first = is_first.then_some((AclKey::Bootstrap, done));
        match self.commit(first.into_iter().chain([made.clone()]).collect()).await {
            // Another one was the first.
            Err(CommitError::InvalidEvent(_)) if is_first => {
                self.commit(vec![made]).await?;
            }
            result => drop(result?),
        }
        Ok((self.recorded(&key)?, secret))
    }

    /// Changes the name and the rights of a token.
    ///
    /// # Errors
    /// If there is no such token, the change is not valid, or it cannot be recorded.
    pub async fn update_token(
        &self,
        accessor: &str,
        update: TokenUpdate,
    ) -> Result<Arc<AclRecord>, ServerError> {
        check_token(&update.name, &update.kind)?;
        let key = AclKey::Token(accessor.to_owned());
        for _ in 0..CONFLICT_RETRIES {
            let known = self.cell.read(|state| state.acl(&key).cloned());
            let known = known.ok_or_else(|| AclError::NoToken(accessor.to_owned()))?;
            let Some(before) = known.token() else {
                return Err(AclError::NoToken(accessor.to_owned()).into());
            };
            let entry = AclTokenEntry {
                name: update.name.clone(),
                policies: policies_of(update.kind.clone()),
                ..before.clone()
            };
            let expected = Some(known.modify_index);
            let event = AclEvent::Written { entry: AclEntry::Token(entry), expected };
            match self.commit(vec![(key.clone(), event)]).await {
                Err(CommitError::InvalidEvent(_)) => {}
                result => {
                    result?;
                    return Ok(self.recorded(&key)?);
                }
            }
        }
        Err(AclError::Busy(format!("token `{accessor}`")).into())
    }

    /// Deletes a token. Returns the index of the write.
    ///
    /// # Errors
    /// If there is none, or it cannot be recorded.
    pub async fn delete_token(&self, accessor: &str) -> Result<u64, ServerError> {
        let missing = AclError::NoToken(accessor.to_owned());
        self.delete(AclKey::Token(accessor.to_owned()), missing).await
    }

    /// Creates a policy, or changes it. Returns the index of the write.
    ///
    /// # Errors
    /// If it is not valid, or cannot be recorded.
    pub async fn write_policy(
        &self,
        name: &str,
        policy: AclPolicyEntry,
    ) -> Result<u64, ServerError> {
        check_policy(name, &policy)?;
        let key = AclKey::Policy(name.to_owned());
        let event = AclEvent::Written { entry: AclEntry::Policy(policy), expected: None };
        Ok(self.commit(vec![(key, event)]).await?)
    }

    /// Deletes a policy. Tokens that name it lose what it granted. Returns the index of the write.
    ///
    /// # Errors
    /// If there is none, or it cannot be recorded.
    pub async fn delete_policy(&self, name: &str) -> Result<u64, ServerError> {
        self.delete(AclKey::Policy(name.to_owned()), AclError::NoPolicy(name.to_owned())).await
    }

    async fn delete(&self, key: AclKey, missing: AclError) -> Result<u64, ServerError> {
        match self.commit(vec![(key, AclEvent::Deleted)]).await {
            Err(CommitError::InvalidEvent(_)) => Err(missing.into()),
            result => Ok(result?),
        }
    }

    /// Removes expired tokens, until `stopping`.
    pub async fn expire_tokens(self, stopping: CancellationToken) {
        let removing = async {
            loop {
                tokio::time::sleep(EXPIRY_PERIOD).await;
                self.remove_expired().await;
            }
        };
        stopping.run_until_cancelled(removing).await;
    }

    async fn remove_expired(&self) {
        let now = self.clock.now();
        for key in self.cell.read(|state| expired(state, now)) {
            match self.commit(vec![(key.clone(), AclEvent::Deleted)]).await {
                // Another request has deleted it.
                Ok(_) | Err(CommitError::InvalidEvent(_)) => {}
                Err(error) => {
                    tracing::warn!(error = %ServerError::from(error), "an expired token was not removed");
                    return;
                }
            }
        }
    }

    fn recorded(&self, key: &AclKey) -> Result<Arc<AclRecord>, AclError> {
        let record = self.cell.read(|state| state.acl(key).cloned());
        // Another client may have deleted it since.
        record.ok_or_else(|| AclError::Busy("the token".to_owned()))
    }

    async fn commit(&self, changes: Vec<(AclKey, AclEvent)>) -> Result<u64, CommitError> {
        let now = self.clock.now();
        let names: Vec<_> =
            changes.iter().map(|(key, event)| (key.clone(), event.name())).collect();
        let kinds = changes.into_iter().map(|(key, event)| EventKind::Acl { key, event });
        let events = kinds.map(|kind| Event::new(now, kind)).collect();
        let index = self.cell.commit_all(vec![], events).await?;
        for (key, what) in names {
            tracing::info!(?key, index, "{what}");
        }
        Ok(index)
    }
}

fn expired(state: &State, now: i64) -> Vec<AclKey> {
    let tokens = state.acl_tokens();
    let ended = tokens.filter(|record| record.token().is_some_and(|token| token.is_expired(now)));
    ended.map(|record| record.key.clone()).collect()
}

fn policies_of(kind: TokenKind) -> Option<BTreeSet<String>> {
    match kind {
        TokenKind::Management => None,
        TokenKind::Client(policies) => Some(policies),
    }
}

/// Checks a token by Nomad's rules.
fn check_token(name: &str, kind: &TokenKind) -> Result<(), AclError> {
    if name.chars().count() > MAX_NAME {
        return Err(AclError::Invalid("token name too long".to_owned()));
    }
    match kind {
        TokenKind::Client(policies) if policies.is_empty() => {
            Err(AclError::Invalid("client token missing policies or roles".to_owned()))
        }
        TokenKind::Client(_) | TokenKind::Management => Ok(()),
    }
}

/// Checks a policy: its name by Nomad's rule, and that every word of it is known.
fn check_policy(name: &str, policy: &AclPolicyEntry) -> Result<(), AclError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if !(1..=MAX_POLICY_NAME).contains(&name.len()) || !name.chars().all(is_allowed) {
        return Err(AclError::Invalid(format!("invalid name '{name}'")));
    }
    if policy.description.chars().count() > MAX_NAME {
        return Err(AclError::Invalid(format!("description longer than {MAX_NAME}")));
    }
    if policy.rules.len() > MAX_RULES {
        return Err(AclError::Invalid(format!("the rules are longer than {MAX_RULES} bytes")));
    }
    let checked = checked_acl_policy(&policy.rules).map(drop);
    checked.map_err(|why| AclError::Invalid(format!("failed to parse rules: {why}")))
}

fn expires_at(expiry: TokenExpiry, now: i64) -> Result<Option<i64>, AclError> {
    let end = match expiry {
        TokenExpiry::Never => return Ok(None),
        TokenExpiry::At(end) => end,
        TokenExpiry::After(life) => {
            now.saturating_add(i64::try_from(life.as_nanos()).unwrap_or(i64::MAX))
        }
    };
    let shortest = i64::try_from(SHORTEST_LIFE.as_nanos()).unwrap_or(i64::MAX);
    if end.saturating_sub(now) < shortest {
        let why = "the token would expire in less than a minute".to_owned();
        return Err(AclError::Invalid(why));
    }
    Ok(Some(end))
}

/// Returns whether a text has the form of a UUID.
fn is_uuid(text: &str) -> bool {
    let lengths = [8, 4, 4, 4, 12];
    let mut parts = text.split('-');
    let fits = |length: &usize| {
        parts.next().is_some_and(|part| {
            part.len() == *length && part.chars().all(|c| c.is_ascii_hexdigit())
        })
    };
    lengths.iter().all(fits) && parts.next().is_none()
}

#[cfg(test)]
mod tests;
