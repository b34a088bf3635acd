//! Lists of variables, sorted by namespace and path, and the ends of their locks.

use std::ops::Bound;
use std::sync::Arc;

use super::list::{InvalidToken, join_token, split_token};
use super::tables::State;
use super::variable::VariableRecord;
use nomad_csi_model::{Namespace, VariableKey, VariablePath};

/// The conditions of a variable list. Both apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableFilter {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only paths with this prefix, at any character; empty for all.
    pub prefix: String,
}

/// The start of a page: this variable, or the next one if it no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableToken(VariableKey);

impl VariableToken {
    /// Parses the output of `Display`.
    ///
    /// # Errors
    /// Fails if the text contains no `.`.
    pub fn parse(text: &str) -> Result<Self, InvalidToken> {
        let (namespace, path) = split_token(text)?;
        Ok(Self(VariableKey::new(namespace, VariablePath::new(path))))
    }
}

impl std::fmt::Display for VariableToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&join_token(&self.0.namespace, self.0.path.as_str()))
    }
}

/// One page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariablePage {
    /// The variables, sorted by namespace and path.
    pub variables: Vec<Arc<VariableRecord>>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<VariableToken>,
}

/// Returns up to `limit` matching variables for which `is_shown` is true, from `start` on. Without `start` the list begins at the
/// first variable; a limit of 0 returns all.
pub fn variables(
    state: &State,
    filter: &VariableFilter,
    start: Option<&VariableToken>,
    limit: usize,
    is_shown: impl Fn(&VariableKey) -> bool,
) -> VariablePage {
    let everywhere = filter.namespace.as_str() == Namespace::ALL;
    let first = VariableKey::new(filter.namespace.clone(), VariablePath::new(&*filter.prefix));
    let first = (!everywhere).then_some(&first);
    let from = first.max(start.map(|token| &token.0));
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let begins = |key: &VariableKey| key.path.as_str().starts_with(&filter.prefix);
    let mut page = VariablePage::default();
    for (key, record) in state.variables.range((from, Bound::Unbounded)) {
        // Within a namespace, paths with a prefix are consecutive.
        if !everywhere && (key.namespace != filter.namespace || !begins(key)) {
            break;
        }
        if !begins(key) || !is_shown(key) {
            continue;
        }
        if limit > 0 && page.variables.len() == limit {
            page.next = Some(VariableToken(key.clone()));
            break;
        }
        page.variables.push(Arc::clone(record));
    }
    page
}

/// Returns the variables whose locks end at or before `time`.
pub fn expired_locks(state: &State, time: i64) -> Vec<VariableKey> {
    let ended = state.lock_ends.iter().take_while(|(at, _)| *at <= time);
    ended.map(|(_, key)| key.clone()).collect()
}

/// Returns the end of the next lock in nanoseconds since the epoch; `None` without locks.
pub fn next_lock_end(state: &State) -> Option<i64> {
    state.lock_ends.first().map(|(at, _)| *at)
}
