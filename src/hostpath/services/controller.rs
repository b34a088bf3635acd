//! CSI's Controller service.

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::{Request, Response, Status, async_trait};

use crate::catalog::{CatalogVolume, ContentSource};
use crate::error::{
    GetCapacityError, GetSnapshotError, GetVolumeError, HostError, InvalidArgument, InvalidToken,
    ListSnapshotsError, ListVolumesError, ValidateVolumeError, VolumeNotFound,
};
use crate::plugin::Plugin;
use crate::profile::PluginCapability;
use crate::request::{self, CreateRequest};
use crate::volume_capability::{CapabilityError, VolumeCapability};
use crate::{snapshots, topology, volumes};

use nomad_csi_proto as proto;
use nomad_csi_proto::controller_server::Controller;
use nomad_csi_proto::controller_service_capability::{Rpc, Type, rpc};
use nomad_csi_proto::validate_volume_capabilities_response::Confirmed;

/// The page size if the request has no limit. Such a page stays within the message limit of every
/// gRPC client.
const MAX_PAGE_ENTRIES: usize = 10_000;

/// The prefix of a token. The ID of the last entry of the previous page follows it.
const TOKEN_PREFIX: &str = "after-";

/// Serves [`Controller`].
pub(crate) struct ControllerService(pub(crate) Arc<Plugin>);

