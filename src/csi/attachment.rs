//! Conversions of the messages that attach, detach, and expand on a node.

use std::path::Path;

use super::convert;
use nomad_csi_ports::{ControllerPublishVolume, ControllerUnpublishVolume, NodeExpandVolume};
use nomad_csi_proto as proto;

pub(super) fn publish_request(
    request: ControllerPublishVolume,
) -> proto::ControllerPublishVolumeRequest {
    proto::ControllerPublishVolumeRequest {
        volume_id: request.external_id.as_str().to_owned(),
        node_id: request.node_id.as_str().to_owned(),
        volume_capability: Some(convert::capability(request.capability, &request.mount_options)),
        readonly: request.read_only,
        secrets: convert::secrets(&request.secrets),
        volume_context: request.context,
    }
}

pub(super) fn unpublish_request(
    request: &ControllerUnpublishVolume,
) -> proto::ControllerUnpublishVolumeRequest {
    proto::ControllerUnpublishVolumeRequest {
        volume_id: request.external_id.as_str().to_owned(),
        node_id: request.node_id.as_str().to_owned(),
        secrets: convert::secrets(&request.secrets),
    }
}

/// Converts an expansion on a node. `text` converts a path.
pub(super) fn expand_request<E>(
    request: &NodeExpandVolume,
    text: impl Fn(&Path) -> Result<String, E>,
) -> Result<proto::NodeExpandVolumeRequest, E> {
    let staging = request.staging_path.as_deref();
    let options = &request.mount_options;
    Ok(proto::NodeExpandVolumeRequest {
        volume_id: request.external_id.as_str().to_owned(),
        volume_path: text(&request.volume_path)?,
        capacity_range: convert::capacity_range(request.capacity),
        staging_target_path: staging.map_or(Ok(String::new()), text)?,
        volume_capability: request
            .capability
            .map(|capability| convert::capability(capability, options)),
        secrets: convert::secrets(&request.secrets),
    })
}
