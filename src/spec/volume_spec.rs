//! A desired volume, with the position of each field.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::origin::Origin;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{HiddenField, NamespacedId, SetName, UnresolvedRequest};

/// Limit of the volumes of one command. Each costs about a kilobyte.
pub const MAX_VOLUMES: usize = 100_000;

/// Returns the error of more volumes.
pub fn too_many_volumes() -> Diagnostic {
    let message = format!("the files declare more than {MAX_VOLUMES} volumes");
    let code = Code::SpecTooManyVolumes;
    Diagnostic::error(code, message).help(code.advice())
}

/// One desired volume of one file.
///
/// It is complete if the file has no errors. Otherwise it has the readable fields, so all problems
/// can be reported together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The request, whose secrets are not resolved yet.
    pub request: UnresolvedRequest,
    /// True if the file sets the namespace, which is otherwise the flag's or `default`.
    pub namespace_given: bool,
    /// The `read_only` field: checked against the access modes, never sent.
    pub read_only: Option<bool>,
    /// The `protect` field: stored in the ledger, never sent.
    pub protect: Option<bool>,
    /// Fields whose drift is ignored, dotted if nested (`mount_options.fs_type`); never sent.
    pub ignore: Vec<String>,
    /// Hidden values that the file declares as unknown. They are never compared or sent, and no
    /// change may lose them.
    pub unknown: BTreeSet<HiddenField>,
    /// The set that the file names, and its position.
    pub set: Option<(SetName, Span)>,
    /// The position of the specification: the block's header, or the line of the ID.
    pub span: Span,
    /// The position of each given field, by its key in the file: `capacity_min`, `plugin_id`.
    pub fields: BTreeMap<&'static str, Span>,
    /// The position of each capability.
    pub capability_spans: Vec<Span>,
    /// The position of each secret's value, by the secret's key.
    pub secret_spans: BTreeMap<String, Span>,
    /// The block of the language that declares the volume, if more than its own literal fields make it.
    pub origin: Option<Arc<Origin>>,
}

/// The use of specifications, which decides the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// `volume create`: the provider creates the volumes.
    Create,
    /// `volume register`: the provider has the volumes.
    Register,
    /// A volume with an `external_id` is registered, any other is created.
    ByExternalId,
}

impl Purpose {
    /// Returns whether a specification creates its volume.
    pub fn creates(self, spec: &VolumeSpec) -> bool {
        match self {
            Self::Create => true,
            Self::Register => false,
            Self::ByExternalId => spec.request.external_id.is_none(),
        }
    }
}

impl VolumeSpec {
    /// Returns the namespace and ID.
    pub fn key(&self) -> NamespacedId {
        self.request.key()
    }

    /// Notes which values are sensitive, by their positions: they are no literals of the file.
    pub(crate) fn mark_evaluated(&mut self, sensitive: &BTreeSet<Span>) {
        if sensitive.is_empty() {
            return;
        }
        let spans = &self.secret_spans;
        let is_sensitive = |key: &str| {
            let span = spans.get(key);
            span.is_some_and(|span| {
                sensitive.iter().any(|of| span.contains(*of) || of.contains(*span))
            })
        };
        if let Some(secrets) = self.request.secrets.take() {
            self.request.secrets = Some(secrets.evaluated(is_sensitive));
        }
    }

    /// Adds the way from the volume's block to the place of a problem of this volume.
    #[must_use]
    pub fn explain(&self, problem: Diagnostic) -> Diagnostic {
        match &self.origin {
            Some(origin) => origin.explain(self.request.id.as_str(), problem, 0),
            None => problem,
        }
    }

    /// Returns the position of a field, or of the specification if the field is missing.
    pub fn field_span(&self, field: &str) -> Span {
        self.fields.get(field).copied().unwrap_or(self.span)
    }

    /// Returns whether the drift of a field, or of a field that contains it, is ignored.
    pub fn ignores(&self, field: &str) -> bool {
        self.ignore.iter().any(|of| is_part_of(field, of))
    }

    /// Returns the position of a secret's value, or of all secrets.
    pub fn secret_span(&self, key: &str) -> Span {
        let own = self.secret_spans.get(key).copied();
        own.unwrap_or_else(|| self.field_span("secrets"))
    }

    /// Returns the request to send for that purpose.
    pub fn request_for(&self, purpose: Purpose) -> UnresolvedRequest {
        let request = self.request.clone();
        if purpose.creates(self) { request.for_create() } else { request }
    }
}

/// Returns whether a field equals another or is part of it: `mount_options.fs_type` is part of
/// `mount_options`.
pub fn is_part_of(field: &str, of: &str) -> bool {
    let rest = field.strip_prefix(of);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