#[async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let request = CreateRequest::parse(request.get_ref())?;
        self.check_access_modes(&request.requested.capabilities)?;
        let work = move |plugin: &Arc<Plugin>| volumes::create(plugin, request);
        let record = self.0.call(work).await?;
        Ok(Response::new(proto::CreateVolumeResponse { volume: Some(self.volume(&record)) }))
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        request::small_map("secrets", &request.secrets)?;
        let work = move |plugin: &Arc<Plugin>| volumes::delete(plugin, &id);
        self.0.call(work).await?;
        Ok(Response::new(proto::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let capabilities = requested_capabilities(&request)?;
        let id = request.volume_id.clone();
        let record = self
            .0
            .call(move |plugin| {
                let record = plugin.ready_volume(&id)?;
                Ok::<_, ValidateVolumeError>(record.ok_or(VolumeNotFound(id))?)
            })
            .await?;
        let message = match capabilities {
            Err(reason) => Some(reason),
            Ok(capabilities) => self.unsupported(&request, &capabilities, &record),
        };
        let confirmed = message.is_none().then_some(Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        });
        let message = message.unwrap_or_default();
        Ok(Response::new(proto::ValidateVolumeCapabilitiesResponse { confirmed, message }))
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        let request = request.get_ref();
        let (after, limit) =
            page(&request.starting_token, request.max_entries).map_err(ListVolumesError::from)?;
        let (records, last) = self
            .0
            .call(move |plugin| {
                let page = plugin.catalog.volume_page(after.as_deref(), limit);
                let (records, has_more) = page.map_err(HostError::from)?;
                let last = records.last().filter(|_| has_more);
                let last = last.map(|last| last.id.clone());
                let published = records.iter().map(|record| published_nodes(plugin, record));
                let published: Vec<_> = published.collect::<Result<_, _>>()?;
                let records = records.into_iter().zip(published).collect();
                Ok::<(Vec<_>, _), ListVolumesError>((records, last))
            })
            .await?;
        let entry = |(record, published_node_ids)| proto::list_volumes_response::Entry {
            volume: Some(self.volume(&record)),
            status: Some(proto::list_volumes_response::VolumeStatus {
                published_node_ids,
                volume_condition: None,
            }),
        };
        Ok(Response::new(proto::ListVolumesResponse {
            entries: records.into_iter().map(entry).collect(),
            next_token: token(last),
        }))
    }

    /// Reports the space that can still be provisioned. An unknown capability or parameter is an
    /// error; a topology elsewhere has no space.
    async fn get_capacity(
        &self,
        request: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        let request = request.into_inner();
        if !request.volume_capabilities.is_empty() {
            request::volume_capabilities(&request.volume_capabilities)?;
        }
        let requested_topology = request.accessible_topology.as_ref();
        let is_outside_topology = requested_topology
            .is_some_and(|requested| !topology::contains(requested, &self.0.profile.topology));
        let parameters = request.parameters;
        let (left, total) = self
            .0
            .call(move |plugin| {
                volumes::check_parameter_names(&parameters)?;
                let total = plugin.directories.space();
                let total = total.map_err(HostError::io("measure the file system"))?;
                Ok::<_, GetCapacityError>((volumes::available_space(plugin)?, total.total_bytes))
            })
            .await?;
        let left = if is_outside_topology { 0 } else { left };
        let largest = if self.0.profile.overcommit { total } else { left };
        Ok(Response::new(proto::GetCapacityResponse {
            available_capacity: wire_bytes(left),
            maximum_volume_size: Some(wire_bytes(if is_outside_topology { 0 } else { largest })),
            minimum_volume_size: None,
        }))
    }

    async fn controller_get_volume(
        &self,
        request: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        let id = request::volume_id(&request.get_ref().volume_id)?;
        let (record, published_node_ids) = self
            .0
            .call(move |plugin| {
                let record = plugin.ready_volume(&id)?.ok_or(VolumeNotFound(id))?;
                let nodes = published_nodes(plugin, &record)?;
                Ok::<_, GetVolumeError>((record, nodes))
            })
            .await?;
        Ok(Response::new(proto::ControllerGetVolumeResponse {
            volume: Some(self.volume(&record)),
            status: Some(proto::controller_get_volume_response::VolumeStatus {
                published_node_ids,
                volume_condition: None,
            }),
        }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        let capability = |kind: rpc::Type| proto::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc { r#type: kind.into() })),
        };
        let capabilities = CAPABILITIES
            .iter()
            .filter(|(capability, _)| self.0.has(*capability))
            .map(|(_, kind)| capability(*kind));
        let requires_attachment = self.0.profile.capabilities.requires_attachment;
        let attaching = requires_attachment.then(|| capability(rpc::Type::PublishUnpublishVolume));
        Ok(Response::new(proto::ControllerGetCapabilitiesResponse {
            capabilities: capabilities.chain(attaching).collect(),
        }))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id)?;
        let node = request::id("node", &request.node_id)?;
        let capability = request::volume_capability(request.volume_capability.as_ref())?;
        request::no_context(&request.volume_context)?;
        request::small_map("secrets", &request.secrets)?;
        if request.readonly && !self.0.has(PluginCapability::PublishReadOnly) {
            return Err(InvalidArgument(
                "this plugin does not support read-only attachment".to_owned(),
            )
            .into());
        }
        let work = move |plugin: &Arc<Plugin>| {
            volumes::attach(plugin, id, node, capability, request.readonly)
        };
        self.0.call(work).await?;
        Ok(Response::new(proto::ControllerPublishVolumeResponse::default()))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id)?;
        let work = move |plugin: &Arc<Plugin>| volumes::detach(plugin, id, &request.node_id);
        self.0.call(work).await?;
        Ok(Response::new(proto::ControllerUnpublishVolumeResponse {}))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        let request = request.get_ref();
        let name = request::name("snapshot", &request.name)?;
        let source = request::id("source volume", &request.source_volume_id)?;
        request::no_parameters("snapshot parameters", &request.parameters)?;
        request::small_map("secrets", &request.secrets)?;
        let place = request.accessibility_requirements.clone();
        let work = move |plugin: &Arc<Plugin>| {
            snapshots::check_topology(plugin, place.as_ref())?;
            snapshots::create_snapshot(plugin, name, source)
        };
        let record = self.0.call(work).await?;
        Ok(Response::new(proto::CreateSnapshotResponse {
            snapshot: Some(snapshots::to_proto(&self.0, &record)),
        }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        let request = request.get_ref();
        let id = request::id("snapshot", &request.snapshot_id)?;
        request::small_map("secrets", &request.secrets)?;
        let work = move |plugin: &Arc<Plugin>| snapshots::delete_snapshot(plugin, &id);
        self.0.call(work).await?;
        Ok(Response::new(proto::DeleteSnapshotResponse {}))
    }

    /// A filter without a match returns an empty list, not an error.
    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        let request = request.into_inner();
        let (after, limit) =
            page(&request.starting_token, request.max_entries).map_err(ListSnapshotsError::from)?;
        let (found, last) = self
            .0
            .call(move |plugin| {
                let source = Some(request.source_volume_id).filter(|id| !id.is_empty());
                if !request.snapshot_id.is_empty() {
                    let found = match snapshots::find_snapshot(plugin, &request.snapshot_id) {
                        Ok(found) => Some(found),
                        Err(
                            GetSnapshotError::SnapshotNotFound(_)
                            | GetSnapshotError::GroupNotFound(_)
                            | GetSnapshotError::InvalidArgument(_),
                        ) => None,
                        // A failed read is not a missing snapshot.
                        Err(GetSnapshotError::Host(error)) => return Err(error.into()),
                    };
                    let is_of = |id: &String, of: &String| source.is_none() || id == of;
                    let of = source.clone().unwrap_or_default();
                    let found = found.filter(|found| is_of(&found.source, &of));
                    return Ok((Vec::from_iter(found), None));
                }
                let page = plugin.catalog.snapshot_page(source.as_deref(), after.as_deref(), limit);
                let page = page.map_err(HostError::from)?;
                let last = page.snapshots.last().filter(|_| page.has_more);
                let last = last.map(|last| last.id.clone());
                Ok::<_, ListSnapshotsError>((page.snapshots, last))
            })
            .await?;
        let entry = |record| proto::list_snapshots_response::Entry {
            snapshot: Some(snapshots::to_proto(&self.0, record)),
        };
        Ok(Response::new(proto::ListSnapshotsResponse {
            entries: found.iter().map(entry).collect(),
            next_token: token(last),
        }))
    }

    async fn get_snapshot(
        &self,
        request: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        let id = request::id("snapshot", &request.get_ref().snapshot_id)?;
        let found = self.0.call(move |plugin| snapshots::find_snapshot(plugin, &id)).await?;
        Ok(Response::new(proto::GetSnapshotResponse {
            snapshot: Some(snapshots::to_proto(&self.0, &found)),
        }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        if request.capacity_range.is_none() {
            return Err(InvalidArgument("capacity_range is missing".to_owned()).into());
        }
        let range = request::capacity(request.capacity_range.as_ref())?;
        request::small_map("secrets", &request.secrets)?;
        let capability = request.volume_capability.as_ref();
        let capability = capability
            .map(|capability| request::volume_capability(Some(capability)))
            .transpose()?;
        let work =
            move |plugin: &Arc<Plugin>| volumes::expand(plugin, id, range, capability.as_ref());
        let expanded = self.0.call(work).await?;
        Ok(Response::new(proto::ControllerExpandVolumeResponse {
            capacity_bytes: wire_bytes(expanded.bytes),
            node_expansion_required: expanded.needs_node_expansion,
        }))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id)?;
        request::small_map("secrets", &request.secrets)?;
        let changes = request.mutable_parameters;
        if changes.is_empty() {
            return Err(InvalidArgument("mutable_parameters are missing".to_owned()).into());
        }
        request::small_map("mutable_parameters", &changes)?;
        let work = move |plugin: &Arc<Plugin>| volumes::modify(plugin, id, changes);
        self.0.call(work).await?;
        Ok(Response::new(proto::ControllerModifyVolumeResponse {}))
    }

    async fn controller_get_volume_health(
        &self,
        request: Request<proto::ControllerGetVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeHealthResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id)?;
        request::small_map("secrets", &request.secrets)?;
        let work = move |plugin: &Arc<Plugin>| volumes::controller_health(plugin, id);
        let health = self.0.call(work).await?;
        Ok(Response::new(proto::ControllerGetVolumeHealthResponse { volume_health: Some(health) }))
    }

    async fn controller_list_volume_health(
        &self,
        request: Request<proto::ControllerListVolumeHealthRequest>,
    ) -> Result<Response<proto::ControllerListVolumeHealthResponse>, Status> {
        let request = request.get_ref();
        request::small_map("secrets", &request.secrets)?;
        let (after, limit) =
            page(&request.starting_token, request.max_entries).map_err(ListVolumesError::from)?;
        let work = move |plugin: &Arc<Plugin>| volumes::list_health(plugin, after, limit);
        let (entries, last) = self.0.call(work).await?;
        Ok(Response::new(proto::ControllerListVolumeHealthResponse {
            entries,
            next_token: token(last),
        }))
    }
}

