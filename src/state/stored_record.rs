//! [`StoredRecord`]: what the state has about one object, to copy it and to store it.

use std::collections::HashSet;
use std::sync::Arc;

use super::event::Subject;
use super::plugin_record::PluginRecord;
use super::record::VolumeRecord;
use super::tables::State;
use super::variable::VariableRecord;
use crate::model::{Node, PluginId};

/// Everything about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredRecord {
    /// A node.
    Node(Node),
    /// A plugin.
    Plugin(PluginId, PluginRecord),
    /// A variable.
    Variable(Arc<VariableRecord>),
    /// A volume, in any phase.
    Volume(Arc<VolumeRecord>),
}

impl StoredRecord {
    /// Returns the object.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Node(node) => Subject::Node(node.id.clone()),
            Self::Plugin(id, _) => Subject::Plugin(id.clone()),
            Self::Variable(record) => Subject::Variable(record.key.clone()),
            Self::Volume(record) => Subject::Volume(record.key().clone()),
        }
    }
}

impl State {
    /// Returns what the state has about an object.
    pub(super) fn stored(&self, subject: &Subject) -> Option<StoredRecord> {
        match subject {
            Subject::Node(id) => self.nodes.get(id).cloned().map(StoredRecord::Node),
            Subject::Plugin(id) => {
                let record = self.plugins.get(id).cloned();
                record.map(|record| StoredRecord::Plugin(id.clone(), record))
            }
            Subject::Variable(key) => self.variables.get(key).cloned().map(StoredRecord::Variable),
            Subject::Volume(key) => self.volumes.get(key).cloned().map(StoredRecord::Volume),
        }
    }

    /// Inserts a record and replaces one of the same object.
    pub(super) fn store(&mut self, record: StoredRecord) {
        match record {
            StoredRecord::Node(node) => drop(self.nodes.insert(node.id.clone(), node)),
            StoredRecord::Plugin(id, record) => drop(self.plugins.insert(id, record)),
            StoredRecord::Variable(record) => self.put_variable(record),
            StoredRecord::Volume(record) => self.put(record),
        }
    }

    /// Removes an object, if it exists.
    pub(super) fn discard(&mut self, subject: &Subject) {
        match subject {
            Subject::Node(id) => drop(self.nodes.remove(id)),
            Subject::Plugin(id) => drop(self.plugins.remove(id)),
            Subject::Variable(key) => self.remove_variable(key),
            Subject::Volume(key) => self.remove(key),
        }
    }

    /// Returns all objects.
    pub(super) fn all_subjects(&self) -> HashSet<Subject> {
        let nodes = self.nodes.keys().cloned().map(Subject::Node);
        let plugins = self.plugins.keys().cloned().map(Subject::Plugin);
        let variables = self.variables.keys().cloned().map(Subject::Variable);
        let volumes = self.volumes.keys().cloned().map(Subject::Volume);
        nodes
            .chain(plugins)
            .chain(variables)
            .chain(volumes)
            .collect()
    }
}
