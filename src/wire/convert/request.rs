//! Conversion of write requests.
//!
//! A request contains user fields only. `MountOptions` is always an object, because Nomad treats
//! `null` and `{}` as different on a volume in use. Values that a server redacted are never sent. A
//! received request yields the same fields (W22: Nomad stores server fields from a request).

use super::volume::{
    capabilities_to_wire, mount_options_from_wire, mount_options_to_wire, non_empty,
    topology_request_from_wire, topology_request_to_wire,
};
use crate::request::{SecretsDocument, VolumeWrite};
use crate::volume::{TopologyDocument, TopologyRequestDocument};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions,
    Namespace, PluginId, VolumeId, VolumeRequest,
};

/// The kind of a write request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The provider creates the volume and chooses its ID and context, so these are not sent.
    Create,
    /// The volume exists at the provider.
    Register,
}

/// A request contains the text that a server shows instead of a hidden value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server hides the {0} (`[REDACTED]`), so they cannot be sent back")]
pub struct RedactedValue(
    /// The field.
    pub &'static str,
);

/// Converts a request to JSON.
///
/// # Errors
/// Fails if a mount flag or a secret is `[REDACTED]`, because the server would store this text.
pub fn request_to_wire(
    request: &VolumeRequest,
    kind: WriteKind,
) -> Result<VolumeWrite, RedactedValue> {
    let options = request.mount_options.clone().unwrap_or_default();
    if options.are_redacted() {
        return Err(RedactedValue("mount flags"));
    }
    let is_redacted = |(_, value): (&str, &str)| value == MountOptions::REDACTED;
    let secrets = request.secrets.as_ref();
    if secrets.is_some_and(|secrets| secrets.expose().any(is_redacted)) {
        return Err(RedactedValue("secrets"));
    }
    let (external_id, context) = match kind {
        WriteKind::Create => (None, None),
        WriteKind::Register => (request.external_id.as_ref(), request.context.clone()),
    };
    Ok(VolumeWrite {
        clone_id: request.clone_id.clone().unwrap_or_default(),
        context,
        external_id: external_id.map_or_else(String::new, ToString::to_string),
        id: request.id.to_string(),
        mount_options: Some(mount_options_to_wire(&options)),
        name: request.name.clone().unwrap_or_default(),
        namespace: request.namespace.to_string(),
        parameters: request.parameters.clone(),
        plugin_id: request.plugin_id.to_string(),
        requested_capabilities: capabilities_to_wire(&request.capabilities),
        requested_capacity_max: request.capacity.max.to_wire(),
        requested_capacity_min: request.capacity.min.to_wire(),
        requested_topologies: request.topology_request.as_ref().map(topology_request_to_wire),
        secrets: request.secrets.clone().map(SecretsDocument),
        snapshot_id: request.snapshot_id.clone().unwrap_or_default(),
    })
}

/// An invalid value in a request, with Nomad's error text where Nomad has one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// The access mode is unknown.
    #[error("unknown volume access mode: {0}")]
    AccessMode(String),
    /// The attachment mode is unknown.
    #[error("unknown volume attachment mode: {0}")]
    AttachmentMode(String),
    /// The size is negative. Nomad stores such a size.
    #[error("{0} cannot be negative")]
    NegativeCapacity(&'static str),
    /// A topology in `required` or `preferred` has no segments.
    #[error("{0} topology is missing segments field")]
    TopologyWithoutSegments(&'static str),
}

/// Converts a request from JSON, and returns its invalid values.
///
/// The namespace in the JSON takes precedence over `fallback` from the query, as in Nomad's Register
/// Volume API. A capability with an unknown mode is omitted, so a request with problems must not be
/// performed. The caller checks required fields.
pub fn request_from_wire(
    document: &VolumeWrite,
    fallback: &Namespace,
) -> (VolumeRequest, Vec<RequestProblem>) {
    let mut problems = vec![];
    let capabilities = capabilities(document, &mut problems);
    let capacity = capacity(document, &mut problems);
    if let Some(topologies) = &document.requested_topologies {
        missing_segments(topologies, &mut problems);
    }
    let namespace = non_empty(&document.namespace).map(Namespace::new);
    let request = VolumeRequest {
        namespace: namespace.unwrap_or_else(|| fallback.clone()),
        id: VolumeId::new(&document.id),
        name: non_empty(&document.name),
        external_id: non_empty(&document.external_id).map(ExternalId::new),
        plugin_id: PluginId::new(&document.plugin_id),
        capabilities,
        capacity,
        topology_request: document.requested_topologies.as_ref().map(topology_request_from_wire),
        clone_id: non_empty(&document.clone_id),
        snapshot_id: non_empty(&document.snapshot_id),
        mount_options: document.mount_options.as_ref().map(mount_options_from_wire),
        secrets: document.secrets.as_ref().map(|secrets| secrets.0.clone()),
        parameters: document.parameters.clone(),
        context: document.context.clone(),
        share: false,
    };
    (request, problems)
}

fn capabilities(document: &VolumeWrite, problems: &mut Vec<RequestProblem>) -> Vec<Capability> {
    let mut known = vec![];
    for capability in &document.requested_capabilities {
        let access_mode = AccessMode::parse(&capability.access_mode);
        let attachment_mode = AttachmentMode::parse(&capability.attachment_mode);
        if access_mode.is_none() {
            problems.push(RequestProblem::AccessMode(capability.access_mode.clone()));
        }
        if attachment_mode.is_none() {
            let word = capability.attachment_mode.clone();
            problems.push(RequestProblem::AttachmentMode(word));
        }
        if let (Some(access_mode), Some(attachment_mode)) = (access_mode, attachment_mode) {
            known.push(Capability { access_mode, attachment_mode });
        }
    }
    known
}

fn capacity(document: &VolumeWrite, problems: &mut Vec<RequestProblem>) -> CapacityRange {
    let (min, max) = (document.requested_capacity_min, document.requested_capacity_max);
    for (bytes, field) in [(min, "requested capacity min"), (max, "requested capacity max")] {
        if bytes < 0 {
            problems.push(RequestProblem::NegativeCapacity(field));
        }
    }
    CapacityRange { min: Bytes::from_wire(min), max: Bytes::from_wire(max) }
}

/// Adds one problem per topology, as Nomad does.
fn missing_segments(request: &TopologyRequestDocument, problems: &mut Vec<RequestProblem>) {
    let has_no_segments = |topology: &&TopologyDocument| {
        topology.segments.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
    };
    for (list, name) in [(&request.required, "required"), (&request.preferred, "preferred")] {
        let invalid = list.iter().flatten().flatten().filter(has_no_segments);
        problems.extend(invalid.map(|_| RequestProblem::TopologyWithoutSegments(name)));
    }
}
