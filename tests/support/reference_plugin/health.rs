//! The health of volumes and storage: every volume is degraded.

use nomad_csi_proto as proto;
use nomad_csi_proto::node_get_storage_health_response::StorageBackendHealth;
use nomad_csi_proto::volume_health::VolumeHealthEntry;

use super::deviation::Deviation as D;
use super::state::{Answer, PluginState, invalid, not_found};

impl PluginState {
    pub(super) fn controller_get_volume_health(
        &self,
        request: &proto::ControllerGetVolumeHealthRequest,
    ) -> Answer<proto::ControllerGetVolumeHealthResponse> {
        let health = self.health(&request.volume_id, D::HealthOfUnknown, D::HealthOfOther)?;
        Ok(proto::ControllerGetVolumeHealthResponse { volume_health: Some(health) })
    }

    pub(super) fn controller_list_volume_health(
        &self,
        request: &proto::ControllerListVolumeHealthRequest,
    ) -> Answer<proto::ControllerListVolumeHealthResponse> {
        let token = match request.starting_token.as_str() {
            _ if self.has(D::AnyHealthToken) => "",
            token => token,
        };
        let (after, limit) = self.page(token, request.max_entries, D::LongHealthPages)?;
        let listed = ["listed-1", "listed-2", "listed-3"];
        let listed = listed.into_iter().filter(|id| *id > after.as_str());
        let mut entries: Vec<_> = listed.map(|id| self.degraded(id)).collect();
        let next_token = self.cut(&mut entries, limit, |entry| Some(entry.volume_id.clone()));
        Ok(proto::ControllerListVolumeHealthResponse { entries, next_token })
    }

    pub(super) fn node_get_volume_health(
        &self,
        request: &proto::NodeGetVolumeHealthRequest,
    ) -> Answer<proto::NodeGetVolumeHealthResponse> {
        let id = &request.volume_id;
        let health = self.health(id, D::NodeHealthOfUnknown, D::NodeHealthOfOther)?;
        Ok(proto::NodeGetVolumeHealthResponse {
            volume_health: (!self.has(D::NoNodeHealth)).then_some(health),
        })
    }

    pub(super) fn node_get_storage_health(
        &self,
        _: &proto::NodeGetStorageHealthRequest,
    ) -> Answer<proto::NodeGetStorageHealthResponse> {
        let entry = StorageBackendHealth {
            status: proto::StorageHealthErrorType::StorageDegraded.into(),
            reason: "PathLost".to_owned(),
            message: "one of two paths is lost".to_owned(),
            volume_capability: None,
        };
        let times = if self.has(D::StorageTwice) { 2 } else { 1 };
        Ok(proto::NodeGetStorageHealthResponse { backend_health: vec![entry; times] })
    }

    fn health(&self, id: &str, any: D, other: D) -> Answer<proto::VolumeHealth> {
        if id.is_empty() {
            return invalid("the volume ID is missing");
        }
        if !self.volumes.contains_key(id) && !self.has(any) {
            return not_found("volume");
        }
        Ok(match self.has(other) {
            true => self.degraded("another"),
            false => self.degraded(id),
        })
    }

    fn degraded(&self, id: &str) -> proto::VolumeHealth {
        let reason = if self.has(D::NoHealthReason) { "" } else { "ReplicaLost" };
        let entry = VolumeHealthEntry {
            status: proto::VolumeHealthErrorType::Degraded.into(),
            reason: reason.to_owned(),
            message: "one of two replicas is lost".to_owned(),
        };
        let times = if self.has(D::HealthTwice) { 2 } else { 1 };
        proto::VolumeHealth { volume_id: id.to_owned(), health_statuses: vec![entry; times] }
    }
}
