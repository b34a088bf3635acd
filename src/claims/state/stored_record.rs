//! [`StoredRecord`]: what the state has about one object, to copy it and to store it.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::acl_record::AclRecord;
use super::claims_record::{AllocRecord, ClaimsRecord, NodeLoss};
use super::event::Subject;
use super::job_record::JobRecord;
use super::namespace_record::NamespaceRecord;
use super::plugin_record::PluginRecord;
use super::record::VolumeRecord;
use super::tables::State;
use super::variable::VariableRecord;
use nomad_csi_model::{AllocId, HostSession, Node, NodeId, PluginId};

/// Everything about one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoredRecord {
    /// An object of the ACL.
    Acl(Arc<AclRecord>),
    /// An allocation.
    Alloc(AllocId, AllocRecord),
    /// The claims of an external volume.
    Claims(Arc<ClaimsRecord>),
    /// A job.
    Job(Arc<JobRecord>),
    /// A namespace.
    Namespace(Arc<NamespaceRecord>),
    /// A node.
    Node(Box<StoredNode>),
    /// A plugin.
    Plugin(PluginId, PluginRecord),
    /// A variable.
    Variable(Arc<VariableRecord>),
    /// A volume, in any phase.
    Volume(Arc<VolumeRecord>),
}

/// A node with what claims need to know of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredNode {
    /// The node.
    pub node: Node,
    /// The boot ID of its machine; `None` until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// The run of its process; `None` until it is known. Since version 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<HostSession>,
    /// The SHA-256 of its secret; `None` if it has none. Since version 10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_hash: Option<String>,
    /// Its loss; `None` if it is not lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<NodeLoss>,
}

impl From<Node> for StoredNode {
    fn from(node: Node) -> Self {
        Self { node, boot_id: None, session: None, secret_hash: None, loss: None }
    }
}

impl StoredRecord {
    /// Returns the object.
    pub fn subject(&self) -> Subject {
        match self {
            Self::Acl(record) => Subject::Acl(record.key.clone()),
            Self::Alloc(id, _) => Subject::Alloc(id.clone()),
            Self::Claims(record) => Subject::Claims(record.volume.clone()),
            Self::Job(record) => Subject::Job(record.key()),
            Self::Namespace(record) => Subject::Namespace(record.name.clone()),
            Self::Node(stored) => Subject::Node(stored.node.id.clone()),
            Self::Plugin(id, _) => Subject::Plugin(id.clone()),
            Self::Variable(record) => Subject::Variable(record.key.clone()),
            Self::Volume(record) => Subject::Volume(record.key().clone()),
        }
    }
}

impl State {
    /// Returns what the state has about an object.
    pub fn stored(&self, subject: &Subject) -> Option<StoredRecord> {
        match subject {
            Subject::Acl(key) => self.acl.get(key).cloned().map(StoredRecord::Acl),
            Subject::Alloc(id) => {
                let record = self.allocs.get(id).cloned();
                record.map(|record| StoredRecord::Alloc(id.clone(), record))
            }
            Subject::Claims(volume) => self.claims.get(volume).cloned().map(StoredRecord::Claims),
            Subject::Job(key) => self.jobs.get(key).cloned().map(StoredRecord::Job),
            Subject::Namespace(name) => {
                self.namespaces.get(name).cloned().map(StoredRecord::Namespace)
            }
            Subject::Node(id) => {
                let stored = |node: &Node| StoredNode {
                    node: node.clone(),
                    boot_id: self.boots.get(id).cloned(),
                    session: self.sessions.get(id).cloned(),
                    secret_hash: self.node_secrets.get(id).cloned(),
                    loss: self.losses.get(id).cloned(),
                };
                let node = self.nodes.get(id).map(stored);
                node.map(|node| StoredRecord::Node(Box::new(node)))
            }
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
            StoredRecord::Acl(record) => self.put_acl(record),
            StoredRecord::Alloc(id, record) => self.put_alloc(id, record),
            StoredRecord::Claims(record) => self.put_claims(record),
            StoredRecord::Job(record) => self.put_job(record),
            StoredRecord::Namespace(record) => {
                drop(self.namespaces.insert(record.name.clone(), record));
            }
            StoredRecord::Node(stored) => self.store_node(*stored),
            StoredRecord::Plugin(id, record) => drop(self.plugins.insert(id, record)),
            StoredRecord::Variable(record) => self.put_variable(record),
            StoredRecord::Volume(record) => self.put(record),
        }
    }

    fn store_node(&mut self, stored: StoredNode) {
        let id = stored.node.id.clone();
        put(&mut self.boots, &id, stored.boot_id);
        put(&mut self.sessions, &id, stored.session);
        put(&mut self.node_secrets, &id, stored.secret_hash);
        put(&mut self.losses, &id, stored.loss);
        self.nodes.insert(id, stored.node);
    }

    /// Removes an object, if it exists.
    pub(super) fn discard(&mut self, subject: &Subject) {
        match subject {
            Subject::Acl(key) => self.remove_acl(key),
            Subject::Alloc(id) => self.remove_alloc(id),
            Subject::Claims(volume) => self.remove_claims(volume),
            Subject::Job(key) => self.remove_job(key),
            Subject::Namespace(name) => drop(self.namespaces.remove(name)),
            Subject::Node(id) => {
                self.nodes.remove(id);
                self.boots.remove(id);
                self.sessions.remove(id);
                self.node_secrets.remove(id);
                self.losses.remove(id);
            }
            Subject::Plugin(id) => drop(self.plugins.remove(id)),
            Subject::Variable(key) => self.remove_variable(key),
            Subject::Volume(key) => self.remove(key),
        }
    }

    /// Returns all objects.
    pub fn all_subjects(&self) -> HashSet<Subject> {
        let acl = self.acl.keys().cloned().map(Subject::Acl);
        let allocs = self.allocs.keys().cloned().map(Subject::Alloc);
        let claims = self.claims.keys().cloned().map(Subject::Claims);
        let jobs = self.jobs.keys().cloned().map(Subject::Job);
        let namespaces = self.namespaces.keys().cloned().map(Subject::Namespace);
        let nodes = self.nodes.keys().cloned().map(Subject::Node);
        let plugins = self.plugins.keys().cloned().map(Subject::Plugin);
        let variables = self.variables.keys().cloned().map(Subject::Variable);
        let volumes = self.volumes.keys().cloned().map(Subject::Volume);
        nodes
            .chain(plugins)
            .chain(variables)
            .chain(volumes)
            .chain(allocs)
            .chain(claims)
            .chain(jobs)
            .chain(namespaces)
            .chain(acl)
            .collect()
    }
}

/// Sets what a table has about a node.
fn put<T>(table: &mut BTreeMap<NodeId, T>, id: &NodeId, value: Option<T>) {
    match value {
        Some(value) => drop(table.insert(id.clone(), value)),
        None => drop(table.remove(id)),
    }
}
