//! What a reader can wait for: one object, or the objects of a list.

use super::event::Subject;
use crate::model::Namespace;

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
    /// The namespace; `None` for all, and for tables without namespaces.
    pub namespace: Option<Namespace>,
    /// The beginning of the names; empty for all.
    pub prefix: String,
}

/// A table of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// The allocations that claim volumes.
    Allocs,
    /// The claims.
    Claims,
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
        Self::List(ListTopic {
            table,
            namespace: None,
            prefix: prefix.to_owned(),
        })
    }

    /// Any change of an object with this prefix, in a namespace or in [`Namespace::ALL`].
    pub fn list(table: Table, namespace: &Namespace, prefix: &str) -> Self {
        Self::List(ListTopic {
            table,
            namespace: Some(namespace.clone()).filter(|name| name.as_str() != Namespace::ALL),
            prefix: prefix.to_owned(),
        })
    }
}

impl Subject {
    /// Returns where lists have the object: its table, its namespace and its name.
    pub fn place(&self) -> (Table, Option<&Namespace>, &str) {
        match self {
            Self::Alloc(id) => (Table::Allocs, None, id.as_str()),
            Self::Claims(volume) => (Table::Claims, None, volume.external_id.as_str()),
            Self::Node(id) => (Table::Nodes, None, id.as_str()),
            Self::Plugin(id) => (Table::Plugins, None, id.as_str()),
            Self::Variable(key) => (Table::Variables, Some(&key.namespace), key.path.as_str()),
            Self::Volume(key) => (Table::Volumes, Some(&key.namespace), key.id.as_str()),
        }
    }
}
