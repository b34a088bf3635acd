//! What people read of variables: one, or a list in pages, by namespace and path.

use std::ops::Bound;
use std::sync::Arc;

use super::list::{InvalidToken, join_token, split_token};
use super::tables::State;
use super::variable::VariableRecord;
use crate::model::{Namespace, VariableKey, VariablePath};

/// Which variables a list is to show. Both conditions hold together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableFilter {
    /// One namespace, or `*`.
    pub namespace: Namespace,
    /// Only paths that start so, segments or not; empty for all.
    pub prefix: String,
}

/// Where a page begins: the variable of that name, or the next one if it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableToken(VariableKey);

impl VariableToken {
    /// Reads what [`VariableToken`]'s `Display` wrote.
    ///
    /// # Errors
    /// If there is no `.` in it.
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
    /// By namespace and path, in byte order.
    pub variables: Vec<Arc<VariableRecord>>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<VariableToken>,
}

/// The variables that match, from `start` on (of the first, if there is none), at most `limit` of
/// them (all, if it is 0).
pub fn variables(
    state: &State,
    filter: &VariableFilter,
    start: Option<&VariableToken>,
    limit: usize,
) -> VariablePage {
    let everywhere = filter.namespace.as_str() == Namespace::ALL;
    let first = VariableKey::new(filter.namespace.clone(), VariablePath::new(&*filter.prefix));
    let first = (!everywhere).then_some(&first);
    let from = first.max(start.map(|token| &token.0));
    let from = from.map_or(Bound::Unbounded, Bound::Included);
    let begins = |key: &VariableKey| key.path.as_str().starts_with(&filter.prefix);
    let mut page = VariablePage::default();
    for (key, record) in state.variables.range((from, Bound::Unbounded)) {
        // Within one namespace, paths of one prefix stand together.
        if !everywhere && (key.namespace != filter.namespace || !begins(key)) {
            break;
        }
        if !begins(key) {
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

/// Locks that end at `time` at the latest, with the variables that they hold.
pub fn ended_locks(state: &State, time: i64) -> Vec<VariableKey> {
    let ended = state.lock_ends.iter().take_while(|(at, _)| *at <= time);
    ended.map(|(_, key)| key.clone()).collect()
}

/// When the next lock ends, nanoseconds since the epoch; `None` if nothing is held.
pub fn next_lock_end(state: &State) -> Option<i64> {
    state.lock_ends.first().map(|(at, _)| *at)
}
