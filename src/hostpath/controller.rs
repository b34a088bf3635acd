//! CSI's Controller service.
//!
//! Creates, deletes, validates, lists, and tells capacity and single volumes. What it does not have
//! (attach, snapshots, clones, expansion, modification) it neither advertises nor answers.

use std::sync::Arc;

use tonic::{Code, Request, Response, Status, async_trait};

use super::catalog::VolumeRecord;
use super::error::{
    BadToken, GetCapacityError, GetVolumeError, Invalid, ListVolumesError, Machine, NoVolume,
    ValidateVolumeError,
};
use super::plugin::Plugin;
use super::request::{self, Create};
use super::usage::{NotUsable, Usage};
use super::volumes;
use crate::csi::proto;
use crate::csi::proto::controller_server::Controller;
use crate::csi::proto::controller_service_capability::{Rpc, Type, rpc};
use crate::csi::proto::validate_volume_capabilities_response::Confirmed;

/// A page without a bound asked for has at most so many entries: about half a megabyte, which
/// every gRPC client takes.
const LARGEST_PAGE: usize = 10_000;

/// A token is this and the ID of the last volume of the page before.
const TOKEN: &str = "after-";

/// Serves [`Controller`].
pub(super) struct ControllerService(pub(super) Arc<Plugin>);

/// The answer to an RPC that this plugin does not advertise.
pub(super) fn lacks<T>(rpc: &str) -> Result<T, Status> {
    Err(Status::new(
        Code::Unimplemented,
        format!("this plugin does not have {rpc}, and does not advertise it"),
    ))
}

#[async_trait]
impl Controller for ControllerService {
    async fn create_volume(
        &self,
        request: Request<proto::CreateVolumeRequest>,
    ) -> Result<Response<proto::CreateVolumeResponse>, Status> {
        let request = Create::parse(request.get_ref()).map_err(invalid)?;
        let work = volumes::create(self.0.clone(), request);
        let record = self.0.run(work).await?;
        Ok(Response::new(proto::CreateVolumeResponse {
            volume: Some(volume(&record)),
        }))
    }

    async fn delete_volume(
        &self,
        request: Request<proto::DeleteVolumeRequest>,
    ) -> Result<Response<proto::DeleteVolumeResponse>, Status> {
        let id = request::volume_id(&request.get_ref().volume_id).map_err(invalid)?;
        let work = volumes::delete(self.0.clone(), id);
        self.0.run(work).await?;
        Ok(Response::new(proto::DeleteVolumeResponse {}))
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<proto::ValidateVolumeCapabilitiesRequest>,
    ) -> Result<Response<proto::ValidateVolumeCapabilitiesResponse>, Status> {
        let request = request.into_inner();
        let unsupported = unsupported(&request)?;
        let id = request.volume_id.clone();
        self.0
            .blocking(move |plugin| {
                let record = plugin.ready(&id)?;
                record.map(drop).ok_or(NoVolume(id))?;
                Ok::<_, ValidateVolumeError>(())
            })
            .await?;
        Ok(Response::new(match unsupported {
            Some(message) => proto::ValidateVolumeCapabilitiesResponse {
                confirmed: None,
                message,
            },
            None => proto::ValidateVolumeCapabilitiesResponse {
                confirmed: Some(Confirmed {
                    volume_context: request.volume_context,
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    mutable_parameters: request.mutable_parameters,
                }),
                message: String::new(),
            },
        }))
    }

    async fn list_volumes(
        &self,
        request: Request<proto::ListVolumesRequest>,
    ) -> Result<Response<proto::ListVolumesResponse>, Status> {
        let request = request.get_ref();
        let (after, limit) = page(&request.starting_token, request.max_entries)?;
        let (records, has_more) = self
            .0
            .blocking(move |plugin| {
                let page = plugin.catalog.page(after.as_deref(), limit);
                Ok::<_, ListVolumesError>(page.map_err(Machine::from)?)
            })
            .await?;
        let last = records.last().filter(|_| has_more);
        let next_token = last.map_or_else(String::new, |last| format!("{TOKEN}{}", last.id));
        let entry = |record| proto::list_volumes_response::Entry {
            volume: Some(volume(record)),
            status: None,
        };
        Ok(Response::new(proto::ListVolumesResponse {
            entries: records.iter().map(entry).collect(),
            next_token,
        }))
    }

    /// What is free on the file system, whatever is asked: volumes share it.
    async fn get_capacity(
        &self,
        request: Request<proto::GetCapacityRequest>,
    ) -> Result<Response<proto::GetCapacityResponse>, Status> {
        let request = request.get_ref();
        request::no_parameters("parameters", &request.parameters).map_err(invalid)?;
        if !request.volume_capabilities.is_empty() {
            request::usages(&request.volume_capabilities).map_err(invalid)?;
        }
        let room = self.0.blocking(|plugin| {
            let room = plugin.data.room();
            Ok::<_, GetCapacityError>(room.map_err(Machine::files("measure the file system"))?)
        });
        let room = room.await?;
        Ok(Response::new(proto::GetCapacityResponse {
            available_capacity: wire_bytes(room.available_bytes),
            maximum_volume_size: Some(wire_bytes(room.total_bytes)),
            minimum_volume_size: None,
        }))
    }

