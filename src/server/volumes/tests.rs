//! Volume operations against the strict fake plugin, which fails a test that sends what CSI forbids.

mod bound_controllers;
mod capacity;
mod create;
mod delete;
mod expand;
mod health;
mod late_answers;
mod modify;
mod pending;
mod provider;
mod recording;
mod register;
mod sent_secrets;

use crate::error::ServerError;
use crate::fake::FakeAgent;
use crate::volumes::{VolumeSubmission, VolumeWriteResult};
use nomad_csi_claims::state::{Phase, VolumeRecord, violations};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions,
    Topology, TopologyRequest, VolumeRequest,
};
use nomad_csi_ports::Rpc;
use nomad_csi_testing::PluginSettings;

async fn agent() -> FakeAgent {
    FakeAgent::start(PluginSettings::default()).await.unwrap()
}

fn submit(request: VolumeRequest) -> Vec<VolumeSubmission> {
    vec![request.into()]
}

impl FakeAgent {
    async fn create(&self, request: VolumeRequest) -> Result<VolumeWriteResult, ServerError> {
        let result = self.volumes.create(submit(request)).await;
        self.assert_consistent();
        result
    }

    async fn register(&self, request: VolumeRequest) -> Result<VolumeWriteResult, ServerError> {
        let result = self.volumes.register(submit(request)).await;
        self.assert_consistent();
        result
    }

    async fn delete(&self, id: &str) -> Result<u64, ServerError> {
        let result = self.volumes.delete(FakeAgent::key(id), Default::default()).await;
        self.assert_consistent();
        result
    }

    async fn deregister(&self, id: &str, force: bool) -> Result<u64, ServerError> {
        let result = self.volumes.deregister(FakeAgent::key(id), force).await;
        self.assert_consistent();
        result
    }

    fn assert_consistent(&self) {
        assert_eq!(violations(&self.state()), Vec::<String>::new());
    }

    fn record(&self, id: &str) -> Option<VolumeRecord> {
        let state = self.state();
        let record = state.record(&FakeAgent::key(id));
        record.map(|record| VolumeRecord::clone(record))
    }

    fn phase(&self, id: &str) -> Option<Phase> {
        self.record(id).map(|record| record.phase)
    }

    /// How often CreateVolume, DeleteVolume and ValidateVolumeCapabilities arrived.
    fn calls(&self) -> (usize, usize, usize) {
        let count = |rpc| self.backend.count(rpc);
        (count(Rpc::CreateVolume), count(Rpc::DeleteVolume), count(Rpc::ValidateVolumeCapabilities))
    }

    fn external_volumes(&self) -> Vec<String> {
        let volumes = self.backend.volumes();
        volumes.iter().map(|v| v.external_id.to_string()).collect()
    }

    /// Adds a volume to the plugin and returns the request that registers it.
    fn add_external_volume(&self, external_id: &str, id: &str) -> VolumeRequest {
        let external_id = ExternalId::new(external_id);
        self.backend.add_volume(external_id.clone(), Default::default());
        VolumeRequest { external_id: Some(external_id), ..FakeAgent::request(id) }
    }
}

fn sized(min: u64, max: u64) -> CapacityRange {
    CapacityRange { min: Bytes::new(min).unwrap(), max: Bytes::new(max).unwrap() }
}

fn zone(name: &str) -> Topology {
    Topology { segments: [("zone".to_owned(), name.to_owned())].into() }
}

fn in_zones(required: &[&str]) -> TopologyRequest {
    TopologyRequest {
        required: required.iter().map(|name| zone(name)).collect(),
        preferred: vec![],
    }
}

fn ext4() -> MountOptions {
    MountOptions { fs_type: "ext4".into(), mount_flags: vec!["noatime".into()] }
}

fn capability(access_mode: AccessMode, attachment_mode: AttachmentMode) -> Capability {
    Capability { access_mode, attachment_mode }
}

fn text<T: std::fmt::Debug>(result: Result<T, ServerError>) -> String {
    result.expect_err("the request is refused").text()
}
