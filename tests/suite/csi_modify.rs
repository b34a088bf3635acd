//! Mutable parameters over gRPC, against the strict fake plugin.

use std::collections::BTreeMap;

use nomad_csi_csi::GrpcConnector;
use nomad_csi_model::retry::Verdict;
use nomad_csi_model::{ControllerCapabilities, ExternalId, Secrets};
use nomad_csi_ports::{Connector as _, ModifyVolume, SentSecrets, StatusCode};
use nomad_csi_testing::{FakeBackend, PluginSettings};

use crate::support::fake_plugin::FakePluginServer;

/// W56: mutable parameters arrive as they were sent, with the secrets; the others stay, and a refusal changes none.
#[tokio::test]
async fn mutable_parameters_arrive_as_they_were_sent() {
    let secrets = Secrets::from_iter([("token", "hunter2")]);
    let settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            modify_volume: true,
            ..ControllerCapabilities::default()
        }),
        secrets: secrets.clone(),
        ..PluginSettings::default()
    };
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("csi.sock");
    let server = FakePluginServer::start(FakeBackend::new(settings), &socket);
    let plugin = GrpcConnector::new().connect(server.socket(), None, &SentSecrets::default());
    let capabilities = plugin.controller.controller_capabilities().await.unwrap();
    assert!(capabilities.modify_volume);
    let id = ExternalId::new("v");
    server.backend.add_volume(id.clone(), BTreeMap::new());
    let modify = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let request = ModifyVolume {
            external_id: id.clone(),
            parameters: pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            secrets: secrets.clone(),
        };
        plugin.controller.modify_volume(request)
    };
    modify(&[("iops", "1"), ("note", "")]).await.unwrap();
    modify(&[("iops", "2")]).await.unwrap();
    let refused = modify(&[("iops", "3"), ("note", "wrong")]).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, StatusCode::InvalidArgument);
    assert_eq!(refused.verdict, Verdict::Permanent);
    let found = &server.backend.volumes()[0].mutable_parameters;
    let found: Vec<_> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(found, [("iops", "2"), ("note", "")]);
    assert_eq!(server.backend.take_violations(), Vec::<String>::new());
}
