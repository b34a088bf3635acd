//! Conversion of volumes and allocations.
//!
//! In responses, as in Nomad's, secrets are `null`, flags are redacted, `MountOptions`, `Parameters`
//! and `Context` are objects, and `RequestedTopologies` is `null` without a request. From JSON,
//! unknown modes and `null` topologies are omitted.

use crate::allocation::AllocationStub;
use crate::volume::{
    CapabilityDocument, KeptFilesDocument, MountOptionsDocument, Null, TopologyDocument,
    TopologyRequestDocument, VolumeDocument, VolumeStub,
};
use nomad_csi_model::{
    AccessMode, Alloc, AllocId, AttachmentMode, Bytes, Capability, CapacityRange, ClientStatus,
    DesiredStatus, ExternalId, HealthCount, KeptFiles, MountOptions, Namespace, NodeId, PluginId,
    Topology, TopologyRequest, Volume, VolumeId, VolumeSummary,
};

/// Converts a volume from JSON.
pub fn volume_from_wire(document: &VolumeDocument) -> Volume {
    let requested = document.requested_topologies.as_ref();
    Volume {
        namespace: Namespace::new(&document.namespace),
        id: VolumeId::new(&document.id),
        name: document.name.clone(),
        external_id: non_empty(&document.external_id).map(ExternalId::new),
        plugin_id: PluginId::new(&document.plugin_id),
        provider: document.provider.clone(),
        provider_version: document.provider_version.clone(),
        capabilities: document.requested_capabilities.iter().filter_map(capability).collect(),
        requested_capacity: CapacityRange {
            min: Bytes::from_wire(document.requested_capacity_min),
            max: Bytes::from_wire(document.requested_capacity_max),
        },
        capacity: Bytes::from_wire(document.capacity),
        topology_request: requested.map(topology_request_from_wire),
        topologies: topologies_from_wire(&document.topologies),
        clone_id: non_empty(&document.clone_id),
        snapshot_id: non_empty(&document.snapshot_id),
        mount_options: document.mount_options.as_ref().map(mount_options_from_wire),
        parameters: document.parameters.clone(),
        context: document.context.clone(),
        access_mode: AccessMode::parse(&document.access_mode),
        attachment_mode: AttachmentMode::parse(&document.attachment_mode),
        read_allocs: document.read_allocs.keys().map(AllocId::new).collect(),
        write_allocs: document.write_allocs.keys().map(AllocId::new).collect(),
        allocs: document.allocations.iter().map(allocation_from_wire).collect(),
        schedulable: document.schedulable,
        controller_required: document.controller_required,
        controllers: health(document.controllers_healthy, document.controllers_expected),
        nodes: health(document.nodes_healthy, document.nodes_expected),
        create_index: document.create_index,
        modify_index: document.modify_index,
        spec_index: document.spec_index.unwrap_or(document.modify_index),
        create_time: document.create_time,
        modify_time: document.modify_time,
        kept_files: document.kept_files.iter().map(kept_files).collect(),
    }
}

fn kept_files(document: &KeptFilesDocument) -> KeptFiles {
    KeptFiles { node: NodeId::new(&document.node_id), path: document.path.clone() }
}

