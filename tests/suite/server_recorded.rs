//! Sends recorded requests of a real Nomad to the agent and compares status, text, headers and every
//! field of every document.
//!
//! Indexes, times and generated IDs differ. Each value of Nomad is paired with the agent's at its
//! first occurrence, must keep that pair, and is replaced by the agent's value in later requests.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use nomad_csi_model::ControllerCapabilities;
use nomad_csi_server::fake::FakeAgent;
use nomad_csi_server::http::{HttpSettings, operator_router};
use nomad_csi_testing::PluginSettings;
use serde_json::Value;
use tower::ServiceExt as _;

const VARIABLES: &str = include_str!("../data/nomad/2.0.5/variables.jsonl");

/// Requests with a different answer: name, status of the agent, reason.
const DIFFERENCES: &[(&str, u16, &str)] = &[
    ("var-no-slash", 404, "Nomad redirects to the path with a slash, which then names no variable"),
    ("vars-per-page-negative", 400, "the agent refuses a negative page size"),
    ("vars-token-plain", 400, "the agent refuses a token that no list returned"),
    ("vars-filter", 400, "the agent has no filters; Nomad's fail on every field of a variable"),
    ("vars-filter-bad", 400, "the agent has no filters"),
    ("var-bad-json", 400, "the decoder's own words"),
    ("var-number-item", 400, "the decoder's own words"),
    ("lock-ttl-bad", 400, "the agent's decoder adds its own text"),
    ("lock-put-in-delay-holder", 200, "a write by the holder keeps the lock's TTL and delay"),
    ("put-with-lock-unlocked", 409, "Nomad stores a lock that never expires"),
    ("put-with-lock-empty", 200, "a lock without an ID is none"),
    ("put-with-lock-read", 200, "follows from the two before"),
    (
        "lock-read-expired",
        200,
        "the clock of the test does not advance; another test covers expiry",
    ),
];

struct Exchange {
    name: String,
    method: String,
    target: String,
    request: String,
    status: u64,
    headers: Value,
    answer: String,
}

fn exchanges(recorded: &str) -> impl Iterator<Item = Exchange> {
    recorded.lines().map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        Exchange {
            name: text("name"),
            method: text("method"),
            target: text("target"),
            request: text("request"),
            status: value["status"].as_u64().unwrap(),
            headers: value["headers"].clone(),
            answer: text("answer"),
        }
    })
}

/// Pairs of Nomad's and the agent's values.
#[derive(Default)]
struct Pairs(BTreeMap<String, String>);

impl Pairs {
    /// Returns whether the two values are a pair; pairs them if both are new.
    fn agree(&mut self, kind: &str, theirs: &Value, ours: &Value) -> bool {
        let (theirs, ours) = (theirs.to_string(), ours.to_string());
        let known = self.0.entry(format!("{kind} {theirs}"));
        *known.or_insert_with(|| ours.clone()) == ours
    }

    /// Replaces Nomad's values in a request by the agent's.
    fn translated(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (theirs, ours) in &self.0 {
            if let Some(theirs) = theirs.strip_prefix("lock ") {
                text = text.replace(theirs.trim_matches('"'), ours.trim_matches('"'));
            } else if let Some(theirs) = theirs.strip_prefix("index ")
                && let Some(rest) = text.strip_suffix(&format!("cas={theirs}"))
            {
                text = format!("{rest}cas={ours}");
            }
        }
        text
    }

