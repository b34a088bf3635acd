//! The subjects that a reader can wait for: one object, or the objects of a list.

use serde::{Deserialize, Serialize};

use super::event::Subject;
use nomad_csi_model::Namespace;

/// A change that a reader waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Topic {
    /// Any change of one object, which need not exist.
    Object(Subject),
    /// Any change of an object in a list.
    List(ListTopic),
}

/// The objects of a table whose names have a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListTopic {
    /// The table.
    pub table: Table,
    /// The first part of the keys, such as the namespace; `None` for any.
    pub group: Option<String>,
    /// The beginning of the names; empty for all.
    pub prefix: String,
}

/// A table of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// The policies and tokens of the ACL.
    Acl,
    /// The allocations.
    Allocs,
    /// The claims.
    Claims,
    /// The jobs with their evaluations.
    Jobs,
    /// The namespaces.
    Namespaces,
    /// The nodes.
    Nodes,
    /// The plugins.
    Plugins,
    /// The variables.
    Variables,
    /// The volumes.
    Volumes,
}

impl Topic {
    /// Any change in a table.
    pub fn all(table: Table) -> Self {
        Self::with_prefix(table, "")
    }

    /// Any change of an object with this prefix.
    pub fn with_prefix(table: Table, prefix: &str) -> Self {
        Self::List(ListTopic { table, group: None, prefix: prefix.to_owned() })
    }

    /// Any change of an object with this prefix, in a namespace or in [`Namespace::ALL`].
    pub fn list(table: Table, namespace: &Namespace, prefix: &str) -> Self {
        let is_one = namespace.as_str() != Namespace::ALL;
        Self::List(ListTopic {
            table,
            group: is_one.then(|| namespace.to_string()),
            prefix: prefix.to_owned(),
        })
    }
}

impl Subject {
    /// Returns the table and the key of the object. A key has two parts, such as namespace and name;
    /// without a namespace the first one is empty.
    pub fn place(&self) -> (Table, &str, &str) {
        match self {
            Self::Acl(key) => (Table::Acl, key.group(), key.name()),
            Self::Alloc(id) => (Table::Allocs, "", id.as_str()),
            Self::Claims(volume) => {
                (Table::Claims, volume.plugin_id.as_str(), volume.external_id.as_str())
            }
            Self::Job(key) => (Table::Jobs, key.namespace.as_str(), key.id.as_str()),
            Self::Namespace(name) => (Table::Namespaces, "", name.as_str()),
            Self::Node(id) => (Table::Nodes, "", id.as_str()),
            Self::Plugin(id) => (Table::Plugins, "", id.as_str()),
            Self::Variable(key) => (Table::Variables, key.namespace.as_str(), key.path.as_str()),
            Self::Volume(key) => (Table::Volumes, key.namespace.as_str(), key.id.as_str()),
        }
    }
}
