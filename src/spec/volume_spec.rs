//! A wanted volume, each field with the place it was written at.

use std::collections::BTreeMap;

use crate::diagnostic::Span;
use crate::model::{NamespacedId, VolumeRequest};

/// One wanted volume of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// What is wanted, as it is sent to a server.
    pub request: VolumeRequest,
    /// Whether the file said a namespace; if not, the flag's or `default` was taken.
    pub namespace_given: bool,
    /// The whole specification: the block or the file.
    pub span: Span,
    /// Where each field was written, by its key in the file: `capacity_min`, `plugin_id`. A field
    /// that was not written has none.
    pub fields: BTreeMap<&'static str, Span>,
}

impl VolumeSpec {
    /// Namespace and ID.
    pub fn key(&self) -> NamespacedId {
        self.request.key()
    }

    /// Where to point for a field: at the field, or at the whole specification if it was not written.
    pub fn field_span(&self, field: &str) -> Span {
        self.fields.get(field).copied().unwrap_or(self.span)
    }
}
