//! The stored namespaces, their changes, and what they contain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use nomad_csi_model::{JobKey, Namespace, NamespacedId, VariableKey};

/// A stored namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceRecord {
    /// The name.
    pub name: Namespace,
    /// A description for people.
    pub description: String,
    /// Values for people and programs, which mean nothing to the agent.
    pub meta: BTreeMap<String, String>,
    /// The index of the first event.
    pub create_index: u64,
    /// The index of the last change.
    pub modify_index: u64,
}

/// A change of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NamespaceEvent {
    /// It was created, or changed.
    Written {
        /// The description.
        description: String,
        /// The values.
        meta: BTreeMap<String, String>,
    },
    /// It was deleted, while it was empty.
    Deleted,
}

/// The contents of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceContents {
    /// The volumes, in any phase.
    pub volumes: Vec<NamespacedId>,
    /// The jobs that were not stopped.
    pub running_jobs: Vec<JobKey>,
    /// The jobs that were stopped and are still on record.
    pub stopped_jobs: Vec<JobKey>,
    /// The variables.
    pub variables: Vec<VariableKey>,
}

impl NamespaceContents {
    /// Returns whether only stopped jobs are in the namespace, whose tasks are ending.
    pub fn has_only_stopped_jobs(&self) -> bool {
        let Self { volumes, running_jobs, stopped_jobs, variables } = self;
        let is_rest_empty = volumes.is_empty() && running_jobs.is_empty() && variables.is_empty();
        is_rest_empty && !stopped_jobs.is_empty()
    }

    /// Returns whether nothing is in the namespace.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl NamespaceEvent {
    /// Returns the event's name for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Written { .. } => "namespace written",
            Self::Deleted => "namespace deleted",
        }
    }
}

impl NamespaceRecord {
    /// Creates a namespace without a description.
    pub(super) fn new(name: Namespace, index: u64) -> Self {
        Self {
            name,
            description: String::new(),
            meta: BTreeMap::new(),
            create_index: index,
            modify_index: index,
        }
    }
}
