//! Variables over HTTP. `tests/suite/server_recorded.rs` compares the rest with a real Nomad.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fake::FakeAgent;
use crate::http::tests::{get, send_line, send_typed};
use nomad_csi_testing::PluginSettings;

async fn agent() -> FakeAgent {
    FakeAgent::start(PluginSettings::default()).await.unwrap()
}

async fn put(agent: &FakeAgent, target: &str, body: &Value) -> (u16, String) {
    let answer = send_line(agent, &format!("PUT {target}"), &body.to_string()).await;
    (answer.status, answer.text().to_owned())
}

#[tokio::test(start_paused = true)]
async fn refusals_have_their_own_codes() {
    let agent = agent().await;
    put(&agent, "/v1/var/free", &json!({"Items": {"a": "1"}})).await;
    for (line, body, status, code) in [
        ("GET /v1/var/nope", "", 404, "variable/not-found"),
        ("PUT /v1/var/nope?lock-release", r#"{"Lock":{"ID":"x"}}"#, 500, "variable/lock-lost"),
        ("PUT /v1/var/a.b", r#"{"Items":{"a":"1"}}"#, 400, "variable/invalid"),
        ("PUT /v1/var/a?cas=x", r#"{"Items":{"a":"1"}}"#, 400, "variable/invalid"),
        ("PUT /v1/var/free?lock-renew", r#"{"Lock":{"ID":"x"}}"#, 409, "variable/lock-lost"),
        ("PATCH /v1/var/free", "", 400, "api/bad-request"),
    ] {
        let answer = send_typed(&agent, line, body).await;
        let document = answer.json();
        assert_eq!((answer.status, document["code"].as_str()), (status, Some(code)), "{line}");
        assert!(!document["help"][0].as_str().unwrap().is_empty(), "{line}");
    }
}

/// As after Nomad's redirect.
#[tokio::test(start_paused = true)]
async fn several_slashes_count_as_one() {
    let agent = agent().await;
    put(&agent, "/v1/var/app//x", &json!({"Items": {"a": "1"}})).await;
    let answer = get(&agent, "/v1/var/app/x").await;
    assert_eq!((answer.status, &answer.json()["Path"]), (200, &json!("app/x")));
}

/// Changes of other variables do not wake the read.
#[tokio::test(start_paused = true)]
async fn a_blocking_read_waits_for_its_own_variable() {
    let agent = agent().await;
    put(&agent, "/v1/var/a", &json!({"Items": {"k": "1"}})).await;
    let index = get(&agent, "/v1/var/a").await.index();
    let target = format!("/v1/var/a?index={index}&wait=60s");
    let (read, ()) = tokio::join!(get(&agent, &target), async {
        put(&agent, "/v1/var/b", &json!({"Items": {"k": "1"}})).await;
        tokio::time::advance(Duration::from_secs(5)).await;
        put(&agent, "/v1/var/a", &json!({"Items": {"k": "2"}})).await;
    });
    assert_eq!(read.json()["Items"]["k"], "2");
    assert!(read.index() > index + 1, "{}", read.index());
}

#[tokio::test(start_paused = true)]
async fn a_search_finds_paths() {
    let agent = agent().await;
    for path in ["app/one", "app/two", "other"] {
        put(&agent, &format!("/v1/var/{path}"), &json!({"Items": {"k": "1"}})).await;
    }
    let body = json!({"Prefix": "app", "Context": "vars"}).to_string();
    let found = send_line(&agent, "POST /v1/search", &body).await.json();
    assert_eq!(found["Matches"]["vars"], json!(["app/one", "app/two"]));
    let names = get(&agent, "/v1/namespaces").await.json();
    assert_eq!(names[0]["Name"], "default");
}

/// Lists and errors contain no items; only a read of the variable returns them.
#[tokio::test(start_paused = true)]
async fn items_are_returned_only_by_a_read_of_the_variable() {
    const CANARY: &str = "canary-4711";
    let agent = agent().await;
    let body = json!({"Items": {"k": CANARY}, "Lock": {"TTL": "10s"}});
    let (status, _) = put(&agent, "/v1/var/held?lock-acquire", &body).await;
    assert_eq!(status, 200);
    for (line, body) in [
        ("GET /v1/vars", json!({})),
        ("PUT /v1/var/held", json!({"Items": {"k": "other"}})),
        ("DELETE /v1/var/held", json!({})),
        ("PUT /v1/var/held?lock-acquire", json!({})),
        ("PUT /v1/var/x", json!({"Items": {"k": {"pin": CANARY}}})),
        ("PUT /v1/var/a.b", json!({"Items": {"k": CANARY}})),
    ] {
        let answer = send_line(&agent, line, &body.to_string()).await;
        assert!(!answer.text().contains(CANARY), "{line}: {}", answer.text());
    }
}
