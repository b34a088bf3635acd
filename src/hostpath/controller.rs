//! CSI's Controller service.

use std::collections::BTreeMap;
use std::sync::Arc;

use tonic::{Code, Request, Response, Status, async_trait};

use super::abilities::Ability;
use super::attaching;
use super::catalog::{Source, VolumeRecord};
use super::condition;
use super::error::{
    BadToken, GetCapacityError, GetSnapshotError, GetVolumeError, Invalid, ListSnapshotsError,
    ListVolumesError, Machine, NoVolume, ValidateVolumeError,
};
use super::expansion;
use super::modification;
use super::parameters;
use super::plugin::Plugin;
use super::request::{self, Create};
use super::snapshots;
use super::topology;
use super::usage::{NotUsable, Usage};
use super::volumes;
use crate::csi::proto;
use crate::csi::proto::controller_server::Controller;
use crate::csi::proto::controller_service_capability::{Rpc, Type, rpc};
use crate::csi::proto::validate_volume_capabilities_response::Confirmed;

/// A page without a bound asked for has at most so many entries: a few megabytes at most, which
/// every gRPC client takes.
const LARGEST_PAGE: usize = 10_000;

/// A token is this and the ID of the last entry of the page before.
const TOKEN: &str = "after-";

/// Serves [`Controller`].
pub(super) struct ControllerService(pub(super) Arc<Plugin>);