/// The capabilities that ControllerGetCapabilities reports.
const CAPABILITIES: [(PluginCapability, rpc::Type); 15] = [
    (PluginCapability::CreateVolume, rpc::Type::CreateDeleteVolume),
    (PluginCapability::ListVolumes, rpc::Type::ListVolumes),
    (PluginCapability::Capacity, rpc::Type::GetCapacity),
    (PluginCapability::CreateSnapshot, rpc::Type::CreateDeleteSnapshot),
    (PluginCapability::ListSnapshots, rpc::Type::ListSnapshots),
    (PluginCapability::GetSnapshot, rpc::Type::GetSnapshot),
    (PluginCapability::Clone, rpc::Type::CloneVolume),
    (PluginCapability::Expand, rpc::Type::ExpandVolume),
    (PluginCapability::GetVolume, rpc::Type::GetVolume),
    (PluginCapability::Modify, rpc::Type::ModifyVolume),
    (PluginCapability::VolumeHealth, rpc::Type::GetVolumeHealth),
    (PluginCapability::ListHealth, rpc::Type::ListVolumeHealth),
    (PluginCapability::MultiWriter, rpc::Type::SingleNodeMultiWriter),
    (PluginCapability::PublishReadOnly, rpc::Type::PublishReadonly),
    (PluginCapability::PublishedNodes, rpc::Type::ListVolumesPublishedNodes),
];