    async fn controller_get_volume(
        &self,
        request: Request<proto::ControllerGetVolumeRequest>,
    ) -> Result<Response<proto::ControllerGetVolumeResponse>, Status> {
        let id = request::volume_id(&request.get_ref().volume_id).map_err(invalid)?;
        let record = self
            .0
            .blocking(move |plugin| {
                Ok::<_, GetVolumeError>(plugin.ready(&id)?.ok_or(NoVolume(id))?)
            })
            .await?;
        Ok(Response::new(proto::ControllerGetVolumeResponse {
            volume: Some(volume(&record)),
            status: Some(Default::default()),
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
        let capabilities = [
            rpc::Type::CreateDeleteVolume,
            rpc::Type::ListVolumes,
            rpc::Type::GetCapacity,
            rpc::Type::GetVolume,
            rpc::Type::SingleNodeMultiWriter,
        ];
        Ok(Response::new(proto::ControllerGetCapabilitiesResponse {
            capabilities: capabilities.map(capability).into(),
        }))
    }

    async fn controller_publish_volume(
        &self,
        _: Request<proto::ControllerPublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerPublishVolumeResponse>, Status> {
        lacks("ControllerPublishVolume")
    }

    async fn controller_unpublish_volume(
        &self,
        _: Request<proto::ControllerUnpublishVolumeRequest>,
    ) -> Result<Response<proto::ControllerUnpublishVolumeResponse>, Status> {
        lacks("ControllerUnpublishVolume")
    }

    async fn create_snapshot(
        &self,
        _: Request<proto::CreateSnapshotRequest>,
    ) -> Result<Response<proto::CreateSnapshotResponse>, Status> {
        lacks("CreateSnapshot")
    }

    async fn delete_snapshot(
        &self,
        _: Request<proto::DeleteSnapshotRequest>,
    ) -> Result<Response<proto::DeleteSnapshotResponse>, Status> {
        lacks("DeleteSnapshot")
    }

    async fn list_snapshots(
        &self,
        _: Request<proto::ListSnapshotsRequest>,
    ) -> Result<Response<proto::ListSnapshotsResponse>, Status> {
        lacks("ListSnapshots")
    }

    async fn get_snapshot(
        &self,
        _: Request<proto::GetSnapshotRequest>,
    ) -> Result<Response<proto::GetSnapshotResponse>, Status> {
        lacks("GetSnapshot")
    }

    async fn controller_expand_volume(
        &self,
        _: Request<proto::ControllerExpandVolumeRequest>,
    ) -> Result<Response<proto::ControllerExpandVolumeResponse>, Status> {
        lacks("ControllerExpandVolume")
    }

    async fn controller_modify_volume(
        &self,
        _: Request<proto::ControllerModifyVolumeRequest>,
    ) -> Result<Response<proto::ControllerModifyVolumeResponse>, Status> {
        lacks("ControllerModifyVolume")
    }
}

/// Every RPC answers a request that is wrong in itself with INVALID_ARGUMENT (`csi-spec` 3.2).
pub(super) fn invalid(reason: Invalid) -> Status {
    Status::new(Code::InvalidArgument, reason.0)
}

/// A directory's size is not known: 0 on the wire.
fn volume(record: &VolumeRecord) -> proto::Volume {
    proto::Volume {
        capacity_bytes: 0,
        volume_id: record.id.clone(),
        ..proto::Volume::default()
    }
}

fn wire_bytes(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Why the capabilities are not confirmed, if they are not: an answer and no error (5.6). Parameters
/// and context are checked too, since a confirmation echoes them.
fn unsupported(
    request: &proto::ValidateVolumeCapabilitiesRequest,
) -> Result<Option<String>, Status> {
    request::volume_id(&request.volume_id).map_err(invalid)?;
    if request.volume_capabilities.is_empty() {
        return Err(invalid(Invalid(
            "the volume's capabilities are missing".to_owned(),
        )));
    }
    for capability in &request.volume_capabilities {
        match Usage::parse(capability) {
            Ok(_) => {}
            Err(NotUsable::Malformed(message)) => return Err(invalid(Invalid(message))),
            Err(NotUsable::Unsupported(message)) => return Ok(Some(message)),
        }
    }
    let others = request::no_context(&request.volume_context)
        .and_then(|()| request::no_parameters("parameters", &request.parameters))
        .and_then(|()| request::no_parameters("mutable_parameters", &request.mutable_parameters));
    Ok(others.err().map(|reason| reason.0))
}

/// Where a page begins and how long it is. A token may name a volume that is gone by now.
fn page(token: &str, max_entries: i32) -> Result<(Option<String>, usize), ListVolumesError> {
    let Ok(limit) = usize::try_from(max_entries) else {
        return Err(Invalid(format!("max_entries is negative: {max_entries}")).into());
    };
    let limit = match limit {
        0 => LARGEST_PAGE,
        limit => limit.min(LARGEST_PAGE),
    };
    if token.is_empty() {
        return Ok((None, limit));
    }
    let id = token.strip_prefix(TOKEN).ok_or(BadToken)?;
    uuid::Uuid::try_parse(id).map_err(|_| BadToken)?;
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
            let code = Status::from(page(token, 0).unwrap_err()).code();
            assert_eq!(code, Code::Aborted, "{token:?}");
        }
        let negative = Status::from(page("", -1).unwrap_err());
        assert_eq!(negative.code(), Code::InvalidArgument);
    }
}
