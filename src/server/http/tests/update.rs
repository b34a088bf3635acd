//! Updates of a volume over HTTP.

use serde_json::json;

use super::{agent, create, get, send_line, volume_body};

/// B07: an update cannot set what belongs to the server: modes, claims, counts, sizes, health, indexes
/// and times.
#[tokio::test(start_paused = true)]
async fn values_of_the_server_are_ignored_in_an_update() {
    let agent = agent().await;
    create(&agent, "db").await;
    let before = get(&agent, "/v1/volume/csi/db").await.json();
    let mut volume = volume_body("db");
    for (field, value) in [
        ("AccessMode", json!("multi-node-multi-writer")),
        ("AttachmentMode", json!("block-device")),
        ("ReadAllocs", json!({"a1": null})),
        ("WriteAllocs", json!({"a2": null})),
        ("Capacity", json!(7)),
        ("Schedulable", json!(false)),
        ("Provider", json!("other")),
        ("ControllersHealthy", json!(9)),
        ("NodesExpected", json!(9)),
        ("CreateIndex", json!(1)),
        ("ModifyIndex", json!(999)),
        ("CreateTime", json!(1)),
        ("ModifyTime", json!(1)),
    ] {
        assert_ne!(before[field], value, "{field}");
        volume[field] = value;
    }
    let body = json!({"Volumes": [volume]}).to_string();
    let answer = send_line(&agent, "PUT /v1/volume/csi/db", &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let after = get(&agent, "/v1/volume/csi/db").await.json();
    assert_eq!(after, before);
}
