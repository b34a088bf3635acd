//! A namespace in a list.

use serde::{Deserialize, Serialize};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceDocument {
    /// A description for users.
    pub description: String,
    /// The namespace's name.
    pub name: String,
}
