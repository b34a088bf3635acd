//! The API in process: paths, headers, texts and documents.

mod acl;
mod alloc_access;
mod blocking;
mod clients;
mod conditions;
mod counts;
mod cut_off;
mod events;
mod job_files;
mod log_lines;
mod logs;
mod namespaces;
mod stats;
mod update;

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use axum::response::Response;
use flate2::bufread::GzDecoder;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::{
    Connection, ConnectionSlots, HttpSettings, Limits, OperatorAccess, Peer, operator_router,
    router,
};
use crate::fake::{FakeAgent, FakeSealer};
use crate::ports::ServerPorts;
use crate::services::Services;
use crate::volumes::VolumeLimits;
use nomad_csi_claims::state::samples::jobs::{job, job_key};
use nomad_csi_claims::state::{Event, EventKind};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{NodeId, Secrets, VolumeRequest};
use nomad_csi_ports::{IdSource, Rpc, SoleServer, StatusCode};
use nomad_csi_testing::{FakeClock, Fault, PluginSettings};
use nomad_csi_wire::{ErrorBody, INDEX, KNOWN_LEADER, LAST_CONTACT, NEXT_TOKEN, job_to_wire};

pub(super) struct Answer {
    pub(super) status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(super) fn index(&self) -> u64 {
        self.header(INDEX).parse().unwrap()
    }
}

/// The text for a path that the agent does not have.
const NO_ENDPOINT: &str = "the agent of nomad-csi does not have this endpoint";

async fn agent() -> FakeAgent {
    FakeAgent::start(PluginSettings::default()).await.unwrap()
}

async fn send(services: &Services, request: Request<Body>) -> Answer {
    let router = operator_router(services.clone(), HttpSettings::default()).await;
    answer(router.oneshot(request).await.unwrap()).await
}

async fn answer(response: Response) -> Answer {
    let (parts, body) = response.into_parts();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: to_bytes(body, usize::MAX).await.unwrap().to_vec(),
    }
}

pub(super) async fn send_line(agent: &FakeAgent, line: &str, body: &str) -> Answer {
    let (method, uri) = line.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(uri);
    let request = request.body(Body::from(body.to_owned())).unwrap();
    send(&agent.services, request).await
}

/// Sends a request that accepts typed errors.
pub(super) async fn send_typed(agent: &FakeAgent, line: &str, body: &str) -> Answer {
    let (method, uri) = line.split_once(' ').unwrap();
    let request = Request::builder().method(method).uri(uri);
    let request = request.header("Accept", ErrorBody::MEDIA_TYPE);
    let request = request.body(Body::from(body.to_owned())).unwrap();
    send(&agent.services, request).await
}

pub(super) async fn get(agent: &FakeAgent, uri: &str) -> Answer {
    send_line(agent, &format!("GET {uri}"), "").await
}

fn volume_body(id: &str) -> Value {
    json!({"ID": id, "Name": format!("{id}-name"), "PluginID": "fake", "RequestedCapabilities": [
        {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}]})
}

