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

/// B08, W22: a first registration cannot set them either, whether it is created or registered.
#[tokio::test(start_paused = true)]
async fn values_of_the_server_are_ignored_in_a_first_registration() {
    for verb in ["create", "register"] {
        let agent = agent().await;
        let mut plain = volume_body("plain");
        let mut stuffed = volume_body("stuffed");
        for (id, body) in [("plain", &mut plain), ("stuffed", &mut stuffed)] {
            body["ExternalID"] = json!(if verb == "register" {
                let external = format!("vol-{id}");
                agent.backend.add_volume(external.as_str().into(), Default::default());
                external
            } else {
                String::new()
            });
            body["Name"] = json!("name");
        }
        for (field, value) in [
            ("AccessMode", json!("multi-node-multi-writer")),
            ("AttachmentMode", json!("block-device")),
            ("ReadAllocs", json!({"a1": null})),
            ("WriteAllocs", json!({"a2": null})),
            ("Allocations", json!([{"ID": "a1"}])),
            ("Capacity", json!(7)),
            ("Schedulable", json!(false)),
            ("Provider", json!("other")),
            ("ProviderVersion", json!("other")),
            ("ControllerRequired", json!(false)),
            ("ControllersHealthy", json!(9)),
            ("ControllersExpected", json!(9)),
            ("NodesHealthy", json!(9)),
            ("NodesExpected", json!(9)),
            ("ResourceExhausted", json!("2020-01-01T00:00:00Z")),
            ("Topologies", json!([{"Segments": {"zone": "z"}}])),
            ("CreateIndex", json!(1)),
            ("ModifyIndex", json!(999)),
            ("CreateTime", json!(1)),
            ("ModifyTime", json!(1)),
        ] {
            stuffed[field] = value;
        }
        let mut shown = vec![];
        for (id, body) in [("plain", &plain), ("stuffed", &stuffed)] {
            let body = json!({"Volumes": [body]}).to_string();
            let path = match verb {
                "create" => format!("PUT /v1/volume/csi/{id}/create"),
                _ => format!("PUT /v1/volume/csi/{id}"),
            };
            let answer = send_line(&agent, &path, &body).await;
            assert_eq!(answer.status, 200, "{verb}: {}", answer.text());
            let mut read = get(&agent, &format!("/v1/volume/csi/{id}")).await.json();
            for own in [
                "ID",
                "ExternalID",
                "Context",
                "CreateIndex",
                "ModifyIndex",
                "SpecIndex",
                "CreateTime",
                "ModifyTime",
            ] {
                assert_ne!(read[own], json!(1), "{verb} {id}: {own}");
                assert_ne!(read[own], json!(999), "{verb} {id}: {own}");
                read[own] = json!(null);
            }
            shown.push(read);
        }
        assert_eq!(shown[0], shown[1], "{verb}");
    }
}
