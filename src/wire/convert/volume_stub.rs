//! Conversion of volumes in lists.

use super::volume::{count, non_empty, text_or_empty, topologies_to_wire};
use crate::volume_stub::VolumeStub;
use nomad_csi_model::{
    AccessMode, AllocId, AttachmentMode, ExternalId, Namespace, PluginId, Volume, VolumeId,
    VolumeSummary,
};

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