#[async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let request = Create::parse(request.get_ref()).map_err(invalid)?;
        self.knows_modes(&request.wanted.usages)?;
        let work = volumes::create(self.0.clone(), request);
        let record = self.0.run(work).await?;
        Ok(Response::new(proto::CreateVolumeResponse {
            volume: Some(self.volume(&record)),
        }))
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let work = volumes::delete(self.0.clone(), id);
        self.0.run(work).await?;
        Ok(Response::new(proto::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let usages = asked(&request)?;
        let id = request.volume_id.clone();
        let record = self
            .0
            .blocking(move |plugin| {
                let record = plugin.ready(&id)?;
                Ok::<_, ValidateVolumeError>(record.ok_or(NoVolume(id))?)
            })
            .await?;
        let message = match usages {
            Err(reason) => Some(reason),
            Ok(usages) => self.unsupported(&request, &usages, &record),
        };
        let confirmed = message.is_none().then_some(Confirmed {
            volume_context: request.volume_context,
            volume_capabilities: request.volume_capabilities,
            parameters: request.parameters,
            mutable_parameters: request.mutable_parameters,
        });
        let message = message.unwrap_or_default();
        Ok(Response::new(proto::ValidateVolumeCapabilitiesResponse {
            confirmed,
            message,
        }))
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        let request = request.get_ref();
        let (after, limit) =
            page(&request.starting_token, request.max_entries).map_err(ListVolumesError::from)?;
        let (entries, last) = self
            .0
            .blocking(move |plugin| {
                let page = plugin.catalog.page(after.as_deref(), limit);
                let (records, has_more) = page.map_err(Machine::from)?;
                let last = records.last().filter(|_| has_more);
                let last = last.map(|last| last.id.clone());
                let mut entries = vec![];
                for record in records {
                    let condition = condition::of(plugin, &record)?;
                    entries.push((record, condition));
                }
                Ok::<_, ListVolumesError>((entries, last))
            })
            .await?;
        let entry = |(record, condition): (VolumeRecord, _)| proto::list_volumes_response::Entry {
            volume: Some(self.volume(&record)),
            status: Some(proto::list_volumes_response::VolumeStatus {
                published_node_ids: self.nodes_of(&record),
                volume_condition: condition,
            }),
        };
        Ok(Response::new(proto::ListVolumesResponse {
            entries: entries.into_iter().map(entry).collect(),
            next_token: token(last),
        }))
    }

    /// What can still be promised. Capabilities and parameters that cannot be had are wrong; a place
    /// that is not here has no room.
    async fn get_capacity(
        &self,
        request: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        let request = request.into_inner();
        if !request.volume_capabilities.is_empty() {
            request::usages(&request.volume_capabilities).map_err(invalid)?;
        }
        let place = request.accessible_topology.as_ref();
        let is_elsewhere =
            place.is_some_and(|place| !topology::is_in(place, &self.0.play.topology));
        let parameters = request.parameters;
        let (left, total) = self
            .0
            .blocking(move |plugin| {
                parameters::known(&parameters)?;
                let total = plugin.directories.room();
                let total = total.map_err(Machine::files("measure the file system"))?;
                Ok::<_, GetCapacityError>((volumes::room_left(plugin)?, total.total_bytes))
            })
            .await?;
        let left = if is_elsewhere { 0 } else { left };
        let largest = if self.0.play.overcommit { total } else { left };
        Ok(Response::new(proto::GetCapacityResponse {
            available_capacity: wire_bytes(left),
            maximum_volume_size: Some(wire_bytes(if is_elsewhere { 0 } else { largest })),
            minimum_volume_size: None,
        }))
    }

    async fn controller_get_volume(
        &self,
        request: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        let id = request::volume_id(&request.get_ref().volume_id).map_err(invalid)?;
        let (record, condition) = self
            .0
            .blocking(move |plugin| {
                let record = plugin.ready(&id)?.ok_or(NoVolume(id))?;
                let condition = condition::of(plugin, &record)?;
                Ok::<_, GetVolumeError>((record, condition))
            })
            .await?;
        Ok(Response::new(proto::ControllerGetVolumeResponse {
            volume: Some(self.volume(&record)),
            status: Some(proto::controller_get_volume_response::VolumeStatus {
                published_node_ids: self.nodes_of(&record),
                volume_condition: condition,
            }),
        }))
    }

    async fn controller_get_capabilities(
        &self,
        _: Request<proto::ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<proto::ControllerGetCapabilitiesResponse>, Status> {
        let capability = |kind: rpc::Type| proto::ControllerServiceCapability {
            r#type: Some(Type::Rpc(Rpc {
                r#type: kind.into(),
            })),
        };
        let capabilities = CAPABILITIES
            .iter()
            .filter(|(ability, _)| self.0.has(*ability))
            .map(|(_, kind)| capability(*kind));
        let attaches = self.0.play.abilities.attaches;
        let attaching = attaches.then(|| capability(rpc::Type::PublishUnpublishVolume));
        Ok(Response::new(proto::ControllerGetCapabilitiesResponse {
            capabilities: capabilities.chain(attaching).collect(),
        }))
    }

    async fn controller_publish_volume(
        &self,
        request: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        let node = request::id("node", &request.node_id).map_err(invalid)?;
        let usage = request::usage(request.volume_capability.as_ref()).map_err(invalid)?;
        request::no_context(&request.volume_context).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        if request.readonly && !self.0.has(Ability::PublishReadOnly) {
            return Err(invalid(Invalid(
                "this plugin does not attach read-only, and does not advertise it".to_owned(),
            )));
        }
        let work = attaching::attach(self.0.clone(), id, node, usage, request.readonly);
        self.0.run(work).await?;
        Ok(Response::new(
            proto::ControllerPublishVolumeResponse::default(),
        ))
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        let work = attaching::detach(self.0.clone(), id, request.node_id);
        self.0.run(work).await?;
        Ok(Response::new(proto::ControllerUnpublishVolumeResponse {}))
    }

    async fn create_snapshot(
        &self,
        request: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        let request = request.get_ref();
        let name = request::name("snapshot", &request.name).map_err(invalid)?;
        let source = request::id("source volume", &request.source_volume_id).map_err(invalid)?;
        request::no_parameters("snapshot parameters", &request.parameters).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let work = snapshots::cut(self.0.clone(), name, source);
        let record = self.0.run(work).await?;
        Ok(Response::new(proto::CreateSnapshotResponse {
            snapshot: Some(snapshots::message(&record)),
        }))
    }

    async fn delete_snapshot(
        &self,
        request: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        let request = request.get_ref();
        let id = request::id("snapshot", &request.snapshot_id).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let work = snapshots::delete(self.0.clone(), id);
        self.0.run(work).await?;
        Ok(Response::new(proto::DeleteSnapshotResponse {}))
    }

    /// A filter that matches nothing gives an empty list (5.13).
    async fn list_snapshots(
        &self,
        request: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        let request = request.into_inner();
        let (after, limit) =
            page(&request.starting_token, request.max_entries).map_err(ListSnapshotsError::from)?;
        let (found, last) = self
            .0
            .blocking(move |plugin| {
                let source = Some(request.source_volume_id).filter(|id| !id.is_empty());
                if !request.snapshot_id.is_empty() {
                    let found = match snapshots::find(plugin, &request.snapshot_id) {
                        Ok(found) => Some(found),
                        Err(
                            GetSnapshotError::NoSnapshot(_)
                            | GetSnapshotError::NoGroup(_)
                            | GetSnapshotError::Invalid(_),
                        ) => None,
                        // What cannot be read is not what is not there.
                        Err(GetSnapshotError::Machine(error)) => return Err(error.into()),
                    };
                    let is_of = |id: &String, of: &String| source.is_none() || id == of;
                    let of = source.clone().unwrap_or_default();
                    let found = found.filter(|found| is_of(&found.source, &of));
                    return Ok((Vec::from_iter(found), None));
                }
                let page = plugin
                    .catalog
                    .snapshot_page(source.as_deref(), after.as_deref(), limit);
                let page = page.map_err(Machine::from)?;
                let last = page.snapshots.last().filter(|_| page.has_more);
                let last = last.map(|last| last.id.clone());
                Ok::<_, ListSnapshotsError>((page.snapshots, last))
            })
            .await?;
        let entry = |record| proto::list_snapshots_response::Entry {
            snapshot: Some(snapshots::message(record)),
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
        let id = request::id("snapshot", &request.get_ref().snapshot_id).map_err(invalid)?;
        let found = self
            .0
            .blocking(move |plugin| snapshots::find(plugin, &id))
            .await?;
        Ok(Response::new(proto::GetSnapshotResponse {
            snapshot: Some(snapshots::message(&found)),
        }))
    }

    async fn controller_expand_volume(
        &self,
        request: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        let request = request.get_ref();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        if request.capacity_range.is_none() {
            return Err(invalid(Invalid("capacity_range is missing".to_owned())));
        }
        let range = request::capacity(request.capacity_range.as_ref()).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let usage = request.volume_capability.as_ref();
        let usage = usage.map(|usage| request::usage(Some(usage))).transpose();
        let usage = usage.map_err(invalid)?;
        let work = expansion::expand(self.0.clone(), id, range, usage);
        let expanded = self.0.run(work).await?;
        Ok(Response::new(proto::ControllerExpandVolumeResponse {
            capacity_bytes: wire_bytes(expanded.bytes),
            node_expansion_required: expanded.needs_node,
        }))
    }

    async fn controller_modify_volume(
        &self,
        request: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        let request = request.into_inner();
        let id = request::volume_id(&request.volume_id).map_err(invalid)?;
        request::small_map("secrets", &request.secrets).map_err(invalid)?;
        let changes = request.mutable_parameters;
        if changes.is_empty() {
            return Err(invalid(Invalid(
                "mutable_parameters are missing".to_owned(),
            )));
        }
        request::small_map("mutable_parameters", &changes).map_err(invalid)?;
        let work = modification::modify(self.0.clone(), id, changes);
        self.0.run(work).await?;
        Ok(Response::new(proto::ControllerModifyVolumeResponse {}))
    }
}