impl ControllerService {
    /// Refuses the access modes of CSI 1.5 unless the plugin advertises SINGLE_NODE_MULTI_WRITER.
    fn check_access_modes<'a>(
        &self,
        capabilities: impl IntoIterator<Item = &'a VolumeCapability>,
    ) -> Result<(), Status> {
        let newer = capabilities.into_iter().any(|capability| capability.access_mode.is_newer());
        if newer && !self.0.has(PluginCapability::MultiWriter) {
            return Err(InvalidArgument("this plugin does not support the access modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER".to_owned()).into());
        }
        Ok(())
    }

    /// Builds CSI's message. A directory has no size, so its capacity is 0 (unknown).
    fn volume(&self, record: &CatalogVolume) -> proto::Volume {
        proto::Volume {
            capacity_bytes: wire_bytes(record.content.bytes),
            volume_id: record.id.clone(),
            volume_context: BTreeMap::new(),
            content_source: record.requested.source.as_ref().map(source),
            accessible_topology: topology::to_proto(&self.0.profile.topology).into_iter().collect(),
        }
    }

    /// Returns why the capabilities are not confirmed, or `None`. Also checks parameters and
    /// context, because a confirmation repeats them.
    fn unsupported(
        &self,
        request: &proto::ValidateVolumeCapabilitiesRequest,
        capabilities: &[VolumeCapability],
        record: &CatalogVolume,
    ) -> Option<String> {
        if !self.0.has(PluginCapability::Confirm) {
            return Some("this plugin does not confirm capabilities".to_owned());
        }
        let backing = record.content.backing;
        let incompatibility =
            capabilities.iter().find_map(|capability| record.content.incompatibility(capability));
        let others = || {
            request::no_context(&request.volume_context)
                .and_then(|()| volumes::check_parameter_names(&request.parameters))
                .and_then(|()| {
                    volumes::device_tuning(&request.mutable_parameters, backing).map(drop)
                })
        };
        incompatibility.or_else(|| others().err().map(|reason| reason.0))
    }
}

/// Returns the nodes that a volume is attached to, if the plugin reports them.
fn published_nodes(plugin: &Plugin, record: &CatalogVolume) -> Result<Vec<String>, HostError> {
    if !plugin.has(PluginCapability::PublishedNodes) {
        return Ok(vec![]);
    }
    plugin.attached_nodes(record)
}

