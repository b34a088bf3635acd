//! Namespaces over HTTP: the requests of Nomad's CLI, and what is refused without one.

use serde_json::json;

use super::*;
use nomad_csi_claims::state::samples::jobs::{job, job_key};
use nomad_csi_wire::job_to_wire;

#[tokio::test(start_paused = true)]
async fn a_namespace_is_created_changed_and_deleted() {
    let agent = agent().await;
    let unknown = get(&agent, "/v1/namespace/ops").await;
    assert_eq!((unknown.status, unknown.text()), (404, "Namespace not found"));
    let body = json!({"Name": "ops", "Description": "for us", "Quota": "", "Capabilities": null,
        "NodePoolConfiguration": null, "VaultConfiguration": null, "ConsulConfiguration": null,
        "Meta": {"team": "storage"}, "CreateIndex": 0, "ModifyIndex": 0});
    let created = send_line(&agent, "PUT /v1/namespace", &body.to_string()).await;
    assert_eq!((created.status, created.text()), (200, ""));
    let read = get(&agent, "/v1/namespace/ops").await;
    assert_eq!(read.index(), created.index());
    assert_eq!(read.json()["Description"], json!("for us"));
    assert_eq!(read.json()["Meta"], json!({"team": "storage"}));
    let changed = json!({"Name": "ops", "Description": "for all"}).to_string();
    let changed = send_line(&agent, "POST /v1/namespace/ops", &changed).await;
    let read = get(&agent, "/v1/namespace/ops").await.json();
    assert_eq!(read["Description"], json!("for all"));
    assert_eq!(read["CreateIndex"], json!(created.index()));
    assert_eq!(read["ModifyIndex"], json!(changed.index()));
    let names = |answer: Answer| -> Vec<String> {
        let list = answer.json();
        let names = list.as_array().unwrap().iter();
        names.map(|one| one["Name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(get(&agent, "/v1/namespaces").await), ["default", "ops"]);
    assert_eq!(names(get(&agent, "/v1/namespaces?prefix=o").await), ["ops"]);
    let deleted = send_line(&agent, "DELETE /v1/namespace/ops", "").await;
    assert_eq!((deleted.status, deleted.text()), (200, ""));
    assert_eq!(names(get(&agent, "/v1/namespaces").await), ["default"]);
}

/// B12: a volume and a job need a namespace that exists.
#[tokio::test(start_paused = true)]
async fn writes_into_an_unknown_namespace_are_refused() {
    let agent = agent().await;
    let volumes = json!({"Volumes": [volume_body("db")]}).to_string();
    let mut document = job(&job_key("web"));
    document.namespace = "ops".into();
    let job = json!({"Job": job_to_wire(&document)}).to_string();
    let writes = [
        (
            "PUT /v1/volume/csi/db/create?namespace=ops",
            &volumes,
            "volume db is in nonexistent namespace ops",
        ),
        ("PUT /v1/volumes?namespace=ops", &volumes, "volume db is in nonexistent namespace ops"),
        ("PUT /v1/jobs", &job, "job \"web\" is in nonexistent namespace \"ops\""),
        ("PUT /v1/job/web/plan", &job, "job \"web\" is in nonexistent namespace \"ops\""),
    ];
    for (line, body, text) in &writes {
        let before = agent.state();
        let answer = send_line(&agent, line, body).await;
        assert_eq!((answer.status, answer.text()), (500, *text), "{line}");
        assert_eq!(agent.state(), before, "{line}");
    }
    let calls = agent.backend.count(Rpc::CreateVolume);
    assert_eq!(calls, 0, "the plugin was not called");
    agent.add_namespaces(&["ops"]).await;
    for (line, body, _) in &writes {
        assert_eq!(send_line(&agent, line, body).await.status, 200, "{line}");
    }
    let refused = send_line(&agent, "DELETE /v1/namespace/ops", "").await;
    assert_eq!(
        (refused.status, refused.text()),
        (500, "namespace \"ops\" has non-terminal jobs in regions: [global]")
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_not_empty_is_not_deleted() {
    let agent = agent().await;
    agent.add_namespaces(&["ops"]).await;
    for (line, text) in [
        ("DELETE /v1/namespace/default", "can not delete default namespace"),
        ("DELETE /v1/namespace/nope", "namespace not found"),
    ] {
        let answer = send_line(&agent, line, "").await;
        assert_eq!((answer.status, answer.text()), (500, text), "{line}");
    }
    for id in ["a", "b", "c", "d"] {
        let body = json!({"Volumes": [volume_body(id)]}).to_string();
        send_line(&agent, "PUT /v1/volume/csi/x/create?namespace=ops", &body).await;
    }
    let items = json!({"Items": {"a": "b"}}).to_string();
    send_line(&agent, "PUT /v1/var/app/x?namespace=ops", &items).await;
    let refused = send_line(&agent, "DELETE /v1/namespace/ops", "").await;
    assert_eq!(
        refused.text(),
        "namespace `ops` cannot be deleted: it contains 4 volumes (`a`, `b`, `c`, …) and 1 variable (`app/x`)"
    );
}

#[tokio::test(start_paused = true)]
async fn an_invalid_namespace_is_refused() {
    let agent = agent().await;
    for (line, body, part) in [
        ("PUT /v1/namespace", r#"{"Name": "a b"}"#, "`a b` is not a name"),
        ("PUT /v1/namespace", r#"{"Name": ""}"#, "`` is not a name"),
        ("PUT /v1/namespace/x", r#"{"Name": "y"}"#, "and the body `y`"),
        (
            "PUT /v1/namespace",
            r#"{"Name": "x", "Capabilities": {"EnabledTaskDrivers": ["exec"]}}"#,
            "does not support `Capabilities`",
        ),
    ] {
        let answer = send_line(&agent, line, body).await;
        assert_eq!(answer.status, 400, "{line} {body}");
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    let too_long = json!({"Name": "x", "Description": "d".repeat(257)}).to_string();
    assert_eq!(send_line(&agent, "PUT /v1/namespace", &too_long).await.status, 400);
}