/// What is advertised for which ability.
const CAPABILITIES: [(Ability, rpc::Type); 14] = [
    (Ability::CreateVolume, rpc::Type::CreateDeleteVolume),
    (Ability::ListVolumes, rpc::Type::ListVolumes),
    (Ability::Capacity, rpc::Type::GetCapacity),
    (Ability::CreateSnapshot, rpc::Type::CreateDeleteSnapshot),
    (Ability::ListSnapshots, rpc::Type::ListSnapshots),
    (Ability::GetSnapshot, rpc::Type::GetSnapshot),
    (Ability::Clone, rpc::Type::CloneVolume),
    (Ability::Expand, rpc::Type::ExpandVolume),
    (Ability::GetVolume, rpc::Type::GetVolume),
    (Ability::Modify, rpc::Type::ModifyVolume),
    (Ability::Condition, rpc::Type::VolumeCondition),
    (Ability::MultiWriter, rpc::Type::SingleNodeMultiWriter),
    (Ability::PublishReadOnly, rpc::Type::PublishReadonly),
    (
        Ability::PublishedNodes,
        rpc::Type::ListVolumesPublishedNodes,
    ),
];

impl ControllerService {
    /// The access modes of 1.5 are for plugins that say so (`csi-spec` 2.2).
    fn knows_modes<'a>(&self, usages: impl IntoIterator<Item = &'a Usage>) -> Result<(), Status> {
        let newer = usages.into_iter().any(|usage| usage.access_mode.is_newer());
        if newer && !self.0.has(Ability::MultiWriter) {
            return Err(invalid(Invalid(
                "this plugin does not have the access modes SINGLE_NODE_SINGLE_WRITER and SINGLE_NODE_MULTI_WRITER".to_owned(),
            )));
        }
        Ok(())
    }

    /// A volume as CSI tells of it. A directory's size is not known: 0 on the wire.
    fn volume(&self, record: &VolumeRecord) -> proto::Volume {
        proto::Volume {
            capacity_bytes: wire_bytes(record.content.bytes),
            volume_id: record.id.clone(),
            volume_context: BTreeMap::new(),
            content_source: record.wanted.source.as_ref().map(source),
            accessible_topology: topology::message(&self.0.play.topology)
                .into_iter()
                .collect(),
        }
    }

    fn nodes_of(&self, record: &VolumeRecord) -> Vec<String> {
        let is_told = self.0.has(Ability::PublishedNodes) && record.attachment.is_some();
        is_told
            .then(|| self.0.node_id.clone())
            .into_iter()
            .collect()
    }

    /// Why the capabilities are not confirmed, if they are not. Parameters and context are checked
    /// too, since a confirmation echoes them.
    fn unsupported(
        &self,
        request: &proto::ValidateVolumeCapabilitiesRequest,
        usages: &[Usage],
        record: &VolumeRecord,
    ) -> Option<String> {
        if !self.0.has(Ability::Confirm) {
            return Some("this plugin confirms nothing".to_owned());
        }
        let backing = record.content.backing;
        let misfit = usages
            .iter()
            .find_map(|usage| usage.misfit(&record.content));
        let others = || {
            request::no_context(&request.volume_context)
                .and_then(|()| parameters::known(&request.parameters))
                .and_then(|()| parameters::tuning(&request.mutable_parameters, backing).map(drop))
        };
        misfit.or_else(|| others().err().map(|reason| reason.0))
    }
}

