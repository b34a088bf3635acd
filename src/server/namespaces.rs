//! [`NamespaceService`]: creates, changes and deletes namespaces.
//!
//! A namespace is deleted only while nothing is in it. The event of the deletion fits only then, and every
//! event that puts something into a namespace expects it to exist, so neither overtakes the other. Jobs that were stopped
//! and of which nothing is left but their records are forgotten with it, as a server of Nomad does later.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cell::{CommitError, StateCell};
use super::error::{NamespaceError, ServerError};
use super::jobs::{forget_stopped, left_instances};
use nomad_csi_claims::state::{Event, EventKind, NamespaceEvent, NamespaceRecord};
use nomad_csi_model::Namespace;
use nomad_csi_ports::Clock;

/// How often a deletion is decided again after another change.
const CONFLICT_RETRIES: usize = 16;
/// The longest name of a namespace.
const MAX_NAME: usize = 128;
/// The longest description of a namespace, in characters.
const MAX_DESCRIPTION: usize = 256;

/// Creates, changes and deletes namespaces. Clones share their state.
#[derive(Clone)]
pub struct NamespaceService {
    cell: StateCell,
    clock: Arc<dyn Clock>,
}

impl NamespaceService {
    /// A service that records in `cell`, with the time of `clock`.
    pub fn new(cell: StateCell, clock: Arc<dyn Clock>) -> Self {
        Self { cell, clock }
    }

    /// Returns a namespace.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn read(&self, name: &Namespace) -> Result<Arc<NamespaceRecord>, ServerError> {
        let known = self.cell.read(|state| state.namespace(name));
        known.ok_or_else(|| NamespaceError::NotFound(name.clone()).into())
    }

    /// Creates a namespace, or changes it. Returns the index of the write.
    ///
    /// # Errors
    /// If the name or the description is not valid, or the write cannot be recorded.
    pub async fn write(
        &self,
        name: Namespace,
        description: String,
        meta: BTreeMap<String, String>,
    ) -> Result<u64, ServerError> {
        check_name(&name)?;
        if description.chars().count() > MAX_DESCRIPTION {
            let why = format!("the description has more than {MAX_DESCRIPTION} characters");
            return Err(NamespaceError::Invalid(why).into());
        }
        let event = NamespaceEvent::Written { description, meta };
        Ok(self.commit(&name, event, vec![]).await?)
    }

    /// Deletes a namespace that has at most stopped jobs. Returns the index of the write.
    ///
    /// # Errors
    /// If it does not exist, is `default` or has something else, or the write cannot be recorded.
    pub async fn delete(&self, name: &Namespace) -> Result<u64, ServerError> {
        if name.as_str() == Namespace::DEFAULT {
            return Err(NamespaceError::IsDefault.into());
        }
        for _ in 0..CONFLICT_RETRIES {
            let (known, mut contents, forgotten, left) = self.cell.read(|state| {
                let contents = state.namespace_contents(name);
                let forgotten = forget_stopped(state, &contents.stopped_jobs);
                let left = left_instances(state, &contents.stopped_jobs);
                (state.namespace(name), contents, forgotten, left)
            });
            if known.is_none() {
                return Err(NamespaceError::NothingToDelete(name.clone()).into());
            }
            if forgotten.is_some() {
                contents.stopped_jobs.clear();
            }
            if !contents.is_empty() {
                let (namespace, contents) = (name.clone(), Box::new(contents));
                return Err(NamespaceError::InUse { namespace, contents, left }.into());
            }
            let kinds = forgotten.unwrap_or_default();
            match self.commit(name, NamespaceEvent::Deleted, kinds).await {
                Err(CommitError::InvalidEvent(_)) => {}
                result => return Ok(result?),
            }
        }
        Err(NamespaceError::Busy(name.clone()).into())
    }

    async fn commit(
        &self,
        name: &Namespace,
        event: NamespaceEvent,
        before: Vec<EventKind>,
    ) -> Result<u64, CommitError> {
        let what = event.name();
        let kind = EventKind::Namespace { name: name.clone(), event };
        let now = self.clock.now();
        let kinds = before.into_iter().chain([kind]);
        let events = kinds.map(|kind| Event::new(now, kind)).collect();
        let index = self.cell.commit_all(vec![], events).await?;
        tracing::info!(namespace = %name, index, "{what}");
        Ok(index)
    }
}

/// Checks a name by Nomad's rule.
fn check_name(name: &Namespace) -> Result<(), NamespaceError> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let text = name.as_str();
    if (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_allowed) {
        return Ok(());
    }
    Err(NamespaceError::Invalid(format!(
        "`{name}` is not a name of a namespace: it must have 1 to {MAX_NAME} letters, digits and `-`"
    )))
}

#[cfg(test)]
mod tests;