/// Converts a volume to JSON.
pub fn volume_to_wire(volume: &Volume) -> VolumeDocument {
    let allocs = |ids: &std::collections::BTreeSet<AllocId>| {
        ids.iter().map(|id| (id.as_str().to_owned(), Null)).collect()
    };
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
        mutable_parameters: std::collections::BTreeMap::new(),
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

/// Converts a volume to an entry in a list.
pub fn stub_to_wire(volume: &Volume) -> VolumeStub {
    let claims =
        |ids: &std::collections::BTreeSet<AllocId>| i64::try_from(ids.len()).unwrap_or(i64::MAX);
    VolumeStub {
        access_mode: text_or_empty(volume.access_mode.map(AccessMode::as_str)),
        attachment_mode: text_or_empty(volume.attachment_mode.map(AttachmentMode::as_str)),
        controller_required: volume.controller_required,
        controllers_expected: count(volume.controllers.expected),
        controllers_healthy: count(volume.controllers.healthy),
        create_index: volume.create_index,
        create_time: volume.create_time,
        current_readers: claims(&volume.read_allocs),
        current_writers: claims(&volume.write_allocs),
        external_id: text_or_empty(volume.external_id.as_ref().map(ExternalId::as_str)),
        id: volume.id.to_string(),
        modify_index: volume.modify_index,
        modify_time: volume.modify_time,
        name: volume.name.clone(),
        namespace: volume.namespace.to_string(),
        nodes_expected: count(volume.nodes.expected),
        nodes_healthy: count(volume.nodes.healthy),
        plugin_id: volume.plugin_id.to_string(),
        provider: volume.provider.clone(),
        resource_exhausted: None,
        schedulable: volume.schedulable,
        spec_index: None,
        topologies: topologies_to_wire(&volume.topologies),
    }
}

/// Converts a volume in a list from JSON.
pub fn summary_from_wire(stub: &VolumeStub) -> VolumeSummary {
    VolumeSummary {
        namespace: Namespace::new(&stub.namespace),
        id: VolumeId::new(&stub.id),
        name: stub.name.clone(),
        external_id: non_empty(&stub.external_id).map(ExternalId::new),
        plugin_id: PluginId::new(&stub.plugin_id),
        provider: stub.provider.clone(),
        schedulable: stub.schedulable,
        access_mode: AccessMode::parse(&stub.access_mode),
        attachment_mode: AttachmentMode::parse(&stub.attachment_mode),
        readers: u64::try_from(stub.current_readers).unwrap_or_default(),
        writers: u64::try_from(stub.current_writers).unwrap_or_default(),
        create_index: stub.create_index,
        modify_index: stub.modify_index,
        spec_index: stub.spec_index.unwrap_or(stub.modify_index),
    }
}

/// Converts an allocation from JSON. An unknown status of a later Nomad is preserved.
pub fn allocation_from_wire(stub: &AllocationStub) -> Alloc {
    let desired = match stub.desired_status.as_str() {
        "run" => DesiredStatus::Run,
        "stop" => DesiredStatus::Stop,
        "evict" => DesiredStatus::Evict,
        other => DesiredStatus::Other(other.to_owned()),
    };
    let client = match stub.client_status.as_str() {
        "pending" => ClientStatus::Pending,
        "running" => ClientStatus::Running,
        "complete" => ClientStatus::Complete,
        "failed" => ClientStatus::Failed,
        "lost" => ClientStatus::Lost,
        "unknown" => ClientStatus::Unknown,
        other => ClientStatus::Other(other.to_owned()),
    };
    Alloc {
        id: AllocId::new(&stub.id),
        node_id: NodeId::new(&stub.node_id),
        node_name: stub.node_name.clone(),
        evaluation_id: stub.eval_id.clone(),
        job_id: stub.job_id.clone(),
        task_group: stub.task_group.clone(),
        job_version: stub.job_version,
        desired,
        client,
        create_time: stub.create_time,
        modify_time: stub.modify_time,
    }
}

/// Converts an allocation to JSON.
pub fn allocation_to_wire(alloc: &Alloc) -> AllocationStub {
    AllocationStub {
        client_status: alloc.client.as_str().to_owned(),
        create_time: alloc.create_time,
        desired_status: alloc.desired.as_str().to_owned(),
        eval_id: alloc.evaluation_id.clone(),
        id: alloc.id.to_string(),
        job_id: alloc.job_id.clone(),
        job_version: alloc.job_version,
        modify_time: alloc.modify_time,
        node_id: alloc.node_id.to_string(),
        node_name: alloc.node_name.clone(),
        task_group: alloc.task_group.clone(),
        ..AllocationStub::default()
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

fn text_or_empty(word: Option<&str>) -> String {
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

fn topologies_to_wire(topologies: &[Topology]) -> Vec<Option<TopologyDocument>> {
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
