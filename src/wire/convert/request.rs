//! What a user asks to be written.
//!
//! Towards the wire: only user fields, `MountOptions` as an object even if there are none (on a
//! volume in use, Nomad holds `null` and `{}` to be different), secrets as given, and never what a
//! server answered in place of something hidden (`nomad-http-api` 10.1 points 1 to 3). From the
//! wire: the same fields and no others (W22).

use super::volume::{
    capabilities_to_wire, mount_options_from_wire, mount_options_to_wire, some_text,
    topology_request_from_wire, topology_request_to_wire,
};
use crate::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions,
    Namespace, PluginId, VolumeId, VolumeRequest,
};
use crate::wire::request::{SecretsDocument, VolumeWrite};
use crate::wire::volume::{TopologyDocument, TopologyRequestDocument};

/// Which write is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The provider makes the volume: its ID and context are the provider's to say, and not sent.
    Create,
    /// The provider has the volume.
    Register,
}

/// A request holds what a server shows in place of something that it hides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {0} are hidden by the server (`[REDACTED]`), so they cannot be sent back")]
pub struct RedactedValue(
    /// Which field.
    pub &'static str,
);

/// The document of a request.
///
/// # Errors
/// If a mount flag or a secret is `[REDACTED]`: sent, it would become the stored value.
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
        requested_topologies: request
            .topology_request
            .as_ref()
            .map(topology_request_to_wire),
        secrets: request.secrets.clone().map(SecretsDocument),
        snapshot_id: request.snapshot_id.clone().unwrap_or_default(),
    })
}

/// What a request says that has no meaning, in Nomad's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestProblem {
    /// Not one of the five words.
    #[error("unknown volume access mode: {0}")]
    AccessMode(String),
    /// Not one of the two words.
    #[error("unknown volume attachment mode: {0}")]
    AttachmentMode(String),
    /// Nomad stores these; a size below zero has no meaning.
    #[error("{0} cannot be negative")]
    NegativeCapacity(&'static str),
    /// `required` or `preferred` names a place without saying where.
    #[error("{0} topology is missing segments field")]
    TopologyWithoutSegments(&'static str),
}

/// A request out of its document, and what is wrong with it.
///
/// A namespace in the document wins; `fallback` is the query's (3.3 step 1). A capability with an
/// unknown mode is reported and missing in the request, so a request with problems is not to be
/// carried out. Whether required fields are there is for the caller to check.
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
    let namespace = some_text(&document.namespace).map(Namespace::new);
    let request = VolumeRequest {
        namespace: namespace.unwrap_or_else(|| fallback.clone()),
        id: VolumeId::new(&document.id),
        name: some_text(&document.name),
        external_id: some_text(&document.external_id).map(ExternalId::new),
        plugin_id: PluginId::new(&document.plugin_id),
        capabilities,
        capacity,
        topology_request: document
            .requested_topologies
            .as_ref()
            .map(topology_request_from_wire),
        clone_id: some_text(&document.clone_id),
        snapshot_id: some_text(&document.snapshot_id),
        mount_options: document.mount_options.as_ref().map(mount_options_from_wire),
        secrets: document.secrets.as_ref().map(|secrets| secrets.0.clone()),
        parameters: document.parameters.clone(),
        context: document.context.clone(),
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
            known.push(Capability {
                access_mode,
                attachment_mode,
            });
        }
    }
    known
}

fn capacity(document: &VolumeWrite, problems: &mut Vec<RequestProblem>) -> CapacityRange {
    let (min, max) = (
        document.requested_capacity_min,
        document.requested_capacity_max,
    );
    for (bytes, field) in [
        (min, "requested capacity min"),
        (max, "requested capacity max"),
    ] {
        if bytes < 0 {
            problems.push(RequestProblem::NegativeCapacity(field));
        }
    }
    CapacityRange {
        min: Bytes::from_wire(min),
        max: Bytes::from_wire(max),
    }
}

/// One problem per topology, as Nomad repeats them.
fn missing_segments(request: &TopologyRequestDocument, problems: &mut Vec<RequestProblem>) {
    let says_nothing = |topology: &&TopologyDocument| {
        topology
            .segments
            .as_ref()
            .is_none_or(std::collections::BTreeMap::is_empty)
    };
    for (list, name) in [
        (&request.required, "required"),
        (&request.preferred, "preferred"),
    ] {
        let silent = list.iter().flatten().flatten().filter(says_nothing);
        problems.extend(silent.map(|_| RequestProblem::TopologyWithoutSegments(name)));
    }
}