    /// The differences between two documents, each with its path.
    fn differences(&mut self, at: &str, theirs: &Value, ours: &Value) -> Vec<String> {
        let key = at.rsplit('.').next().unwrap_or_default();
        match (theirs, ours) {
            (Value::Object(a), Value::Object(b)) => {
                let keys = |map: &serde_json::Map<String, Value>| {
                    map.keys().cloned().collect::<BTreeSet<_>>()
                };
                if keys(a) != keys(b) {
                    return vec![format!("{at}: {:?} and {:?}", keys(a), keys(b))];
                }
                a.iter()
                    .flat_map(|(key, a)| self.differences(&format!("{at}.{key}"), a, &b[key]))
                    .collect()
            }
            (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
                let pairs = a.iter().zip(b);
                pairs.flat_map(|(a, b)| self.differences(at, a, b)).collect()
            }
            _ if matches!(key, "CreateTime" | "ModifyTime") => vec![],
            _ if matches!(key, "CreateIndex" | "ModifyIndex")
                && self.agree("index", theirs, ours) =>
            {
                vec![]
            }
            _ if key == "ID" && self.agree("lock", theirs, ours) => vec![],
            _ if theirs == ours => vec![],
            _ => vec![format!("{at}: {theirs} and {ours}")],
        }
    }
}

/// Removes the prefixes and suffixes that Nomad adds to some texts.
fn plain(text: &str) -> &str {
    let mut text = text;
    while let Some(rest) = text.strip_prefix("RPC Error:: 400,") {
        text = rest;
    }
    text.strip_suffix("failed to parse parameters").unwrap_or(text)
}

async fn compare(agent: &FakeAgent, exchange: &Exchange, pairs: &mut Pairs) -> Vec<String> {
    let request = Request::builder()
        .method(exchange.method.as_str())
        .uri(pairs.translated(&exchange.target))
        .body(Body::from(pairs.translated(&exchange.request)))
        .unwrap();
    let answer = operator_router(agent.services.clone(), HttpSettings::default())
        .await
        .oneshot(request)
        .await;
    let (parts, body) = answer.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let (status, text) = (parts.status.as_u16(), String::from_utf8_lossy(&body));
    let different = DIFFERENCES.iter().find(|(name, ..)| *name == exchange.name);
    if let Some((_, expected, _)) = different {
        return (status != *expected)
            .then(|| format!("{status}, and {expected} was expected: {text}"))
            .into_iter()
            .collect();
    }
    if u64::from(status) != exchange.status {
        return vec![format!("{} and {status}: {text}", exchange.status)];
    }
    let (theirs, ours) = (serde_json::from_str(&exchange.answer), serde_json::from_str(&text));
    let mut found = match (theirs, ours) {
        (Ok(theirs), Ok(ours)) => pairs.differences("", &theirs, &ours),
        _ if plain(&exchange.answer) == text => vec![],
        _ => vec![format!("{:?} and {text:?}", exchange.answer)],
    };
    // Nomad returns index 0 for some reads, and none if nothing was written.
    let index = |value: &Value| value.as_str().and_then(|text| text.parse::<u64>().ok());
    let theirs = index(&exchange.headers["X-Nomad-Index"]).filter(|index| *index > 1);
    if let Some(theirs) = theirs.filter(|_| status == 200 || status == 409) {
        let header = parts.headers.get("X-Nomad-Index").unwrap();
        let ours = header.to_str().unwrap().parse::<u64>().unwrap();
        if !pairs.agree("index", &theirs.into(), &ours.into()) {
            found.push(format!("index {theirs} is {ours}"));
        }
    }
    found
}

#[tokio::test(start_paused = true)]
async fn variables_and_locks_match_a_real_nomad() {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    let mut pairs = Pairs::default();
    // The wrong ID in the requests is one that the agent's counting IDs start with.
    let wrong = ["00000000-0000-4000-8000-000000000000", "none-of-them"];
    pairs.agree("lock", &wrong[0].into(), &wrong[1].into());
    let (mut problems, mut count) = (vec![], 0);
    for exchange in exchanges(VARIABLES) {
        if exchange.name == "lock-renew-expired" {
            agent.clock.advance(Duration::from_secs(21));
        }
        let found = compare(&agent, &exchange, &mut pairs).await;
        problems.extend(found.into_iter().map(|what| format!("{}: {what}", exchange.name)));
        count += 1;
    }
    assert!(count > 100, "only {count} exchanges");
    assert_eq!(problems, Vec::<String>::new());
}

