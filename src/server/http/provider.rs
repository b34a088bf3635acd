//! The endpoints of a provider's volumes and snapshots.
//!
//! Page tokens are the plugin's and are part of the body. As in Nomad, a failed create or delete of
//! snapshots returns a list of errors, even for one error.

use super::capabilities::WRITE_VOLUME;
use super::parameters::Parameters;
use super::reply::Reply;
use super::request::IncomingRequest;
use crate::error::{ServerError, SnapshotError};
use crate::volumes::SnapshotRequest;
use nomad_csi_model::{Namespace, NamespacedId, PluginId, SnapshotId, VolumeId};
use nomad_csi_ports::PageRequest;
use nomad_csi_wire::{
    ExternalVolumesResponse, SnapshotDocument, SnapshotsRequest, SnapshotsResponse,
    external_volume_to_wire, snapshot_to_wire,
};

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn list_volumes(request: &IncomingRequest) -> Result {
    let page = page(&request.parameters)?;
    let plugin = plugin(&request.parameters);
    let page = request.services.volumes.list_external(plugin, page).await?;
    let response = ExternalVolumesResponse {
        index: request.services.cell.index(),
        known_leader: true,
        last_contact: 0,
        next_token: page.next_token.unwrap_or_default(),
        volumes: page.entries.iter().map(external_volume_to_wire).collect(),
    };
    Reply::json(&response, request.pretty)
}

pub(super) async fn list_snapshots(request: &IncomingRequest) -> Result {
    let page = page(&request.parameters)?;
    let plugin = plugin(&request.parameters);
    let secrets = request.secrets();
    let volumes = &request.services.volumes;
    let page = volumes.list_snapshots(plugin.clone(), page, secrets).await?;
    let snapshots = page.entries.iter();
    let snapshots = snapshots.map(|snapshot| snapshot_to_wire(snapshot, Some(&plugin)));
    let response = snapshots_response(request, Some(snapshots.collect()), page.next_token);
    Reply::json(&response, request.pretty)
}

pub(super) async fn create_snapshots(request: &IncomingRequest) -> Result {
    let document: SnapshotsRequest = request.document()?;
    let fallback = request.parameters.namespace();
    let namespace = fallback.unwrap_or_else(|| match document.namespace.as_str() {
        "" => Namespace::default(),
        name => Namespace::new(name),
    });
    request.require(&namespace, WRITE_VOLUME)?;
    let requests = document.snapshots.into_iter();
    let requests = requests
        .map(|snapshot| Ok(snapshot_request(snapshot.ok_or(SnapshotError::Nil)?, &namespace)));
    let requests: Vec<_> = requests.collect::<Result<_>>()?;
    let are_requested = !requests.is_empty();
    let snapshots = request.services.volumes.create_snapshots(requests).await?;
    let snapshots = snapshots.iter().map(|created| SnapshotDocument {
        name: created.name.clone(),
        source_volume_id: created.source.id.to_string(),
        ..snapshot_to_wire(&created.snapshot, Some(&created.plugin))
    });
    let snapshots = are_requested.then(|| snapshots.collect());
    Reply::json(&snapshots_response(request, snapshots, None), request.pretty)
}

pub(super) async fn delete_snapshot(request: &IncomingRequest) -> Result {
    let plugin = plugin(&request.parameters);
    let id = SnapshotId::new(request.parameters.get("snapshot_id").unwrap_or_default());
    let secrets = request.secrets();
    let deleted = request.services.volumes.delete_snapshot(plugin, id, secrets);
    deleted.await.map_err(|error| ServerError::Multiple(vec![error]))?;
    Ok(Reply::empty())
}

fn plugin(parameters: &Parameters) -> PluginId {
    PluginId::new(parameters.get("plugin_id").unwrap_or_default())
}

fn page(parameters: &Parameters) -> Result<PageRequest> {
    let entries = parameters.per_page()?;
    Ok(PageRequest {
        entries: u32::try_from(entries).unwrap_or(u32::MAX),
        starting_token: parameters.get("next_token").unwrap_or_default().to_owned(),
    })
}

fn snapshot_request(document: SnapshotDocument, namespace: &Namespace) -> SnapshotRequest {
    let volume = VolumeId::new(document.source_volume_id);
    let plugin = document.plugin_id;
    SnapshotRequest {
        source: NamespacedId::new(namespace.clone(), volume),
        name: document.name,
        plugin: (!plugin.is_empty()).then(|| PluginId::new(plugin)),
        parameters: document.parameters.unwrap_or_default(),
        secrets: document.secrets.unwrap_or_default().0,
    }
}

fn snapshots_response(
    request: &IncomingRequest,
    snapshots: Option<Vec<SnapshotDocument>>,
    next: Option<String>,
) -> SnapshotsResponse {
    SnapshotsResponse {
        index: request.services.cell.index(),
        known_leader: true,
        last_contact: 0,
        next_token: next.unwrap_or_default(),
        snapshots,
    }
}
