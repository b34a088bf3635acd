//! Conversion of volumes and of write requests. Reading takes the document apart without `..`, so the compiler finds what must
//! follow a new field.
//!
//! In responses, as in Nomad's, secrets are `null`, flags are redacted, `MountOptions`, `Parameters`
//! and `Context` are objects, and `RequestedTopologies` is `null` without a request. From JSON,
//! unknown modes and `null` topologies are omitted.
//!
//! A request contains user fields only. `MountOptions` is always an object, because Nomad treats
//! `null` and `{}` as different on a volume in use. Values that a server redacted are never sent. A
//! received request yields the same fields (W22: Nomad stores server fields from a request).

use std::collections::{BTreeMap, BTreeSet};

use super::allocation::{allocation_from_wire, allocation_to_wire};
use crate::volume::{
    CapabilityDocument, KeptFilesDocument, MountOptionsDocument, Null, SecretsDocument,
    TopologyDocument, TopologyRequestDocument, VolumeDocument, VolumeWrite,
};
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, HealthCount,
    KeptFiles, MountOptions, Namespace, NodeId, PluginId, Topology, TopologyRequest, Volume,
    VolumeId, VolumeRequest,
};

/// Converts a volume from JSON.
pub fn volume_from_wire(document: &VolumeDocument) -> Volume {
    let VolumeDocument {
        access_mode,
        allocations,
        attachment_mode,
        capacity,
        clone_id,
        context,
        controller_required,
        controllers_expected,
        controllers_healthy,
        create_index,
        create_time,
        external_id,
        id,
        kept_files,
        modify_index,
        modify_time,
        mount_options,
        modify_pending: _,
        mutable_parameters: _,
        name,
        namespace,
        node_expansion_pending: _,
        nodes_expected,
        nodes_healthy,
        parameters,
        plugin_id,
        provider,
        provider_version,
        read_allocs,
        requested_capabilities,
        requested_capacity_max,
        requested_capacity_min,
        requested_topologies,
        resource_exhausted: _,
        schedulable,
        secrets: _,
        snapshot_id,
        reports_health: _,
        reports_stats: _,
        spec_index,
        topologies,
        write_allocs,
    } = document;
    Volume {
        namespace: Namespace::new(namespace),
        id: VolumeId::new(id),
        name: name.clone(),
        external_id: non_empty(external_id).map(ExternalId::new),
        plugin_id: PluginId::new(plugin_id),
        provider: provider.clone(),
        provider_version: provider_version.clone(),
        capabilities: requested_capabilities.iter().filter_map(capability).collect(),
        requested_capacity: CapacityRange {
            min: Bytes::from_wire(*requested_capacity_min),
            max: Bytes::from_wire(*requested_capacity_max),
        },
        capacity: Bytes::from_wire(*capacity),
        topology_request: requested_topologies.as_ref().map(topology_request_from_wire),
        topologies: topologies_from_wire(topologies),
        clone_id: non_empty(clone_id),
        snapshot_id: non_empty(snapshot_id),
        mount_options: mount_options.as_ref().map(mount_options_from_wire),
        parameters: parameters.clone(),
        context: context.clone(),
        access_mode: AccessMode::parse(access_mode),
        attachment_mode: AttachmentMode::parse(attachment_mode),
        read_allocs: read_allocs.keys().map(AllocId::new).collect(),
        write_allocs: write_allocs.keys().map(AllocId::new).collect(),
        allocs: allocations.iter().map(allocation_from_wire).collect(),
        schedulable: *schedulable,
        controller_required: *controller_required,
        controllers: health(*controllers_healthy, *controllers_expected),
        nodes: health(*nodes_healthy, *nodes_expected),
        create_index: *create_index,
        modify_index: *modify_index,
        spec_index: spec_index.unwrap_or(*modify_index),
        create_time: *create_time,
        modify_time: *modify_time,
        kept_files: kept_files.iter().map(files_from_wire).collect(),
    }
}

fn files_from_wire(document: &KeptFilesDocument) -> KeptFiles {
    KeptFiles { node: NodeId::new(&document.node_id), path: document.path.clone() }
}

