//! A provider's own volumes and snapshots: decode, call, encode (`nomad-http-api` 3.9, 3.10).
//!
//! Tokens of pages are the plugin's, and stand in the body. Errors of a creation and of a deletion
//! come as a list, also if there is one, as Nomad's do.

use super::parameters::Parameters;
use super::reply::Reply;
use super::router::Asked;
use super::volumes::{document, secrets_of};
use crate::model::{Namespace, NamespacedId, PluginId, SnapshotId, VolumeId};
use crate::ports::PageRequest;
use crate::server::error::{ServerError, SnapshotError};
use crate::server::volumes::SnapshotRequest;
use crate::wire::{
    ExternalVolumesResponse, SnapshotDocument, SnapshotsRequest, SnapshotsResponse,
    external_volume_to_wire, snapshot_to_wire,
};

type Result<T = Reply> = std::result::Result<T, ServerError>;

pub(super) async fn external(asked: &Asked) -> Result {
    let page = page(&asked.parameters)?;
    let plugin = plugin(&asked.parameters);
    let page = asked.services.volumes.list_external(plugin, page).await?;
    let response = ExternalVolumesResponse {
        index: asked.services.cell.index(),
        known_leader: true,
        last_contact: 0,
        next_token: page.next.unwrap_or_default(),
        volumes: page.entries.iter().map(external_volume_to_wire).collect(),
    };
    Reply::json(&response, asked.pretty)
}

pub(super) async fn list_snapshots(asked: &Asked) -> Result {
    let page = page(&asked.parameters)?;
    let plugin = plugin(&asked.parameters);
    let secrets = secrets_of(&asked.headers);
    let volumes = &asked.services.volumes;
    let page = volumes
        .list_snapshots(plugin.clone(), page, secrets)
        .await?;
    let snapshots = page.entries.iter();
    let snapshots = snapshots.map(|snapshot| snapshot_to_wire(snapshot, Some(&plugin)));
    let response = response(asked, Some(snapshots.collect()), page.next);
    Reply::json(&response, asked.pretty)
}

pub(super) async fn create_snapshots(asked: &Asked) -> Result {
    let document: SnapshotsRequest = document(&asked.body)?;
    let fallback = asked.parameters.namespace();
    let namespace = fallback.unwrap_or_else(|| match document.namespace.as_str() {
        "" => Namespace::default(),
        name => Namespace::new(name),
    });
    let requests = document.snapshots.into_iter();
    let requests =
        requests.map(|snapshot| Ok(request(snapshot.ok_or(SnapshotError::Nil)?, &namespace)));
    let requests: Vec<_> = requests.collect::<Result<_>>()?;
    let were_asked_for = !requests.is_empty();
    let snapshots = asked.services.volumes.create_snapshots(requests).await?;
    let snapshots = snapshots.iter().map(|cut| snapshot_to_wire(cut, None));
    let snapshots = were_asked_for.then(|| snapshots.collect());
    Reply::json(&response(asked, snapshots, None), asked.pretty)
}

pub(super) async fn delete_snapshot(asked: &Asked) -> Result {
    let plugin = plugin(&asked.parameters);
    let id = SnapshotId::new(asked.parameters.get("snapshot_id").unwrap_or_default());
    let secrets = secrets_of(&asked.headers);
    let deleted = asked.services.volumes.delete_snapshot(plugin, id, secrets);
    deleted
        .await
        .map_err(|error| ServerError::Several(vec![error]))?;
    Ok(Reply::empty())
}

fn plugin(parameters: &Parameters) -> PluginId {
    PluginId::new(parameters.get("plugin_id").unwrap_or_default())
}

fn page(parameters: &Parameters) -> Result<PageRequest> {
    let entries = parameters.per_page()?;
    Ok(PageRequest {
        entries: u32::try_from(entries).unwrap_or(u32::MAX),
        token: parameters.get("next_token").unwrap_or_default().to_owned(),
    })
}

fn request(document: SnapshotDocument, namespace: &Namespace) -> SnapshotRequest {
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

fn response(
    asked: &Asked,
    snapshots: Option<Vec<SnapshotDocument>>,
    next: Option<String>,
) -> SnapshotsResponse {
    SnapshotsResponse {
        index: asked.services.cell.index(),
        known_leader: true,
        last_contact: 0,
        next_token: next.unwrap_or_default(),
        snapshots,
    }
}