async fn create(agent: &FakeAgent, id: &str) -> Answer {
    let body = json!({"Volumes": [volume_body(id)]}).to_string();
    let answer = send_line(agent, &format!("PUT /v1/volume/csi/{id}/create"), &body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer
}

/// Routes, wrong methods and slashes, with Nomad's texts. B42: a detach that names no node.
#[tokio::test(start_paused = true)]
#[expect(clippy::too_many_lines, reason = "a table")]
async fn every_path_responds_like_nomad() {
    let agent = agent().await;
    create(&agent, "db").await;
    for (line, status, text) in [
        ("GET /v1/volumes/", 404, NO_ENDPOINT),
        ("GET /v1/volumes/snapshots", 404, NO_ENDPOINT),
        ("GET /v1/nope", 404, NO_ENDPOINT),
        ("GET /v1/job/web/versions", 404, "job not found"),
        ("GET /v1/job/web/scale", 404, "job not found"),
        ("GET /v1/jobs/parse", 405, "Invalid method"),
        (
            "PUT /v1/node/pools",
            501,
            "this agent has the node pools `all` and `default`, which cannot be changed",
        ),
        (
            "GET /v1/job/web/action",
            501,
            "this agent runs no other command in a task and does not pause one: use a command on the machine; `nomad-csi alloc restart` and `alloc signal` are there",
        ),
        ("GET /v1/node/pool/nope", 404, "node pool not found"),
        ("GET /v1/volumes", 200, "[]"),
        ("GET /v1/volumes?type=host", 200, "[]"),
        ("GET /v1/volumes?type=foo", 404, "resource not found"),
        ("GET /v1/volumes?type=", 404, "resource not found"),
        ("DELETE /v1/volumes", 405, "Invalid method"),
        ("PUT /v1/volumes", 400, "Request body is empty"),
        ("POST /v1/volumes", 400, "Request body is empty"),
        ("PUT /v1/volume/csi/db", 400, "Request body is empty"),
        ("PUT /v1/volume/csi/db/create", 400, "Request body is empty"),
        ("GET /v1/volume/csi/", 500, "missing volume ID"),
        ("GET /v1/volume/csi/nope", 404, "volume not found"),
        ("GET /v1/volume/csi/db?namespace=*", 404, "volume not found"),
        ("GET /v1/volume/csi/db?namespace=x", 404, "volume not found"),
        ("GET /v1/volume/csi/db/", 405, "Invalid method"),
        ("GET /v1/volume/csi/db/create", 405, "Invalid method"),
        ("GET /v1/volume/csi/a%2Fb", 405, "Invalid method"),
        ("POST /v1/volume/csi/db", 405, "Invalid method"),
        ("POST /v1/volume/csi/db/create", 405, "Invalid method"),
        ("PATCH /v1/volume/csi/db", 405, "Invalid method"),
        ("PUT /v1/volume/csi/db/nope", 404, "resource not found"),
        ("DELETE /v1/volume/csi/db/nope", 404, "resource not found"),
        ("PUT /v1/volume/csi/a%2Fb/create", 404, "resource not found"),
        ("GET /v1/volume/csi/a/b/c", 404, "resource not found"),
        ("DELETE /v1/volume/csi/nope", 500, "volume not found: nope"),
        ("DELETE /v1/volume/csi/db?force=maybe", 400, "invalid force value"),
        ("DELETE /v1/volume/csi/nope/delete", 500, "volume not found: nope"),
        ("DELETE /v1/volume/csi/db/detach", 400, "detach requires node ID"),
        ("DELETE /v1/volume/csi/nope/detach?node=n", 500, "no such volume"),
        ("DELETE /v1/volume/csi/db/detach?node=n", 404, "node `n` does not exist"),
        ("GET /v1/volume/csi/%FF", 400, "the path is not percent-encoded UTF-8"),
        ("GET /v1/volume/csi/db?region=mars", 500, "No path to region"),
        ("GET /v1/status/leader?region=mars", 500, "No path to region"),
        ("GET /v1/volume/csi/db?index=x", 400, "Invalid index"),
        ("GET /v1/volume/csi/db?index=1&wait=x", 400, "Invalid wait time"),
        (
            "GET /v1/volume/csi/db?stale=maybe",
            400,
            "Expect `true` or `false` for `stale` query string parameter",
        ),
        (
            "GET /v1/volumes?type=csi&per_page=x",
            400,
            "Expect a number for `per_page` query string parameter",
        ),
        (
            "GET /v1/volumes?type=csi&next_token=plain",
            400,
            "failed to create result paginator: the next_token is not from this list",
        ),
        (
            "GET /v1/volumes?type=csi&filter=Name",
            400,
            "failed to create result paginator: failed to read filter expression: at character 5: \
             expected `==`, `!=`, `in`, `contains`, `matches`, `is empty`, or `not` and one of them, \
             found the end",
        ),
        ("GET /v1/volumes/external", 500, "no such plugin"),
        ("GET /v1/volumes/external?plugin_id=x", 500, "no such plugin"),
        ("GET /v1/volumes/external?plugin_id=fake", 500, "unimplemented for this plugin"),
        ("POST /v1/volumes/external", 405, "Invalid method"),
        (
            "GET /v1/volumes/snapshot?plugin_id=fake",
            500,
            "plugin does not support listing snapshots",
        ),
        (
            "DELETE /v1/volumes/snapshot?plugin_id=fake",
            500,
            "1 error occurred:\n\t* plugin does not support snapshot\n\n",
        ),
        ("PATCH /v1/volumes/snapshot", 405, "Invalid method"),
        ("GET /v1/plugins", 200, "[]"),
        ("GET /v1/plugins?type=foo", 200, ""),
        ("POST /v1/plugins?type=csi", 405, "Invalid method"),
        ("GET /v1/plugin/csi/nope", 404, "plugin not found"),
        ("GET /v1/plugin/csi/nope/ignored", 404, "plugin not found"),
        ("GET /v1/plugin/csi/a/b/c", 404, "resource not found"),
        ("PUT /v1/plugin/csi/fake", 405, "Invalid method"),
        ("GET /v1/search", 405, "Invalid method"),
        ("GET /v1/status/leader", 200, "\"127.0.0.1:4646\""),
        ("GET /v1/status/peers", 200, "[\"127.0.0.1:4646\"]"),
        ("GET /v1/regions", 200, "[\"global\"]"),
        ("GET /v1/namespace/nope", 404, "Namespace not found"),
        ("PUT /v1/regions", 405, "Invalid method"),
    ] {
        let answer = send_line(&agent, line, "").await;
        assert_eq!((answer.status, answer.text()), (status, text), "{line}");
        assert_eq!(answer.header(KNOWN_LEADER), "true", "{line}");
        assert_eq!(answer.header(LAST_CONTACT), "0", "{line}");
        assert_eq!(answer.header("X-Nomad-CSI-Agent"), "1.2.3", "{line}");
        assert_eq!(answer.header("Vary"), "Accept-Encoding", "{line}");
        assert!(answer.index() >= 1, "{line}");
        let content_type = answer.header("Content-Type");
        let expected = match (status, text) {
            (_, "") => "",
            (200, _) => "application/json",
            _ => "text/plain; charset=utf-8",
        };
        assert_eq!(content_type, expected, "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn lists_refuse_head_requests() {
    let answer = send_line(&agent().await, "HEAD /v1/volumes?type=csi", "").await;
    assert_eq!((answer.status, answer.text()), (405, ""));
}

#[tokio::test(start_paused = true)]
async fn snapshots_are_refused_if_the_plugin_does_not_support_them() {
    let agent = agent().await;
    create(&agent, "db").await;
    let body = r#"{"Snapshots":[{"SourceVolumeID":"db"},{"SourceVolumeID":"nope"}]}"#;
    for method in ["PUT", "POST"] {
        let answer = send_line(&agent, &format!("{method} /v1/volumes/snapshot"), body).await;
        assert_eq!(
            (answer.status, answer.text()),
            (
                500,
                "2 errors occurred:\n\t* plugin \"fake\" does not support snapshot\n\t* no such \
                 volume \"nope\"\n\n"
            )
        );
    }
}

/// IDs with brackets may be raw or encoded; IDs are decoded once.
#[tokio::test(start_paused = true)]
async fn ids_are_found_raw_and_encoded() {
    let agent = agent().await;
    for id in ["vol[0]", "x y", "50%25", "日本"] {
        let body = json!({"Volumes": [volume_body(id)]}).to_string();
        let answer = send_line(&agent, "PUT /v1/volume/csi/ignored/create", &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for path in ["vol[0]", "vol%5B0%5D", "x%20y", "50%2525", "%E6%97%A5%E6%9C%AC"] {
        let answer = get(&agent, &format!("/v1/volume/csi/{path}")).await;
        assert_eq!(answer.status, 200, "{path}");
    }
}

/// Byte for byte: sorted keys, no secrets, redacted flags, and `null` only where Nomad has it.
#[tokio::test(start_paused = true)]
async fn a_volume_is_encoded_like_nomads() {
    let agent = agent().await;
    agent.add_namespaces(&["prod"]).await;
    let body = json!({"Volumes": [{
        "ID": "db", "Name": "database", "Namespace": "prod", "PluginID": "fake",
        "RequestedCapabilities": [
            {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}],
        "RequestedCapacityMin": 100, "RequestedCapacityMax": 200,
        "MountOptions": {"FSType": "ext4", "MountFlags": ["noatime"]},
        "Secrets": {"token": "canary"}, "Parameters": {"type": "<gp3>"},
        // Fields that Go clients also send and that clients may not set.
        "Allocations": null, "ReadAllocs": null, "ResourceExhausted": "0001-01-01T00:00:00Z",
        "Schedulable": false, "Topologies": null, "Capacity": 7, "AccessMode": "x",
        "CreateIndex": 99, "Context": null, "RequestedTopologies": null,
    }], "SecretID": "", "Region": "", "Namespace": ""});
    let answer =
        send_line(&agent, "PUT /v1/volume/csi/db/create?namespace=other", &body.to_string()).await;
    let volume = format!(
        r#"{{"AccessMode":"","Allocations":[],"AttachmentMode":"","Capacity":100,"CloneID":"","Context":{{"made-by":"fake-1"}},"ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"CreateIndex":7,"CreateTime":{time},"ExternalID":"fake-1","ID":"db","ModifyIndex":8,"ModifyTime":{time},"MountOptions":{{"FSType":"ext4","MountFlags":["[REDACTED]"]}},"Name":"database","Namespace":"prod","NodesExpected":1,"NodesHealthy":1,"Parameters":{{"type":"<gp3>"}},"PluginID":"fake","Provider":"fake.csi.nomad-csi.test","ProviderVersion":"1.0.0","ReadAllocs":{{}},"RequestedCapabilities":[{{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}}],"RequestedCapacityMax":200,"RequestedCapacityMin":100,"RequestedTopologies":null,"ResourceExhausted":null,"Schedulable":true,"Secrets":null,"SnapshotID":"","SpecIndex":8,"Topologies":[],"WriteAllocs":{{}}}}"#,
        time = FakeClock::START
    );
    assert_eq!(
        answer.text(),
        format!(
            r#"{{"Index":8,"KnownLeader":true,"LastContact":0,"NextToken":"","Volumes":[{volume}],"Warnings":""}}"#
        )
    );
    assert_eq!(answer.index(), 8);
    let answer = get(&agent, "/v1/volume/csi/db?namespace=prod").await;
    assert_eq!(answer.text(), volume);
    assert_eq!(answer.index(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_list_is_encoded_like_nomads() {
    let agent = agent().await;
    assert_eq!(get(&agent, "/v1/volumes?type=csi").await.text(), "[]");
    create(&agent, "db").await;
    let answer = get(&agent, "/v1/volumes?type=csi").await;
    assert_eq!(
        answer.text(),
        format!(
            r#"[{{"AccessMode":"","AttachmentMode":"","ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"CreateIndex":6,"CreateTime":{time},"CurrentReaders":0,"CurrentWriters":0,"ExternalID":"fake-1","ID":"db","ModifyIndex":7,"ModifyTime":{time},"Name":"db-name","Namespace":"default","NodesExpected":1,"NodesHealthy":1,"PluginID":"fake","Provider":"fake.csi.nomad-csi.test","ResourceExhausted":null,"Schedulable":true,"SpecIndex":7,"Topologies":[]}}]"#,
            time = FakeClock::START
        )
    );
    let pretty = get(&agent, "/v1/volumes?type=csi&pretty").await;
    assert!(pretty.text().starts_with("[\n    {\n        \"AccessMode\": \"\","));
    assert!(pretty.text().ends_with("]\n"));
    assert_eq!(pretty.json(), answer.json());
}

/// The document has the fields that `nomad plugin status` reads.
#[tokio::test(start_paused = true)]
async fn a_plugin_is_encoded_like_nomads() {
    let agent = agent().await;
    let list = get(&agent, "/v1/plugins?type=csi&prefix=fa").await;
    assert_eq!(
        list.text(),
        r#"[{"ControllerRequired":true,"ControllersExpected":1,"ControllersHealthy":1,"CreateIndex":5,"ID":"fake","ModifyIndex":5,"NodesExpected":1,"NodesHealthy":1,"Provider":"fake.csi.nomad-csi.test"}]"#
    );
    assert_eq!(list.index(), 5);
    assert_eq!(get(&agent, "/v1/plugins?type=csi&prefix=x").await.text(), "[]");
    let plugin = get(&agent, "/v1/plugin/csi/fake").await.json();
    let instance = &plugin["Controllers"][FakeAgent::NODE];
    assert_eq!(instance["ControllerInfo"]["SupportsCreateDelete"], json!(true));
    assert_eq!(instance.get("NodeInfo"), None);
    assert_eq!(instance["UpdateTime"], json!("2026-01-01T00:00:00Z"));
    assert_eq!(plugin["Nodes"][FakeAgent::NODE]["NodeInfo"]["ID"], json!("fake-node"));
    assert_eq!(plugin["Version"], json!("1.0.0"));
    assert_eq!(plugin["CreateTime"], json!(FakeClock::START));
}

/// B97, W47: every combination of filters returns exactly the matching volumes, page by page.
#[tokio::test(start_paused = true)]
async fn lists_are_filtered_and_paged() {
    let agent = agent().await;
    agent.add_namespaces(&["a", "b"]).await;
    for (namespace, id) in [("a", "x1"), ("a", "x2"), ("a", "y1"), ("b", "x1"), ("b", "z")] {
        let mut volume = volume_body(id);
        volume["Namespace"] = json!(namespace);
        let body = json!({"Volumes": [volume]}).to_string();
        send_line(&agent, "PUT /v1/volume/csi/x/create", &body).await;
    }
    let ids = |answer: &Answer| -> Vec<String> {
        let list = answer.json();
        let list = list.as_array().unwrap().iter();
        list.map(|stub| {
            let text = |key: &str| stub[key].as_str().unwrap().to_owned();
            format!("{}/{}", text("Namespace"), text("ID"))
        })
        .collect()
    };
    for (query, expected) in [
        ("", vec![]),
        ("&namespace=a", vec!["a/x1", "a/x2", "a/y1"]),
        ("&namespace=*", vec!["a/x1", "a/x2", "a/y1", "b/x1", "b/z"]),
        ("&namespace=*&prefix=x", vec!["a/x1", "a/x2", "b/x1"]),
        ("&namespace=a&plugin_id=fake&prefix=y", vec!["a/y1"]),
        ("&namespace=*&plugin_id=other", vec![]),
        ("&namespace=*&node_id=n", vec![]),
    ] {
        let answer = get(&agent, &format!("/v1/volumes?type=csi{query}")).await;
        assert_eq!(ids(&answer), expected, "{query}");
    }
    let mut seen = vec![];
    let mut token = String::new();
    loop {
        let uri = format!("/v1/volumes?type=csi&namespace=*&per_page=2&next_token={token}");
        let answer = get(&agent, &uri).await;
        seen.push(ids(&answer).len());
        token = answer.header(NEXT_TOKEN).to_owned();
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, [2, 2, 1]);
    let first = get(&agent, "/v1/volumes?type=csi&namespace=a&per_page=1").await;
    assert_eq!(first.header(NEXT_TOKEN), "a.x2");
}

/// No content type, keys of any case, and data after the first value are accepted.
#[tokio::test(start_paused = true)]
async fn bodies_are_decoded_as_go_decodes_them() {
    let agent = agent().await;
    let body = r#"{"volumes":[{"id":"db","NAME":"n","pluginid":"fake","unknown":1,
        "requestedcapabilities":[{"accessmode":"single-node-writer","ATTACHMENTMODE":"file-system"}]
        }]} trailing {"#;
    let request = Request::builder().method("PUT").uri("/v1/volume/csi/db/create");
    let request = request.body(Body::from(body)).unwrap();
    assert_eq!(send(&agent.services, request).await.status, 200);
    for (body, status, start) in [
        ("{", 400, "EOF while parsing"),
        ("<html>", 400, "expected value"),
        (r#"{"Volumes":[{"ID":5}]}"#, 400, "Volumes[0].ID: invalid type"),
        (r#"{"Volumes":[]}"#, 500, "missing volume definition"),
        ("{}", 500, "missing volume definition"),
        (
            r#"{"Volumes":[null]}"#,
            500,
            "validation: missing volume id, missing plugin id, must include",
        ),
    ] {
        let answer = send_line(&agent, "PUT /v1/volumes", body).await;
        assert_eq!(answer.status, status, "{body}");
        assert!(answer.text().starts_with(start), "{body}: {}", answer.text());
    }
}

/// The volume's namespace wins, then the query's, then the body's.
#[tokio::test(start_paused = true)]
async fn the_namespace_is_chosen_in_nomads_order() {
    let agent = agent().await;
    agent.add_namespaces(&["b", "d", "q"]).await;
    for (query, body, document, expected) in [
        ("?namespace=q", "b", "d", "d"),
        ("?namespace=q", "b", "", "q"),
        ("", "b", "", "b"),
        ("", "", "", "default"),
    ] {
        let mut volume = volume_body("db");
        volume["Namespace"] = json!(document);
        let body = json!({"Namespace": body, "Volumes": [volume]}).to_string();
        let line = format!("PUT /v1/volume/csi/db/create{query}");
        let answer = send_line(&agent, &line, &body).await;
        assert_eq!(answer.json()["Volumes"][0]["Namespace"], json!(expected));
    }
    assert_eq!(
        send_line(
            &agent,
            "PUT /v1/volume/csi/db/create?namespace=*",
            &json!({"Volumes": [volume_body("db")]}).to_string()
        )
        .await
        .text(),
        "validation: a volume cannot be in namespace \"*\""
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_of_a_web_page_is_refused_with_its_code() {
    let agent = agent().await;
    for (name, value, status) in [
        ("Host", "evil.example", 403),
        ("Origin", "http://evil.example", 403),
        ("Sec-Fetch-Site", "cross-site", 415),
    ] {
        let request = Request::builder().method("PUT").uri("/v1/volumes");
        let request = request.header("Accept", ErrorBody::MEDIA_TYPE);
        let request = request.header("Content-Type", "text/plain");
        let request = request.header(name, value).body(Body::from("{}")).unwrap();
        let answer = send(&agent.services, request).await;
        assert_eq!(answer.status, status, "{name}");
        assert_eq!(answer.json()["code"], Code::ApiForeignRequest.as_str());
    }
}

/// `curl --data` declares a form, whatever it sends.
#[tokio::test(start_paused = true)]
async fn a_write_of_a_program_may_declare_any_content_type() {
    let agent = agent().await;
    for (method, content_type) in [
        ("PUT", Some("application/x-www-form-urlencoded")),
        ("POST", Some("application/x-www-form-urlencoded")),
        ("POST", Some("text/plain")),
        ("POST", None),
    ] {
        let mut request = Request::builder().method(method).uri("/v1/namespace");
        if let Some(content_type) = content_type {
            request = request.header("Content-Type", content_type);
        }
        let request = request.body(Body::from(r#"{"Name":"x"}"#)).unwrap();
        let answer = send(&agent.services, request).await;
        assert_eq!(answer.status, 200, "{method} {content_type:?}: {}", answer.text());
    }
}

/// What is not known of a client admits it to nothing.
#[tokio::test(start_paused = true)]
async fn a_request_whose_connection_is_unknown_is_refused() {
    let agent = agent().await;
    let router = router(agent.services.clone(), HttpSettings::default(), OperatorAccess::default());
    for (method, uri) in [("GET", "/v1/jobs"), ("PUT", "/v1/namespace/x")] {
        let request = Request::builder().method(method).uri(uri);
        let request = request.body(Body::from(r#"{"Name":"x"}"#)).unwrap();
        let answer = answer(router.clone().oneshot(request).await.unwrap()).await;
        assert_eq!(answer.status, 500, "{method} {uri}: {}", answer.text());
    }
    assert_eq!(get(&agent, "/v1/namespace/x").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_refused() {
    let agent = agent().await;
    let announced = Request::builder()
        .method("PUT")
        .uri("/v1/volumes")
        .header("Content-Length", (Limits::default().body_bytes + 1).to_string())
        .body(Body::from("{"))
        .unwrap();
    let chunk = vec![b' '; 1 << 20];
    let chunks = std::iter::repeat_n(chunk, 9).map(Ok::<_, std::io::Error>);
    let chunked = Request::builder()
        .method("PUT")
        .uri("/v1/volumes")
        .body(Body::from_stream(futures_util::stream::iter(chunks)))
        .unwrap();
    for request in [announced, chunked] {
        let answer = send(&agent.services, request).await;
        let expected = "the request body is larger than 8 MiB (limit `body-bytes`)";
        assert_eq!((answer.status, answer.text()), (413, expected));
    }
}

/// B23: no response contains a secret.
#[tokio::test(start_paused = true)]
async fn no_response_contains_a_secret() {
    let agent = agent().await;
    let canary = "canary-7f3a";
    let request = VolumeRequest {
        secrets: Some(Secrets::from_iter([("token", canary)])),
        ..FakeAgent::request("db")
    };
    agent.volumes.create(vec![request.into()]).await.unwrap();
    let mut bad = volume_body("db");
    bad["Secrets"] = json!({"token": canary});
    bad["Name"] = json!("other");
    let bad = json!({"Volumes": [bad]}).to_string();
    for (line, body) in [
        ("GET /v1/volumes?type=csi", ""),
        ("GET /v1/volume/csi/db", ""),
        ("GET /v1/agent/self", ""),
        ("PUT /v1/volume/csi/db", bad.as_str()),
        ("PUT /v1/volume/csi/db/create", bad.as_str()),
    ] {
        let answer = send_line(&agent, line, body).await;
        assert!(!answer.text().contains(canary), "{line}: {}", answer.text());
        assert!(!format!("{:?}", answer.headers).contains(canary), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_takes_secrets_from_a_header() {
    let settings = PluginSettings {
        secrets: Secrets::from_iter([("a", "1"), ("b", "x=y")]),
        ..PluginSettings::default()
    };
    let agent = FakeAgent::start(settings).await.unwrap();
    let request = VolumeRequest {
        secrets: Some(Secrets::from_iter([("a", "1"), ("b", "x=y")])),
        ..FakeAgent::request("db")
    };
    agent.volumes.create(vec![request.into()]).await.unwrap();
    let record = agent.state();
    assert!(record.record(&FakeAgent::key("db")).is_some());
    let request = Request::builder()
        .method("DELETE")
        .uri("/v1/volume/csi/db/delete")
        .header("X-Nomad-CSI-Secrets", "a=1,b=x=y,dropped");
    let answer = send(&agent.services, request.body(Body::empty()).unwrap()).await;
    assert_eq!((answer.status, answer.text()), (200, ""));
    assert_eq!(answer.index(), agent.cell.index());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_accepts_it_gets_the_typed_error() {
    let agent = agent().await;
    create(&agent, "db").await;
    agent.backend.inject_faults(Rpc::DeleteVolume, [Fault::Fail(StatusCode::Internal)]);
    let request = || {
        Request::builder()
            .method("DELETE")
            .uri("/v1/volume/csi/db/delete")
            .header("Accept", format!("application/json, {}", ErrorBody::MEDIA_TYPE))
            .body(Body::empty())
            .unwrap()
    };
    let answer = send(&agent.services, request()).await;
    assert_eq!(answer.status, 500);
    assert_eq!(answer.header("Content-Type"), ErrorBody::MEDIA_TYPE);
    let body: ErrorBody = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(body.code, "volume/pending");
    assert_eq!(
        body.text,
        "controller delete volume: CSI.ControllerDeleteVolume: controller plugin returned an \
         internal error, check the plugin allocation logs for more information: rpc error: \
         code = Internal desc = scripted Internal"
    );
    assert_eq!(
        body.message,
        "plugin `fake` did not delete volume `db`: scripted Internal (Internal); the call may still \
         have taken effect"
    );
    assert_eq!(body.help.len(), 1);
    assert_eq!(send(&agent.services, request()).await.status, 200);
}

/// Returns a request over a connection from this machine or another one.
async fn packed_request(path: &str, accepted: &str, is_local: bool) -> Request<Body> {
    let places = ConnectionSlots::new(1, 1, 1);
    let place = places.enter().await.unwrap();
    let peer = if is_local { Peer::Loopback } else { Peer::Network };
    Request::builder()
        .uri(path)
        .header("Host", "127.0.0.1")
        .header("Accept-Encoding", accepted)
        .extension(Connection::new(peer, place))
        .body(Body::empty())
        .unwrap()
}

fn unpacked(packed: &Answer) -> String {
    assert_eq!(packed.header("Content-Encoding"), "gzip");
    assert_eq!(packed.header("Vary"), "Accept-Encoding");
    let mut text = String::new();
    let mut decoder = GzDecoder::new(&packed.body[..]);
    decoder.read_to_string(&mut text).unwrap();
    assert!(decoder.into_inner().is_empty(), "more than one member");
    text
}

/// One volume is too small to be compressed. A client of this machine gets what it would unpack, unless it
/// refuses that.
#[tokio::test(start_paused = true)]
async fn long_responses_are_compressed_for_clients_that_gain_by_it() {
    let agent = agent().await;
    for at in 0..20 {
        create(&agent, &format!("db{at}")).await;
    }
    let router = router(agent.services.clone(), HttpSettings::default(), OperatorAccess::default());
    let get = async |path: &str, accepted: &str, is_local: bool| {
        let request = packed_request(path, accepted, is_local).await;
        answer(router.clone().oneshot(request).await.unwrap()).await
    };
    let short = get("/v1/volume/csi/db0", "gzip", false).await;
    assert_eq!(short.status, 200);
    assert_eq!(short.header("Content-Encoding"), "");
    // A list from kept texts, and a document that is compressed while it is sent.
    for list in ["/v1/volumes?type=csi", "/v1/volumes?type=csi&pretty"] {
        let plain = get(list, "gzip", true).await;
        assert_eq!(plain.header("Content-Encoding"), "");
        let packed = get(list, "gzip", false).await;
        assert_eq!(unpacked(&packed), plain.text());
        assert!(packed.body.len() * 4 < plain.body.len(), "{}", packed.body.len());
        let refused = get(list, "gzip, identity;q=0", true).await;
        assert_eq!(unpacked(&refused), plain.text());
        assert_eq!(refused.index(), plain.index());
    }
}

/// The kept groups of earlier lists never show in a later one.
#[tokio::test(start_paused = true)]
async fn a_compressed_list_equals_the_plain_one_across_changes() {
    let agent = agent().await;
    let router = router(agent.services.clone(), HttpSettings::default(), OperatorAccess::default());
    let get = async |path: &str, is_local: bool| {
        let request = packed_request(path, "gzip", is_local).await;
        answer(router.clone().oneshot(request).await.unwrap()).await
    };
    for at in 0..300 {
        create(&agent, &format!("db{at}")).await;
    }
    let mut lengths = vec![];
    for change in 0..12 {
        match change % 4 {
            0 => drop(create(&agent, &format!("db{change}x")).await),
            1 => agent.observe(false).await,
            2 => agent.observe(true).await,
            _ => {
                let line = format!("DELETE /v1/volume/csi/db{change}");
                assert_eq!(send_line(&agent, &line, "").await.status, 200);
            }
        }
        for path in ["/v1/volumes?type=csi", "/v1/volumes?type=csi&prefix=db1"] {
            let (plain, packed) = (get(path, true).await, get(path, false).await);
            assert_eq!(unpacked(&packed), plain.text(), "{change}");
            lengths.push(plain.json().as_array().unwrap().len());
        }
    }
    assert!(lengths.iter().all(|length| *length > 100), "{lengths:?}");
    lengths.dedup();
    assert!(lengths.len() > 12, "{lengths:?}");
}

/// The read waits until the index changes, not at all if it has changed, and at most for the given time.
#[tokio::test(start_paused = true)]
async fn a_blocking_read_waits_for_a_change() {
    let agent = agent().await;
    let seen = create(&agent, "db").await.index();
    for path in ["/v1/volumes?type=csi", "/v1/volume/csi/db"] {
        let join = if path.contains('?') { '&' } else { '?' };
        let start = Instant::now();
        let behind = get(&agent, &format!("{path}{join}index={}", seen - 1)).await;
        assert_eq!((behind.index(), start.elapsed()), (seen, Duration::ZERO));

        let held = get(&agent, &format!("{path}{join}index={seen}&wait=16s")).await;
        assert_eq!(held.index(), seen);
        // The fake's jitter is one half.
        assert_eq!(start.elapsed(), Duration::from_millis(16_500));

        let start = Instant::now();
        get(&agent, &format!("{path}{join}index={seen}&wait=10h")).await;
        assert_eq!(start.elapsed(), Duration::from_secs(300) * 33 / 32);
    }
    let start = Instant::now();
    let uri = format!("/v1/volumes?type=csi&index={seen}&wait=60s");
    let change = async {
        tokio::time::sleep(Duration::from_secs(7)).await;
        create(&agent, "other").await
    };
    let (held, changed) = tokio::join!(get(&agent, &uri), change);
    assert!(held.index() > seen && held.index() <= changed.index());
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    let plugins = get(&agent, "/v1/plugins?type=csi&index=5&wait=2s");
    let change = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.observe(false).await;
    };
    let (plugins, ()) = tokio::join!(plugins, change);
    assert_eq!(plugins.json()[0]["ControllersHealthy"], json!(0));
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_blocking_reads() {
    let agent = agent().await;
    let index = agent.cell.index();
    let uri = format!("/v1/volumes?type=csi&index={index}&wait=60s");
    let stop = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        agent.services.drain(Duration::ZERO).await;
    };
    let start = Instant::now();
    let (answer, ()) = tokio::join!(get(&agent, &uri), stop);
    assert_eq!((answer.status, answer.text()), (200, "[]"));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    let refused = send_line(&agent, "DELETE /v1/volume/csi/db", "").await;
    assert_eq!((refused.status, refused.text()), (500, "the agent is stopping"));
}

/// A server that was frozen answers no client with what was true before, and its own health at any time.
#[tokio::test(start_paused = true)]
async fn while_another_server_may_lead_nothing_is_read_or_changed() {
    let agent = agent().await;
    let get = |path: &str| Request::builder().uri(path).body(Body::empty()).unwrap();
    let waiting = {
        let services = agent.services.clone();
        let blocking = get("/v1/volumes?type=csi&index=999&wait=60s");
        tokio::spawn(async move { send(&services, blocking).await })
    };
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    agent.lease.set_certain(false);
    let index = agent.cell.index();
    let body = json!({"Volumes": [volume_body("db")]}).to_string();
    let register = Request::builder().method("PUT").uri("/v1/volume/csi/db").body(Body::from(body));
    for request in [get("/v1/volumes?type=csi"), get("/v1/nodes"), register.unwrap()] {
        let answer = send(&agent.services, request).await;
        assert_eq!((answer.status, answer.text()), (500, "No cluster leader"));
    }
    assert_eq!(agent.cell.index(), index);
    let answer = waiting.await.unwrap();
    assert_eq!((answer.status, answer.text()), (500, "No cluster leader"), "it began before");
    for path in ["/v1/agent/self", "/v1/agent/health"] {
        assert_eq!(send(&agent.services, get(path)).await.status, 200, "{path}");
    }
    agent.lease.set_certain(true);
    assert_eq!(send(&agent.services, get("/v1/nodes")).await.status, 200);
}

/// A panic anywhere gives a response.
#[tokio::test(start_paused = true)]
async fn a_panic_gets_a_response() {
    struct Broken;
    impl IdSource for Broken {
        fn uuid(&self) -> String {
            panic!("injected panic")
        }
        fn jitter(&self) -> f64 {
            panic!("injected panic")
        }
    }
    let agent = agent().await;
    let controllers = FakeAgent::host(&agent.backend, None);
    let hosts = FakeAgent::nodes(&agent.backend, controllers, Arc::default());
    let ports = ServerPorts {
        cell: agent.cell.clone(),
        sealer: Arc::new(FakeSealer::default()),
        clock: Arc::new(agent.clock.clone()),
        ids: Arc::new(Broken),
        term: FakeAgent::TERM,
        lease: Arc::new(SoleServer),
        calls: FakeAgent::plugin_call_queues(&agent.cell, hosts.clone()),
        hosts,
    };
    let services = Services::new(ports, VolumeLimits::default(), FakeAgent::agent_info());
    let request = Request::builder().uri("/v1/volumes?type=csi&index=99");
    let answer = send(&services, request.body(Body::empty()).unwrap()).await;
    let text = "internal error: the handler of the request panicked";
    assert_eq!((answer.status, answer.text()), (500, text));
    assert_eq!(answer.header("X-Nomad-CSI-Agent"), "1.2.3");

    // Without a connection the operation pauses, which calls `jitter`.
    let body = json!({"Volumes": [volume_body("db")]}).to_string();
    let request = Request::builder().method("PUT").uri("/v1/volume/csi/db/create");
    let answer = send(&services, request.body(Body::from(body)).unwrap()).await;
    let text = "internal error: a volume operation panicked";
    assert_eq!((answer.status, answer.text()), (500, text));
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_does_not_interrupt_the_operation() {
    let agent = agent().await;
    agent.backend.inject_faults(Rpc::CreateVolume, [Fault::Hang]);
    {
        let body = json!({"Volumes": [volume_body("db")]}).to_string();
        let request = send_line(&agent, "PUT /v1/volume/csi/db/create", &body);
        let arrived = agent.backend.wait_for_calls(1);
        tokio::select! {
            _ = request => panic!("the plugin hangs"),
            () = arrived => {}
        }
    }
    agent.backend.release();
    agent.services.drain(Duration::from_secs(5)).await;
    let answer = get(&agent, "/v1/volume/csi/db").await;
    assert_eq!(answer.status, 200);
}

#[tokio::test(start_paused = true)]
async fn cluster_endpoints_return_what_clients_need() {
    let agent = agent().await;
    create(&agent, "db").await;
    let nodes = get(&agent, "/v1/nodes?prefix=1111").await.json();
    assert_eq!(nodes[0]["ID"], json!(FakeAgent::NODE));
    assert_eq!(nodes[0]["Status"], json!("ready"));
    assert_eq!(get(&agent, "/v1/nodes?prefix=2").await.text(), "[]");
    let about = get(&agent, "/v1/agent/self").await.json();
    assert_eq!(about["config"]["Version"]["Version"], json!("2.0.5"));
    assert_eq!(about["member"]["Tags"]["build"], json!("2.0.5+nomad-csi"));
    assert_eq!(about["stats"]["nomad_csi"]["version"], json!("1.2.3"));
    assert_eq!(
        get(&agent, "/v1/agent/health").await.text(),
        r#"{"client":{"message":"ok","ok":true},"server":{"message":"ok","ok":true}}"#
    );
    assert_eq!(
        get(&agent, "/v1/agent/health?type=server").await.text(),
        r#"{"server":{"message":"ok","ok":true}}"#
    );
    let namespaces = get(&agent, "/v1/namespaces").await.json();
    assert_eq!(namespaces.as_array().unwrap().len(), 1);
    assert_eq!(get(&agent, "/v1/namespace/default").await.json()["Name"], json!("default"));
}

/// Clients follow a drain until the node has no strategy any more.
#[tokio::test(start_paused = true)]
async fn a_node_has_a_strategy_while_it_drains() {
    let agent = agent().await;
    let path = format!("/v1/node/{}", FakeAgent::NODE);
    let body = json!({"DrainSpec": {"IgnoreSystemJobs": true}}).to_string();
    let line = format!("PUT {path}/drain");
    let started = send_line(&agent, &line, &body).await;
    assert_eq!(started.status, 200, "{}", started.text());
    let drained = get(&agent, &format!("{path}?index={}", started.index())).await;
    assert!(drained.index() > started.index(), "it ends by itself");
    assert_eq!(drained.json()["DrainStrategy"], Value::Null);
    assert_eq!(drained.json()["SchedulingEligibility"], json!("ineligible"));
    let mut state = agent.state();
    let mut node = state.node(&NodeId::new(FakeAgent::NODE)).unwrap().clone();
    (node.is_draining, node.keeps_system_jobs) = (true, true);
    let kind = EventKind::NodeRegistered { node };
    nomad_csi_claims::state::apply(&mut state, &Event::new(0, kind));
    let node = state.node(&NodeId::new(FakeAgent::NODE)).unwrap();
    let document = serde_json::to_value(super::nodes::document(&state, node)).unwrap();
    assert_eq!(document["DrainStrategy"]["IgnoreSystemJobs"], json!(true));
}

/// What was registered can be read and stopped.
#[tokio::test(start_paused = true)]
async fn a_job_that_no_path_names_is_refused() {
    let agent = agent().await;
    let body = |id: &str| json!({"Job": job_to_wire(&job(&job_key(id)))}).to_string();
    for id in ["a/plan", "a/b/periodic/force", "a/summary", "a//b", "a/", ".."] {
        let answer = send_line(&agent, "PUT /v1/jobs", &body(id)).await;
        let text = answer.text();
        assert!(text.contains("Job ID cannot be addressed"), "{id}: {text}");
    }
    for id in ["plan", "a/b", "plan/web", "web/dispatch-1"] {
        let path = format!("/v1/job/{id}");
        for line in ["PUT /v1/jobs".to_owned(), format!("GET {path}"), format!("DELETE {path}")] {
            let sent = if line.starts_with("PUT") { body(id) } else { String::new() };
            assert_eq!(send_line(&agent, &line, &sent).await.status, 200, "{line}");
        }
    }
}

/// Anyone may ask for a validation, so a job costs no more than its limit of patterns.
#[tokio::test(start_paused = true)]
async fn a_stranger_has_few_patterns_compiled() {
    let agent = agent().await;
    let errors = async |patterns: usize| {
        let pattern = json!({"LTarget": "${attr.kernel.name}", "Operand": "regexp", "RTarget": "^linux|bsd$"});
        let mut document = json!(job_to_wire(&job(&job_key("web"))));
        document["Constraints"] = json!(vec![pattern; patterns]);
        let body = json!({ "Job": document }).to_string();
        let answer = send_line(&agent, "PUT /v1/validate/job", &body).await.json();
        answer["ValidationErrors"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(errors(100).await, [] as [Value; 0]);
    let refused = errors(5_000).await;
    assert_eq!(refused.len(), 1, "{refused:?}");
    let text = refused[0].as_str().unwrap();
    assert!(text.contains("at most 100 regular expressions"), "{text}");
}

/// Of a job that is recorded, and of one that is not.
#[tokio::test(start_paused = true)]
async fn a_placement_is_explained_with_every_reason() {
    let agent = agent().await;
    let mut web = job(&job_key("web"));
    let body = json!({"Job": job_to_wire(&web)}).to_string();
    let path = "/v1/job/web/placement";
    assert_eq!(get(&agent, path).await.status, 404);
    let asked = send_line(&agent, &format!("PUT {path}"), &body).await.json();
    assert_eq!(asked["Slots"][0]["Outcome"], json!("place"), "{asked}");
    assert_eq!(asked["Slots"][0]["NodeID"], json!(FakeAgent::NODE));
    web.datacenters = vec!["elsewhere".to_owned()];
    web.groups[0].tasks[0].driver = "docker".to_owned();
    let body = json!({"Job": job_to_wire(&web)}).to_string();
    assert_eq!(send_line(&agent, "PUT /v1/jobs", &body).await.status, 200);
    let read = get(&agent, path).await.json();
    let slot = &read["Slots"][0];
    assert_eq!((&slot["Outcome"], &slot["TaskGroup"]), (&json!("wait"), &json!("g")));
    let reasons = slot["Refusals"][0]["Reasons"].as_array().unwrap();
    assert_eq!(reasons.len(), 2, "{read}");
}

/// The search of shell completion.
#[tokio::test(start_paused = true)]
async fn searches_find_by_prefix() {
    let agent = agent().await;
    for number in 0..25 {
        create(&agent, &format!("db{number:02}")).await;
    }
    let search = async |context: &str, prefix: &str| {
        let body = json!({"Prefix": prefix, "Context": context}).to_string();
        send_line(&agent, "POST /v1/search", &body).await
    };
    let found = search("volumes", "db").await.json();
    assert_eq!(found["Matches"]["volumes"].as_array().unwrap().len(), 20);
    assert_eq!(found["Truncations"]["volumes"], json!(true));
    let found = search("volumes", "db0").await.json();
    assert_eq!(found["Matches"]["volumes"].as_array().unwrap().len(), 10);
    assert_eq!(found["Truncations"]["volumes"], json!(false));
    let found = search("all", "f").await.json();
    assert_eq!(found["Matches"]["plugins"], json!(["fake"]));
    assert_eq!(found["Matches"]["volumes"], json!([]));
    assert_eq!(search("nodes", "1").await.json()["Matches"]["nodes"], json!([FakeAgent::NODE]));
    let wrong = search("quotas", "").await;
    assert_eq!(wrong.status, 500);
    assert!(wrong.text().starts_with("context must be one of "));
}

/// A list that is encoded on a blocking thread is complete.
#[tokio::test(start_paused = true)]
async fn a_long_list_is_complete() {
    let agent = agent().await;
    for number in 0..300 {
        create(&agent, &format!("v{number:03}")).await;
    }
    let list = get(&agent, "/v1/volumes?type=csi").await.json();
    assert_eq!(list.as_array().unwrap().len(), 300);
}

/// Compiling the patterns of others takes long.
#[tokio::test(start_paused = true)]
async fn validations_of_others_leave_room_for_the_operator() {
    let agent = agent().await;
    let services = agent.services.clone();
    let everyone = services.validations.everyone.clone();
    let settings = HttpSettings::default();
    let router = router(services, settings, OperatorAccess::default());
    let validate = async |peer: Peer| {
        let place = ConnectionSlots::new(1, 1, 1).enter().await.unwrap();
        let request = Request::builder()
            .method("PUT")
            .uri("/v1/validate/job")
            .header("Host", "127.0.0.1")
            .header("Content-Type", "application/json")
            .extension(Connection::new(peer, place))
            .body(Body::from(r#"{"Job": {"ID": "j"}}"#))
            .unwrap();
        answer(router.clone().oneshot(request).await.unwrap()).await
    };
    let taken = everyone.acquire_owned().await.unwrap();
    assert_eq!(validate(Peer::Operator).await.status, 200);
    let busy = validate(Peer::Loopback).await;
    assert_eq!(busy.status, 429, "{}", busy.text());
    assert!(busy.text().contains("later"), "{}", busy.text());
    drop(taken);
    assert_eq!(validate(Peer::Loopback).await.status, 200);
}

/// A body that everyone may send and that never arrives takes nothing of what the operator needs.
#[tokio::test(start_paused = true)]
async fn bodies_of_others_leave_room_for_the_operator() {
    let agent = agent().await;
    let settings = HttpSettings {
        limits: Limits { body_bytes: 64 << 10, total_body_bytes: 64 << 10, ..Limits::default() },
        ..HttpSettings::default()
    };
    let services = agent.services.clone();
    let router = router(services, settings, OperatorAccess::default());
    let length = 60 << 10;
    let put = async |peer: Peer, body: Body| {
        let place = ConnectionSlots::new(1, 1, 1).enter().await.unwrap();
        let request = Request::builder()
            .method("PUT")
            .uri("/v1/validate/job")
            .header("Host", "127.0.0.1")
            .header("Content-Length", length)
            .extension(Connection::new(peer, place))
            .body(body)
            .unwrap();
        router.clone().oneshot(request).await.unwrap()
    };
    let never = futures_util::stream::pending::<std::io::Result<axum::body::Bytes>>();
    let stuck = put(Peer::Loopback, Body::from_stream(never));
    let long = format!("{{\"Job\":null}}{}", " ".repeat(length - 12));
    let begun = Instant::now();
    let answered = async {
        tokio::task::yield_now().await;
        let answer = answer(put(Peer::Operator, Body::from(long)).await).await;
        (answer.status, begun.elapsed())
    };
    let (_, (status, waited)) = tokio::join!(stuck, answered);
    assert_ne!(status, 429);
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}
