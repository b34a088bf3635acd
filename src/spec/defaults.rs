//! Values of fields that a specification does not set.

use nomad_csi_model::Namespace;

/// The defaults of a specification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// The namespace of a volume without one.
    pub namespace: Namespace,
}