fn source(source: &Source) -> proto::VolumeContentSource {
    use proto::volume_content_source::{SnapshotSource, Type, VolumeSource};
    let arm = match source {
        Source::Snapshot(id) => Type::Snapshot(SnapshotSource {
            snapshot_id: id.clone(),
        }),
        Source::Volume(id) => Type::Volume(VolumeSource {
            volume_id: id.clone(),
        }),
    };
    proto::VolumeContentSource { r#type: Some(arm) }
}

/// The token of the page after the one that ends there.
fn token(last: Option<String>) -> String {
    last.map_or_else(String::new, |last| format!("{TOKEN}{last}"))
}

/// Every RPC answers a request that is wrong in itself with INVALID_ARGUMENT (`csi-spec` 3.2).
pub(super) fn invalid(reason: Invalid) -> Status {
    Status::new(Code::InvalidArgument, reason.0)
}

fn wire_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// The capabilities that are to be confirmed, or why they never can be: an answer and no error (5.6).
fn asked(
    request: &proto::ValidateVolumeCapabilitiesRequest,
) -> Result<Result<Vec<Usage>, String>, Status> {
    request::volume_id(&request.volume_id).map_err(invalid)?;
    request::small_map("secrets", &request.secrets).map_err(invalid)?;
    if request.volume_capabilities.is_empty() {
        return Err(invalid(Invalid(
            "the volume's capabilities are missing".to_owned(),
        )));
    }
    let mut usages = vec![];
    for capability in &request.volume_capabilities {
        match Usage::parse(capability) {
            Ok(usage) => usages.push(usage),
            Err(NotUsable::Malformed(message)) => return Err(invalid(Invalid(message))),
            Err(NotUsable::Unsupported(message)) => return Ok(Err(message)),
        }
    }
    Ok(Ok(usages))
}

/// Why there is no page.
#[derive(Debug)]
enum NoPage {
    Invalid(Invalid),
    BadToken(BadToken),
}

impl From<NoPage> for ListVolumesError {
    fn from(reason: NoPage) -> Self {
        match reason {
            NoPage::Invalid(reason) => reason.into(),
            NoPage::BadToken(reason) => reason.into(),
        }
    }
}

impl From<NoPage> for ListSnapshotsError {
    fn from(reason: NoPage) -> Self {
        match reason {
            NoPage::Invalid(reason) => reason.into(),
            NoPage::BadToken(reason) => reason.into(),
        }
    }
}

/// Where a page begins and how long it is. A token may name an entry that is gone by now.
fn page(token: &str, max_entries: i32) -> Result<(Option<String>, usize), NoPage> {
    let limit = usize::try_from(max_entries)
        .map_err(|_| NoPage::Invalid(Invalid(format!("max_entries is negative: {max_entries}"))))?;
    let limit = match limit {
        0 => LARGEST_PAGE,
        limit => limit.min(LARGEST_PAGE),
    };
    if token.is_empty() {
        return Ok((None, limit));
    }
    let id = token
        .strip_prefix(TOKEN)
        .ok_or(NoPage::BadToken(BadToken))?;
    uuid::Uuid::try_parse(id).map_err(|_| NoPage::BadToken(BadToken))?;
    Ok((Some(id.to_owned()), limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_this_plugin_begin_a_page() {
        let id = "00000000-0000-4000-8000-000000000001";
        assert_eq!(page("", 0).unwrap(), (None, LARGEST_PAGE));
        assert_eq!(page("", 2).unwrap(), (None, 2));
        let token = format!("{TOKEN}{id}");
        assert_eq!(page(&token, 1).unwrap(), (Some(id.to_owned()), 1));
        for token in [
            "invalid-token",
            "after-",
            "after-x",
            id,
            "\u{0}",
            "after-\u{fffd}",
        ] {
            let code = Status::from(ListVolumesError::from(page(token, 0).unwrap_err())).code();
            assert_eq!(code, Code::Aborted, "{token:?}");
        }
        let negative = Status::from(ListSnapshotsError::from(page("", -1).unwrap_err()));
        assert_eq!(negative.code(), Code::InvalidArgument);
    }
}
