//! Namespaces, as text.

use super::table::table;
use nomad_csi_wire::NamespaceDocument;

/// Returns a table of namespaces.
pub(crate) fn namespace_list(namespaces: &[NamespaceDocument]) -> String {
    let rows =
        namespaces.iter().map(|namespace| [namespace.name.clone(), namespace.description.clone()]);
    table(["Name", "Description"], rows)
}
