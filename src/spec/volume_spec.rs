//! A wanted volume, each field with the place it was written at.

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::Span;
use crate::model::{HiddenField, NamespacedId, SetName, WantedRequest};

/// One wanted volume of one file.
///
/// What was read without an error is complete and may be sent; of a file with errors this holds what
/// could be read, so that all problems can be told at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// What is wanted, as it is sent to a server once its secrets are resolved.
    pub request: WantedRequest,
    /// Whether the file said a namespace; if not, the flag's or `default` was taken.
    pub namespace_given: bool,
    /// Whether its users only read, if that was said: held against the access modes, never sent.
    pub read_only: Option<bool>,
    /// Whether the volume is protected from removal, if that was said; kept in the ledger, never sent.
    pub protect: Option<bool>,
    /// Fields whose drift is ignored, by their keys, dotted where they are nested
    /// (`mount_options.fs_type`); never sent.
    pub ignore: Vec<String>,
    /// Hidden values that the file says to be unknown: not given, and on purpose. They make no
    /// difference and are never sent; whatever would lose them is not done.
    pub unknown: BTreeSet<HiddenField>,
    /// The set that the file names, and where.
    pub set: Option<(SetName, Span)>,
    /// Where to point for the specification as a whole: the block's header, or the ID's line.
    pub span: Span,
    /// Where each field was written, by its key in the file: `capacity_min`, `plugin_id`. A field
    /// that was not written has none.
    pub fields: BTreeMap<&'static str, Span>,
    /// Where each of the request's capabilities was written.
    pub capability_spans: Vec<Span>,
    /// Where the value of each secret was written, by the secret's key.
    pub secret_spans: BTreeMap<String, Span>,
}

/// What specifications are to be used for: which rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// `volume create`: the provider makes them.
    Create,
    /// `volume register`: the provider has them.
    Register,
    /// An `external_id` says that the provider has it, its absence that the provider makes it.
    ByExternalId,
}

impl Purpose {
    /// Whether a specification creates its volume.
    pub fn creates(self, spec: &VolumeSpec) -> bool {
        match self {
            Self::Create => true,
            Self::Register => false,
            Self::ByExternalId => spec.request.external_id.is_none(),
        }
    }
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

    /// Whether the drift of a field is ignored: of the field itself, or of what it is a part of.
    pub fn ignores(&self, field: &str) -> bool {
        self.ignore.iter().any(|of| is_part_of(field, of))
    }

    /// Where to point for a secret: at its value, or at the whole specification.
    pub fn secret_span(&self, key: &str) -> Span {
        let own = self.secret_spans.get(key).copied();
        own.unwrap_or_else(|| self.field_span("secrets"))
    }

    /// What is to be sent: the request, but a creation never sends a `context`, which Nomad would
    /// hand to the driver on the second run although the provider did not give it.
    pub fn request_for(&self, purpose: Purpose) -> WantedRequest {
        let mut request = self.request.clone();
        if purpose.creates(self) {
            request.context = None;
        }
        request
    }
}

/// Whether a field is another one or a part of it: `mount_options.fs_type` is one of `mount_options`.
pub fn is_part_of(field: &str, of: &str) -> bool {
    let rest = field.strip_prefix(of);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