fn source(source: &ContentSource) -> proto::VolumeContentSource {
    use proto::volume_content_source::{SnapshotSource, Type, VolumeSource};
    let arm = match source {
        ContentSource::Snapshot(id) => Type::Snapshot(SnapshotSource { snapshot_id: id.clone() }),
        ContentSource::Volume(id) => Type::Volume(VolumeSource { volume_id: id.clone() }),
    };
    proto::VolumeContentSource { r#type: Some(arm) }
}

/// Builds the token of the next page.
fn token(last: Option<String>) -> String {
    last.map_or_else(String::new, |last| format!("{TOKEN_PREFIX}{last}"))
}

fn wire_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Parses the capabilities to confirm. An unsupported one is an answer, not an error.
fn requested_capabilities(
    request: &proto::ValidateVolumeCapabilitiesRequest,
) -> Result<Result<Vec<VolumeCapability>, String>, Status> {
    request::volume_id(&request.volume_id)?;
    request::small_map("secrets", &request.secrets)?;
    if request.volume_capabilities.is_empty() {
        return Err(InvalidArgument("volume_capabilities are missing".to_owned()).into());
    }
    let mut capabilities = vec![];
    for capability in &request.volume_capabilities {
        match VolumeCapability::parse(capability) {
            Ok(capability) => capabilities.push(capability),
            Err(CapabilityError::Malformed(message)) => return Err(InvalidArgument(message).into()),
            Err(CapabilityError::Unsupported(message)) => return Ok(Err(message)),
        }
    }
    Ok(Ok(capabilities))
}

/// Why a page cannot be returned.
#[derive(Debug)]
enum PageError {
    InvalidArgument(InvalidArgument),
    InvalidToken(InvalidToken),
}

impl From<PageError> for ListVolumesError {
    fn from(reason: PageError) -> Self {
        match reason {
            PageError::InvalidArgument(reason) => reason.into(),
            PageError::InvalidToken(reason) => reason.into(),
        }
    }
}

impl From<PageError> for ListSnapshotsError {
    fn from(reason: PageError) -> Self {
        match reason {
            PageError::InvalidArgument(reason) => reason.into(),
            PageError::InvalidToken(reason) => reason.into(),
        }
    }
}

/// Returns the start and the size of a page. The entry that a token names may be deleted.
fn page(token: &str, max_entries: i32) -> Result<(Option<String>, usize), PageError> {
    let limit = usize::try_from(max_entries).map_err(|_| {
        PageError::InvalidArgument(InvalidArgument(format!(
            "max_entries is negative: {max_entries}"
        )))
    })?;
    let limit = match limit {
        0 => MAX_PAGE_ENTRIES,
        limit => limit.min(MAX_PAGE_ENTRIES),
    };
    if token.is_empty() {
        return Ok((None, limit));
    }
    let id = token.strip_prefix(TOKEN_PREFIX).ok_or(PageError::InvalidToken(InvalidToken))?;
    uuid::Uuid::try_parse(id).map_err(|_| PageError::InvalidToken(InvalidToken))?;
    Ok((Some(id.to_owned()), limit))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    #[test]
    fn only_tokens_of_this_plugin_start_a_page() {
        let id = "00000000-0000-4000-8000-000000000001";
        assert_eq!(page("", 0).unwrap(), (None, MAX_PAGE_ENTRIES));
        assert_eq!(page("", 2).unwrap(), (None, 2));
        let token = format!("{TOKEN_PREFIX}{id}");
        assert_eq!(page(&token, 1).unwrap(), (Some(id.to_owned()), 1));
        for token in ["invalid-token", "after-", "after-x", id, "\u{0}", "after-\u{fffd}"] {
            let code = Status::from(ListVolumesError::from(page(token, 0).unwrap_err())).code();
            assert_eq!(code, Code::Aborted, "{token:?}");
        }
        let negative = Status::from(ListSnapshotsError::from(page("", -1).unwrap_err()));
        assert_eq!(negative.code(), Code::InvalidArgument);
    }
}
