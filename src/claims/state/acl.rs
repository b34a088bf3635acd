//! The ACL in the state: an object is written over the one that its writer saw, and a secret is of one token.

use std::sync::Arc;

use super::acl_record::{AclEntry, AclEvent, AclKey, AclRecord};
use super::tables::State;
use crate::claim::EventPlace;

impl State {
    /// Returns an object of the ACL.
    pub fn acl(&self, key: &AclKey) -> Option<&Arc<AclRecord>> {
        self.acl.get(key)
    }

    /// Returns all policies, sorted by name.
    pub fn acl_policies(&self) -> impl Iterator<Item = &Arc<AclRecord>> {
        self.acl.values().filter(|record| record.policy().is_some())
    }

    /// Returns all tokens, sorted by accessor ID.
    pub fn acl_tokens(&self) -> impl Iterator<Item = &Arc<AclRecord>> {
        self.acl.values().filter(|record| record.token().is_some())
    }

    /// Returns the token whose secret has this SHA-256.
    pub fn acl_token_of(&self, secret_hash: &str) -> Option<&Arc<AclRecord>> {
        self.acl.get(self.acl_secrets.get(secret_hash)?)
    }

    /// Returns the index of the last event that changed the ACL.
    pub fn acl_index(&self) -> u64 {
        self.acl_index
    }

    /// Inserts an object and replaces one of the same name.
    pub(super) fn put_acl(&mut self, record: Arc<AclRecord>) {
        self.remove_acl(&record.key);
        if let Some(token) = record.token() {
            self.acl_secrets.insert(token.secret_hash.clone(), record.key.clone());
        }
        self.acl.insert(record.key.clone(), record);
    }

    /// Removes an object, if it exists.
    pub(super) fn remove_acl(&mut self, key: &AclKey) {
        let removed = self.acl.remove(key);
        if let Some(token) = removed.as_ref().and_then(|record| record.token()) {
            self.acl_secrets.remove(&token.secret_hash);
        }
    }
}

/// Returns whether an event about the ACL fits.
pub(super) fn is_acl_event_valid(state: &State, key: &AclKey, event: &AclEvent) -> bool {
    let record = state.acl.get(key);
    let (entry, expected) = match event {
        AclEvent::Written { entry, expected } => (entry, *expected),
        AclEvent::Deleted => return record.is_some() && *key != AclKey::Bootstrap,
    };
    let is_expected = match (expected, record) {
        (Some(index), Some(record)) => index == record.modify_index,
        (Some(_), None) => false,
        (None, _) => true,
    };
    is_expected
        && match (key, entry) {
            // The first token is made once.
            (AclKey::Bootstrap, AclEntry::Bootstrapped) => record.is_none(),
            (AclKey::Policy(_), AclEntry::Policy(_)) => true,
            (AclKey::Token(_), AclEntry::Token(token)) => {
                let owner = state.acl_secrets.get(&token.secret_hash);
                owner.is_none_or(|owner| owner == key)
            }
            (AclKey::Bootstrap | AclKey::Policy(_) | AclKey::Token(_), _) => false,
        }
}

/// Performs an event about the ACL.
pub(super) fn apply_acl(state: &mut State, key: &AclKey, event: &AclEvent, at: EventPlace) {
    state.acl_index = at.index;
    match event {
        AclEvent::Written { entry, .. } => {
            let before = state.acl.get(key);
            let (create_index, create_time) = before
                .map_or((at.index, at.time), |record| (record.create_index, record.create_time));
            state.put_acl(Arc::new(AclRecord {
                key: key.clone(),
                entry: entry.clone(),
                create_index,
                modify_index: at.index,
                create_time,
            }));
        }
        AclEvent::Deleted => state.remove_acl(key),
    }
}

/// Returns why the ACL contradicts itself or the rest of the state.
pub(super) fn acl_problems(state: &State) -> Vec<String> {
    let mut found = vec![];
    for (key, record) in &state.acl {
        let order = [record.create_index, record.modify_index, state.acl_index];
        let fits = match (key, &record.entry) {
            (AclKey::Bootstrap, AclEntry::Bootstrapped)
            | (AclKey::Policy(_), AclEntry::Policy(_))
            | (AclKey::Token(_), AclEntry::Token(_)) => true,
            (AclKey::Bootstrap | AclKey::Policy(_) | AclKey::Token(_), _) => false,
        };
        if record.key != *key || !order.is_sorted() || !fits {
            found.push(format!("the ACL object {} {} is misplaced", key.group(), key.name()));
        }
    }
    let secrets = state.acl.iter().filter_map(|(key, record)| {
        record.token().map(|token| (token.secret_hash.clone(), key.clone()))
    });
    if state.acl_secrets != secrets.collect() {
        found.push("the index of tokens by secret differs from the tokens".to_owned());
    }
    found
}
