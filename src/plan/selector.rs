//! A volume's name as options of the command line take it.

use nomad_csi_model::{Namespace, NamespacedId};

/// Returns a volume's name on the command line: `db`, or `prod/db` outside the default namespace.
pub(super) fn selector(key: &NamespacedId) -> String {
    if key.namespace == Namespace::default() {
        return key.id.to_string();
    }
    format!("{}/{}", key.namespace, key.id)
}