/// Converts a volume to JSON.
pub fn volume_to_wire(volume: &Volume) -> VolumeDocument {
    let allocs =
        |ids: &BTreeSet<AllocId>| ids.iter().map(|id| (id.as_str().to_owned(), Null)).collect();
    VolumeDocument {
        reports_health: false,
        reports_stats: false,
        access_mode: text_or_empty(volume.access_mode.map(AccessMode::as_str)),
        allocations: volume.allocs.iter().map(allocation_to_wire).collect(),
        attachment_mode: text_or_empty(volume.attachment_mode.map(AttachmentMode::as_str)),
        capacity: volume.capacity.to_wire(),
        clone_id: volume.clone_id.clone().unwrap_or_default(),
        context: volume.context.clone(),
        controller_required: volume.controller_required,
        controllers_expected: count(volume.controllers.expected),
        controllers_healthy: count(volume.controllers.healthy),
        create_index: volume.create_index,
        create_time: volume.create_time,
        external_id: text_or_empty(volume.external_id.as_ref().map(ExternalId::as_str)),
        id: volume.id.to_string(),
        kept_files: vec![],
        modify_pending: None,
        mutable_parameters: BTreeMap::new(),
        modify_index: volume.modify_index,
        modify_time: volume.modify_time,
        mount_options: Some(mount_options_to_wire(
            &volume.mount_options.clone().unwrap_or_default().redacted(),
        )),
        name: volume.name.clone(),
        namespace: volume.namespace.to_string(),
        node_expansion_pending: false,
        nodes_expected: count(volume.nodes.expected),
        nodes_healthy: count(volume.nodes.healthy),
        parameters: volume.parameters.clone(),
        plugin_id: volume.plugin_id.to_string(),
        provider: volume.provider.clone(),
        provider_version: volume.provider_version.clone(),
        read_allocs: allocs(&volume.read_allocs),
        requested_capabilities: capabilities_to_wire(&volume.capabilities),
        requested_capacity_max: volume.requested_capacity.max.to_wire(),
        requested_capacity_min: volume.requested_capacity.min.to_wire(),
        requested_topologies: volume.topology_request.as_ref().map(topology_request_to_wire),
        resource_exhausted: None,
        schedulable: volume.schedulable,
        secrets: Null,
        snapshot_id: volume.snapshot_id.clone().unwrap_or_default(),
        spec_index: None,
        topologies: topologies_to_wire(&volume.topologies),
        write_allocs: allocs(&volume.write_allocs),
    }
}

pub(super) fn health(healthy: i64, expected: i64) -> HealthCount {
    HealthCount {
        healthy: u64::try_from(healthy).unwrap_or_default(),
        expected: u64::try_from(expected).unwrap_or_default(),
    }
}

