//! A namespace, as far as its name (`nomad-neighbour-apis` 4.3).

use serde::{Deserialize, Serialize};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub struct NamespaceDocument {
    /// For people.
    pub description: String,
    /// Its name.
    pub name: String,
}
