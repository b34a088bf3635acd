//! Conversions of the messages for lists, snapshots and expansion.
//!
//! A response without a required field is an error. In Nomad a malformed list entry crashes the client
//! (W29).

use prost_types::Timestamp;

use super::{answer_limits, convert, status};
use nomad_csi_model::{
    Bytes, Condition, ExternalId, ExternalNodeId, ExternalVolume, Snapshot, SnapshotId,
};
use nomad_csi_ports::{
    CreateSnapshot, ExpandVolume, ListSnapshots, Page, PageRequest, PluginError, Rpc,
};
use nomad_csi_proto as proto;

const SECOND: i64 = 1_000_000_000;

pub(super) fn list_volumes_request(page: PageRequest) -> proto::ListVolumesRequest {
    proto::ListVolumesRequest {
        max_entries: max_entries(page.entries),
        starting_token: page.starting_token,
    }
}

fn max_entries(entries: u32) -> i32 {
    i32::try_from(entries).unwrap_or(i32::MAX)
}

pub(super) fn listed_volumes(
    response: proto::ListVolumesResponse,
) -> Result<Page<ExternalVolume>, PluginError> {
    check_entries(Rpc::ListVolumes, response.entries.len())?;
    let entries = response.entries.into_iter().map(listed_volume);
    Ok(Page { entries: entries.collect::<Result<_, _>>()?, next_token: next(response.next_token) })
}

pub(super) fn check_entries(rpc: Rpc, count: usize) -> Result<(), PluginError> {
    answer_limits::limit_entries(count).map_err(|problem| status::malformed(rpc, &problem))
}

fn next(token: String) -> Option<String> {
    (!token.is_empty()).then_some(token)
}

fn listed_volume(
    entry: proto::list_volumes_response::Entry,
) -> Result<ExternalVolume, PluginError> {
    use proto::volume_content_source::Type;
    let malformed = |what| status::malformed(Rpc::ListVolumes, what);
    let volume = entry.volume.ok_or_else(|| malformed("an entry has no volume"))?;
    if volume.volume_id.is_empty() {
        return Err(malformed("a volume has no ID"));
    }
    let source = volume.content_source.and_then(|source| source.r#type);
    let (clone_id, snapshot_id) = match source {
        Some(Type::Volume(source)) => (Some(source.volume_id), None),
        Some(Type::Snapshot(source)) => (None, Some(source.snapshot_id)),
        None => (None, None),
    };
    let status = entry.status.unwrap_or_default();
    let nodes = status.published_node_ids.into_iter();
    Ok(ExternalVolume {
        health: None,
        external_id: ExternalId::new(volume.volume_id),
        capacity: Bytes::from_wire(volume.capacity_bytes),
        context: volume.volume_context,
        clone_id,
        snapshot_id,
        published_nodes: nodes.filter(|id| !id.is_empty()).map(ExternalNodeId::new).collect(),
        condition: status.volume_condition.map(|condition| Condition {
            abnormal: condition.abnormal,
            message: condition.message,
        }),
    })
}

pub(super) fn create_snapshot_request(request: CreateSnapshot) -> proto::CreateSnapshotRequest {
    proto::CreateSnapshotRequest {
        source_volume_id: request.source.as_str().to_owned(),
        name: request.name,
        secrets: convert::secrets(&request.secrets),
        parameters: request.parameters,
        accessibility_requirements: None,
    }
}

pub(super) fn list_snapshots_request(request: ListSnapshots) -> proto::ListSnapshotsRequest {
    let text = |id: Option<&str>| id.unwrap_or_default().to_owned();
    proto::ListSnapshotsRequest {
        max_entries: max_entries(request.page.entries),
        source_volume_id: text(request.source.as_ref().map(ExternalId::as_str)),
        snapshot_id: text(request.id.as_ref().map(SnapshotId::as_str)),
        secrets: convert::secrets(&request.secrets),
        starting_token: request.page.starting_token,
    }
}

pub(super) fn listed_snapshots(
    response: proto::ListSnapshotsResponse,
) -> Result<Page<Snapshot>, PluginError> {
    check_entries(Rpc::ListSnapshots, response.entries.len())?;
    let entries = response.entries.into_iter();
    let entries = entries.map(|entry| snapshot(Rpc::ListSnapshots, entry.snapshot));
    Ok(Page { entries: entries.collect::<Result<_, _>>()?, next_token: next(response.next_token) })
}

/// A response without a snapshot or its ID is invalid: a snapshot of unknown ID may exist.
pub(super) fn snapshot(
    rpc: Rpc,
    snapshot: Option<proto::Snapshot>,
) -> Result<Snapshot, PluginError> {
    let malformed = |what| status::malformed(rpc, what);
    let snapshot = snapshot.ok_or_else(|| malformed("the snapshot is missing"))?;
    if snapshot.snapshot_id.is_empty() {
        return Err(malformed("a snapshot has no ID"));
    }
    Ok(Snapshot {
        id: SnapshotId::new(snapshot.snapshot_id),
        source: ExternalId::new(snapshot.source_volume_id),
        size: Bytes::from_wire(snapshot.size_bytes),
        create_time: snapshot.creation_time.map_or(0, nanoseconds),
        is_ready: snapshot.ready_to_use,
    })
}

fn nanoseconds(time: Timestamp) -> i64 {
    let seconds = time.seconds.saturating_mul(SECOND);
    seconds.saturating_add(i64::from(time.nanos))
}

pub(super) fn expand_request(request: &ExpandVolume) -> proto::ControllerExpandVolumeRequest {
    let options = &request.mount_options;
    proto::ControllerExpandVolumeRequest {
        volume_id: request.external_id.as_str().to_owned(),
        capacity_range: convert::capacity_range(request.capacity),
        secrets: convert::secrets(&request.secrets),
        volume_capability: request
            .capability
            .map(|capability| convert::capability(capability, options)),
    }
}