pub(super) fn count(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

pub(super) fn text_or_empty(word: Option<&str>) -> String {
    word.unwrap_or_default().to_owned()
}

fn capability(document: &CapabilityDocument) -> Option<Capability> {
    Some(Capability {
        access_mode: AccessMode::parse(&document.access_mode)?,
        attachment_mode: AttachmentMode::parse(&document.attachment_mode)?,
    })
}

pub(super) fn capabilities_to_wire(capabilities: &[Capability]) -> Vec<CapabilityDocument> {
    let document = |capability: &Capability| CapabilityDocument {
        access_mode: capability.access_mode.to_string(),
        attachment_mode: capability.attachment_mode.to_string(),
    };
    capabilities.iter().map(document).collect()
}

pub(super) fn mount_options_from_wire(document: &MountOptionsDocument) -> MountOptions {
    MountOptions {
        fs_type: document.fs_type.clone(),
        mount_flags: document.mount_flags.clone().unwrap_or_default(),
    }
}

pub(super) fn mount_options_to_wire(options: &MountOptions) -> MountOptionsDocument {
    let flags = (!options.mount_flags.is_empty()).then(|| options.mount_flags.clone());
    MountOptionsDocument { fs_type: options.fs_type.clone(), mount_flags: flags }
}

pub(super) fn topology_from_wire(document: &TopologyDocument) -> Topology {
    Topology { segments: document.segments.clone().unwrap_or_default() }
}

pub(super) fn topology_to_wire(topology: &Topology) -> TopologyDocument {
    TopologyDocument { segments: Some(topology.segments.clone()) }
}

fn topologies_from_wire(documents: &[Option<TopologyDocument>]) -> Vec<Topology> {
    documents.iter().flatten().map(topology_from_wire).collect()
}

pub(super) fn topologies_to_wire(topologies: &[Topology]) -> Vec<Option<TopologyDocument>> {
    topologies.iter().map(|topology| Some(topology_to_wire(topology))).collect()
}

pub(super) fn topology_request_from_wire(document: &TopologyRequestDocument) -> TopologyRequest {
    let list = |list: &Option<Vec<_>>| topologies_from_wire(list.as_deref().unwrap_or_default());
    TopologyRequest { required: list(&document.required), preferred: list(&document.preferred) }
}

/// Converts a topology request to JSON. An empty list becomes `null`, as in Go clients.
pub(super) fn topology_request_to_wire(request: &TopologyRequest) -> TopologyRequestDocument {
    let list = |list: &[Topology]| (!list.is_empty()).then(|| topologies_to_wire(list));
    TopologyRequestDocument {
        preferred: list(&request.preferred),
        required: list(&request.required),
    }
}

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
    let VolumeWrite {
        clone_id,
        context,
        external_id,
        id,
        mount_options,
        name,
        namespace,
        parameters,
        plugin_id,
        requested_capabilities,
        requested_capacity_max,
        requested_capacity_min,
        requested_topologies,
        secrets,
        snapshot_id,
    } = document;
    let mut problems = vec![];
    let capabilities = capabilities(requested_capabilities, &mut problems);
    let capacity = capacity(*requested_capacity_min, *requested_capacity_max, &mut problems);
    if let Some(topologies) = requested_topologies {
        missing_segments(topologies, &mut problems);
    }
    let namespace = non_empty(namespace).map(Namespace::new);
    let request = VolumeRequest {
        namespace: namespace.unwrap_or_else(|| fallback.clone()),
        id: VolumeId::new(id),
        name: non_empty(name),
        external_id: non_empty(external_id).map(ExternalId::new),
        plugin_id: PluginId::new(plugin_id),
        capabilities,
        capacity,
        topology_request: requested_topologies.as_ref().map(topology_request_from_wire),
        clone_id: non_empty(clone_id),
        snapshot_id: non_empty(snapshot_id),
        mount_options: mount_options.as_ref().map(mount_options_from_wire),
        secrets: secrets.as_ref().map(|secrets| secrets.0.clone()),
        parameters: parameters.clone(),
        context: context.clone(),
        share: false,
    };
    (request, problems)
}

fn capabilities(
    documents: &[CapabilityDocument],
    problems: &mut Vec<RequestProblem>,
) -> Vec<Capability> {
    let mut known = vec![];
    for capability in documents {
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

fn capacity(min: i64, max: i64, problems: &mut Vec<RequestProblem>) -> CapacityRange {
    for (bytes, field) in [(min, "requested capacity min"), (max, "requested capacity max")] {
        if bytes < 0 {
            problems.push(RequestProblem::NegativeCapacity(field));
        }
    }
    CapacityRange { min: Bytes::from_wire(min), max: Bytes::from_wire(max) }
}

/// Adds one problem per topology, as Nomad does.
fn missing_segments(request: &TopologyRequestDocument, problems: &mut Vec<RequestProblem>) {
    let has_no_segments =
        |topology: &&TopologyDocument| topology.segments.as_ref().is_none_or(BTreeMap::is_empty);
    for (list, name) in [(&request.required, "required"), (&request.preferred, "preferred")] {
        let invalid = list.iter().flatten().flatten().filter(has_no_segments);
        problems.extend(invalid.map(|_| RequestProblem::TopologyWithoutSegments(name)));
    }
}