const PROVIDER: &str = include_str!("../data/nomad/2.0.5/provider.jsonl");

/// Requests that the server answers without its plugin.
const OF_THE_SERVER: &[&str] = &[
    "external-per-page-bad",
    "external-unknown",
    "external-none",
    "snapshot-create-no-name",
    "snapshot-create-volume-missing",
    "snapshot-create-plugin-missing",
    "snapshot-create-one-bad",
    "snapshot-create-null",
    "snapshot-create-none",
    "snapshot-create-null-list",
    "snapshot-create-empty-body",
    "snapshot-list-unknown",
    "snapshot-list-none",
    "snapshot-delete-no-id",
    "snapshot-delete-no-plugin",
    "snapshot-delete-plugin-unknown",
    "snapshot-patch",
];

/// Requests that succeed; the keys of every level are compared.
const SUCCESSES: &[&str] = &[
    "external",
    "snapshot-create",
    "snapshot-create-again",
    "snapshot-create-post",
    "snapshot-list",
    "snapshot-delete-again",
];

/// The keys of a document at every level, without values.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<_, _> = map.iter().collect();
            let shapes = sorted.into_iter().map(|(key, value)| {
                let opaque = matches!(key.as_str(), "VolumeContext" | "PublishedExternalNodeIDs");
                (key.clone(), if opaque { Value::Null } else { shape(value) })
            });
            Value::Object(shapes.collect())
        }
        Value::Array(list) => Value::Array(list.iter().take(1).map(shape).collect()),
        _ => Value::Null,
    }
}

#[tokio::test(start_paused = true)]
async fn volumes_and_snapshots_of_a_provider_match_a_real_nomad() {
    let able = ControllerCapabilities {
        create_delete_volume: true,
        list_volumes: true,
        list_volumes_published_nodes: true,
        create_delete_snapshot: true,
        list_snapshots: true,
        ..ControllerCapabilities::default()
    };
    let settings = PluginSettings { controller: Some(able), ..PluginSettings::default() };
    let agent = FakeAgent::start(settings).await.unwrap();
    for id in ["vol0", "vol1"] {
        let created = agent.volumes.create(vec![FakeAgent::request(id).into()]);
        created.await.unwrap();
    }
    let (mut problems, mut count) = (vec![], 0);
    for exchange in exchanges(PROVIDER) {
        let of_the_server = OF_THE_SERVER.contains(&exchange.name.as_str());
        if !of_the_server && !SUCCESSES.contains(&exchange.name.as_str()) {
            continue;
        }
        count += 1;
        let ours = |text: &str| text.replace("hostpath", FakeAgent::PLUGIN);
        let request = Request::builder()
            .method(exchange.method.as_str())
            .uri(ours(&exchange.target))
            .body(Body::from(ours(&exchange.request)))
            .unwrap();
        let answer = operator_router(agent.services.clone(), HttpSettings::default())
            .await
            .oneshot(request)
            .await;
        let (parts, body) = answer.unwrap().into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let text = String::from_utf8_lossy(&body);
        let (theirs, ours) =
            (serde_json::from_str::<Value>(&exchange.answer), serde_json::from_str::<Value>(&text));
        let is_same = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => shape(&theirs) == shape(&ours),
            // Of a request that succeeded in part, ours says what was created (W57).
            _ => text
                .strip_prefix(&exchange.answer)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with("snapshot `")),
        };
        if u64::from(parts.status.as_u16()) != exchange.status || !is_same {
            problems.push(format!(
                "{}: {} {:?} and {} {text:?}",
                exchange.name, exchange.status, exchange.answer, parts.status
            ));
        }
    }
    assert_eq!(count, OF_THE_SERVER.len() + SUCCESSES.len());
    assert_eq!(problems, Vec::<String>::new());
}
