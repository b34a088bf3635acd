//! Operations against the strict fake plugin. The plugin itself fails a test in which the server
//! sends what CSI forbids.

mod create;
mod delete;
mod expand;
mod provider;
mod recording;
mod register;

use crate::model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions,
    Topology, TopologyRequest, VolumeRequest,
};
use crate::ports::Rpc;
use crate::ports::fake::Settings;
use crate::server::error::ServerError;
use crate::server::fake::FakeAgent;
use crate::server::volumes::service::{Submitted, WriteOutcome};
use crate::state::{Phase, VolumeRecord, violations};

async fn agent() -> FakeAgent {
    FakeAgent::start(Settings::default()).await.unwrap()
}

fn submit(request: VolumeRequest) -> Vec<Submitted> {
    vec![request.into()]
}

impl FakeAgent {
    async fn create(&self, request: VolumeRequest) -> Result<WriteOutcome, ServerError> {
        let outcome = self.volumes.create(submit(request)).await;
        self.is_sound();
        outcome
    }

    async fn register(&self, request: VolumeRequest) -> Result<WriteOutcome, ServerError> {
        let outcome = self.volumes.register(submit(request)).await;
        self.is_sound();
        outcome
    }

    async fn delete(&self, id: &str) -> Result<u64, ServerError> {
        let outcome = self
            .volumes
            .delete(FakeAgent::key(id), Default::default())
            .await;
        self.is_sound();
        outcome
    }

    async fn deregister(&self, id: &str, force: bool) -> Result<u64, ServerError> {
        let outcome = self.volumes.deregister(FakeAgent::key(id), force).await;
        self.is_sound();
        outcome
    }

    fn is_sound(&self) {
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
        (
            count(Rpc::CreateVolume),
            count(Rpc::DeleteVolume),
            count(Rpc::ValidateVolumeCapabilities),
        )
    }

    fn external_volumes(&self) -> Vec<String> {
        let volumes = self.backend.volumes();
        volumes.iter().map(|v| v.external_id.to_string()).collect()
    }

    /// Gives the plugin a volume, and the request that registers it.
    fn provided(&self, external_id: &str, id: &str) -> VolumeRequest {
        let external_id = ExternalId::new(external_id);
        self.backend
            .add_volume(external_id.clone(), Default::default());
        VolumeRequest {
            external_id: Some(external_id),
            ..FakeAgent::request(id)
        }
    }
}

fn sized(min: u64, max: u64) -> CapacityRange {
    CapacityRange {
        min: Bytes::new(min).unwrap(),
        max: Bytes::new(max).unwrap(),
    }
}

fn zone(name: &str) -> Topology {
    Topology {
        segments: [("zone".to_owned(), name.to_owned())].into(),
    }
}

fn in_zones(required: &[&str]) -> TopologyRequest {
    TopologyRequest {
        required: required.iter().map(|name| zone(name)).collect(),
        preferred: vec![],
    }
}

fn ext4() -> MountOptions {
    MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec!["noatime".into()],
    }
}

fn capability(access_mode: AccessMode, attachment_mode: AttachmentMode) -> Capability {
    Capability {
        access_mode,
        attachment_mode,
    }
}

fn text<T: std::fmt::Debug>(outcome: Result<T, ServerError>) -> String {
    outcome.expect_err("it is refused").text()
}
