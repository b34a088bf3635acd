//! The statistics of published volumes, and the capacity of providers.

use serde_json::json;

use super::{create, get, send_line};
use crate::fake::FakeAgent;
use nomad_csi_model::{
    ControllerCapabilities, NodeCapabilities, ReportedCapacity, ReportedQuantity, StatsUnit,
};
use nomad_csi_ports::{Rpc, StatusCode};
use nomad_csi_testing::{Fault, PluginSettings, ReportedStats};

/// W56: the document of a volume says that there are statistics, and the route beside it returns them. What is not known
/// has no field.
#[tokio::test(start_paused = true)]
async fn statistics_have_a_route_and_a_volume_says_so() {
    let settings = PluginSettings {
        node: Some(NodeCapabilities {
            stage_unstage_volume: true,
            get_volume_stats: true,
            ..NodeCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    create(&agent, "db").await;
    let volume = get(&agent, "/v1/volume/csi/db").await.json();
    assert_eq!(volume["ReportsStats"], true);
    let uri = "/v1/volume/csi/db/stats";
    let nothing = json!({"Stats": [], "Unknown": []});
    assert_eq!(get(&agent, uri).await.json(), nothing);
    let body = json!({"AllocID": "a1", "NodeID": FakeAgent::NODE}).to_string();
    let claimed = send_line(&agent, "PUT /v1/volume/csi/db/claim", &body).await;
    assert!(claimed.status < 300, "{}", claimed.text());
    let quantity = ReportedQuantity { unit: StatsUnit::Bytes, total: 100, used: 25, available: 70 };
    let stats = ReportedStats { quantities: vec![quantity], condition: None };
    let node = agent.backend.settings().description.external_node_id;
    agent.backend.set_stats(node, "fake-1".into(), stats);
    let bytes = json!({"Total": 100, "Used": 25, "Available": 70});
    let expected = json!({"Stats": [{"NodeID": FakeAgent::NODE, "Bytes": bytes}], "Unknown": []});
    assert_eq!(get(&agent, uri).await.json(), expected);
    let refused = [Fault::Fail(StatusCode::Internal)];
    agent.backend.inject_faults(Rpc::NodeGetVolumeStats, refused);
    let unknown = get(&agent, uri).await;
    assert_eq!(unknown.status, 200, "{}", unknown.text());
    let unknown = unknown.json();
    assert_eq!(unknown["Stats"], json!([]));
    assert_eq!(unknown["Unknown"].as_array().unwrap().len(), 1);
    assert_eq!(get(&agent, "/v1/volume/csi/no/stats").await.status, 404);
    assert_eq!(send_line(&agent, "POST /v1/volume/csi/db/stats", "").await.status, 405);
}

#[tokio::test(start_paused = true)]
async fn a_volume_without_statistics_does_not_mention_them() {
    let agent = super::agent().await;
    create(&agent, "db").await;
    let volume = get(&agent, "/v1/volume/csi/db").await;
    assert!(!volume.text().contains("ReportsStats"), "{}", volume.text());
}

/// W56: the same for the capacity of a plugin's provider.
#[tokio::test(start_paused = true)]
async fn the_capacity_of_a_provider_has_a_route_and_a_plugin_says_so() {
    let settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            get_capacity: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    let plugin = get(&agent, "/v1/plugin/csi/fake").await.json();
    assert_eq!(plugin["ReportsCapacity"], true);
    let reported = ReportedCapacity { available: 100, maximum: None, minimum: Some(1) };
    agent.backend.set_capacity(None, reported);
    let uri = "/v1/plugin/csi/fake/capacity";
    let expected = json!({"Capacity": [{"Available": 100, "MinimumVolumeSize": 1}], "Unknown": []});
    assert_eq!(get(&agent, uri).await.json(), expected);
    assert_eq!(get(&agent, "/v1/plugin/csi/no/capacity").await.status, 404);
    assert_eq!(send_line(&agent, &format!("PUT {uri}"), "").await.status, 405);
    let other = super::agent().await;
    let plugin = get(&other, "/v1/plugin/csi/fake").await;
    assert!(!plugin.text().contains("ReportsCapacity"), "{}", plugin.text());
    let nothing = json!({"Capacity": [], "Unknown": []});
    assert_eq!(get(&other, uri).await.json(), nothing);
}

/// W56: mutable parameters have a route of their own, and the volume shows those that are in force and a change that did
/// not end.
#[tokio::test(start_paused = true)]
async fn mutable_parameters_are_changed_and_shown() {
    let settings = PluginSettings {
        controller: Some(ControllerCapabilities {
            create_delete_volume: true,
            modify_volume: true,
            ..ControllerCapabilities::default()
        }),
        ..PluginSettings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    create(&agent, "db").await;
    let plain = get(&agent, "/v1/volume/csi/db").await;
    assert!(!plain.text().contains("Mutable"), "{}", plain.text());
    let line = "PUT /v1/volume/csi/db/modify";
    let body = |value: &str| json!({"MutableParameters": {"iops": value}}).to_string();
    let changed = send_line(&agent, line, &body("100")).await;
    assert_eq!(changed.status, 200, "{}", changed.text());
    let expected = json!({"MutableParameters": {"iops": "100"}});
    assert_eq!(changed.json(), expected);
    let rpc = Rpc::ControllerModifyVolume;
    agent.backend.inject_faults(rpc, [Fault::Fail(StatusCode::Internal)]);
    let failed = send_line(&agent, line, &body("200")).await;
    assert_eq!(failed.status, 500, "{}", failed.text());
    let volume = get(&agent, "/v1/volume/csi/db").await.json();
    assert_eq!(volume["MutableParameters"], json!({"iops": "100"}));
    assert_eq!(volume["ModifyPending"], json!({"iops": "200"}));
    for (line, body, status) in [
        (line, "", 400),
        (line, "{}", 500),
        (line, "{\"MutableParameters\": {\"\": \"a\"}}", 500),
        ("PUT /v1/volume/csi/no/modify", "{\"MutableParameters\": {\"a\": \"b\"}}", 404),
        ("GET /v1/volume/csi/db/modify", "", 405),
    ] {
        let answer = send_line(&agent, line, body).await;
        assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
    }
}
