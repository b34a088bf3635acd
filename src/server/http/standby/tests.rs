//! A leader and a server that follows it answer alike.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::{Body, to_bytes};
use http::{HeaderValue, Method, Request, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tower::ServiceExt as _;

use super::*;
use crate::fake::FakeAgent;
use crate::http::{
    Connection, ConnectionSlots, HttpSettings, OperatorAccess, OperatorToken, Peer,
    forwarded_router, router_of,
};
use crate::journal::FollowedJournal as _;
use crate::ports::ServerPorts;
use nomad_csi_claims::state::{
    AclEntry, AclEvent, AclKey, AclPolicyEntry, AclTokenEntry, EventKind,
};
use nomad_csi_ports::NotLeading;
use nomad_csi_testing::PluginSettings;

const TOKEN_TEXT: &str = "0123456789abcdef0123456789abcdef";

/// A way to the leader that goes through memory and remembers what it carried.
struct Link {
    leader: axum::Router,
    carried: Mutex<Vec<HeaderMap>>,
    /// What happens in place of an answer.
    fault: Mutex<Option<NotForwarded>>,
    has_leader: AtomicBool,
}

#[async_trait]
impl LeaderLink for Link {
    fn has_leader(&self) -> bool {
        self.has_leader.load(Ordering::Relaxed)
    }

    async fn send(&self, request: Request<Body>) -> Result<Response, NotForwarded> {
        self.carried.lock().push(request.headers().clone());
        if let Some(fault) = self.fault.lock().clone() {
            return Err(fault);
        }
        Ok(self.leader.clone().oneshot(request).await.unwrap())
    }
}

fn link_to(server: axum::Router) -> Arc<Link> {
    Arc::new(Link {
        leader: forwarded_router(server, places()),
        carried: Mutex::default(),
        fault: Mutex::default(),
        has_leader: AtomicBool::new(true),
    })
}

/// Two servers of one cluster.
struct Pair {
    agent: FakeAgent,
    leader: axum::Router,
    standby: axum::Router,
    link: Arc<Link>,
    state: FollowedState,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("{}", self.text))
    }

    fn header(&self, name: &str) -> &str {
        self.headers[name].to_str().unwrap()
    }
}

fn access() -> OperatorAccess {
    let token = OperatorToken::new(TOKEN_TEXT).unwrap();
    OperatorAccess { token: Some((token, "/token".into())), ..OperatorAccess::default() }
}

fn places() -> ConnectionSlots {
    ConnectionSlots::new(64, 64, 64)
}

fn standby_router(agent: &FakeAgent, state: &FollowedState, leader: Arc<Link>) -> axum::Router {
    let cell = state.cell().clone();
    let services = Services::following(
        ServerPorts {
            cell: cell.clone(),
            sealer: Arc::new(agent.sealer.clone()),
            clock: Arc::new(agent.clock.clone()),
            ids: Arc::new(agent.ids.clone()),
            term: FakeAgent::TERM,
            lease: Arc::new(NotLeading),
            hosts: agent.hosts.clone(),
            calls: FakeAgent::plugin_call_queues(&cell, agent.hosts.clone()),
        },
        agent.limits(),
        FakeAgent::agent_info(),
    );
    let role = ServerRole::Standby(Standby { state: state.clone(), leader });
    router_of(role, services, HttpSettings::default(), access())
}

async fn pair() -> Pair {
    let agent = FakeAgent::start(PluginSettings::default()).await.unwrap();
    let role = ServerRole::Leader { has_standbys: true };
    let leader = router_of(role, agent.services.clone(), HttpSettings::default(), access());
    let state = FollowedState::open(Arc::new(agent.journal.clone())).await.unwrap();
    let link = link_to(leader.clone());
    let standby = standby_router(&agent, &state, link.clone());
    Pair { agent, leader, standby, link, state }
}

/// Sends a request as a client of the network, with headers.
async fn ask(
    router: &axum::Router,
    line: &str,
    body: &str,
    headers: &[(&'static str, &str)],
) -> Answer {
    let (method, uri) = line.split_once(' ').unwrap();
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(Body::from(body.to_owned())).unwrap();
    let place = places().enter().await.unwrap();
    request.extensions_mut().insert(Connection::new(Peer::Network, place));
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    Answer { status: parts.status, headers: parts.headers, text }
}

async fn operate(router: &axum::Router, line: &str, body: &str) -> Answer {
    ask(router, line, body, &[("x-nomad-token", TOKEN_TEXT)]).await
}

fn creation(id: &str) -> String {
    let capability = json!({"AccessMode": "single-node-writer", "AttachmentMode": "file-system"});
    let volume = json!({"ID": id, "Name": id, "PluginID": "fake",
        "RequestedCapabilities": [capability]});
    json!({"Volumes": [volume]}).to_string()
}

/// No pause is between a write through one server and a read through the other.
#[tokio::test(start_paused = true)]
async fn what_one_server_has_acknowledged_the_other_one_shows() {
    let Pair { leader, standby, link, state, .. } = pair().await;
    for number in 0..20 {
        let (writer, reader) = match number % 2 {
            0 => (&standby, &leader),
            _ => (&leader, &standby),
        };
        let (id, path) = (format!("db{number}"), format!("PUT /v1/volume/csi/db{number}/create"));
        let created = operate(writer, &path, &creation(&id)).await;
        assert_eq!(created.status, 200, "{}", created.text);
        for router in [reader, writer] {
            let listed = ask(router, "GET /v1/volumes?type=csi", "", &[]).await;
            assert_eq!(listed.json().as_array().unwrap().len(), number + 1, "{number}");
            let read = ask(router, &format!("GET /v1/volume/csi/{id}"), "", &[]).await;
            assert_eq!(read.json()["ID"], id, "{number}");
        }
        let written: u64 = created.header("x-nomad-index").parse().unwrap();
        let listed = ask(reader, "GET /v1/volumes?type=csi", "", &[]).await;
        assert!(listed.header("x-nomad-index").parse::<u64>().unwrap() >= written);
    }
    let forwarded = link.carried.lock().len();
    assert_eq!(forwarded, 10 + 20, "ten writes, and reads of one volume, which ask nodes");
    state.cell().stop().await;
}

/// A standby has seen a change whose answer is on its way to the leader (F12).
#[tokio::test(start_paused = true)]
async fn no_client_sees_a_change_come_and_go() {
    let Pair { agent, leader, standby, state, .. } = pair().await;
    let last = agent.cell.index();
    agent.journal.hold_answers(true);
    let writer = leader.clone();
    let body = json!({"Name": "x"}).to_string();
    let write = tokio::spawn(async move { operate(&writer, "PUT /v1/namespace", &body).await });
    while agent.journal.head().await.unwrap() == last {
        tokio::task::yield_now().await;
    }
    let names = |answer: &Answer| answer.text.contains("\"x\"");
    assert!(names(&ask(&standby, "GET /v1/namespaces", "", &[]).await));
    // Only the leader answers it.
    let nodes = ask(&leader, "GET /v1/nodes", "", &[]);
    let early = tokio::time::timeout(Duration::from_secs(1), nodes).await;
    assert!(early.is_err(), "the leader has answered before it knew");
    let read = ask(&leader, "GET /v1/namespaces", "", &[]);
    let mut read = std::pin::pin!(read);
    let early = tokio::time::timeout(Duration::from_secs(1), &mut read).await;
    assert!(early.is_err(), "the leader has answered before it knew");
    agent.journal.hold_answers(false);
    assert!(names(&read.await));
    assert_eq!(write.await.unwrap().status, 200);
    state.cell().stop().await;
}

/// etcd has no quorum: the write does not end, and no other server is known not to lead.
#[tokio::test(start_paused = true)]
async fn a_read_does_not_wait_longer_than_this_server_leads() {
    let Pair { agent, leader, state, .. } = pair().await;
    let last = agent.cell.index();
    agent.journal.hold_answers(true);
    let writer = leader.clone();
    let body = json!({"Name": "x"}).to_string();
    let write = tokio::spawn(async move { operate(&writer, "PUT /v1/namespace", &body).await });
    while agent.journal.head().await.unwrap() == last {
        tokio::task::yield_now().await;
    }
    let read = {
        let leader = leader.clone();
        tokio::spawn(async move { ask(&leader, "GET /v1/namespaces", "", &[]).await })
    };
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(!read.is_finished());
    agent.lease.set_certain(false);
    let refused = tokio::time::timeout(Duration::from_secs(1), read).await.unwrap().unwrap();
    assert_eq!((refused.status.as_u16(), refused.text.as_str()), (500, "No cluster leader"));
    agent.journal.hold_answers(false);
    write.await.unwrap();
    state.cell().stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_without_the_journal_answers_only_who_takes_an_old_state() {
    let Pair { agent, standby, link, state, .. } = pair().await;
    agent.journal.set_silent(true);
    tokio::time::sleep(Duration::from_secs(30)).await;
    link.has_leader.store(false, Ordering::Relaxed);
    let refused = ask(&standby, "GET /v1/plugins?type=csi", "", &[]).await;
    assert_eq!((refused.status.as_u16(), refused.text.as_str()), (500, "No cluster leader"));
    let accept = [("accept", "application/vnd.nomad-csi.error+json")];
    let typed = ask(&standby, "GET /v1/plugins?type=csi", "", &accept).await.json();
    let message = typed["message"].as_str().unwrap_or_else(|| panic!("{typed:#}"));
    assert!(message.contains("cannot answer for the one that does"), "{message}");
    for uri in ["/v1/plugins?type=csi&stale", "/v1/plugins?stale=true", "/v1/agent/self"] {
        let read = ask(&standby, &format!("GET {uri}"), "", &[]).await;
        assert_eq!(read.status, 200, "{uri}: {}", read.text);
        assert_eq!(read.header("x-nomad-knownleader"), "false");
        assert!(read.header("x-nomad-lastcontact").parse::<u64>().unwrap() >= 29_000, "{uri}");
    }
    let refused = ask(&standby, "GET /v1/plugins?stale=false", "", &[]).await;
    assert_eq!(refused.status, 500);
    agent.journal.set_silent(false);
    link.has_leader.store(true, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let read = ask(&standby, "GET /v1/plugins?type=csi", "", &[]).await;
    assert_eq!(read.status, 200, "{}", read.text);
    assert_eq!(read.header("x-nomad-knownleader"), "true");
    assert!(read.header("x-nomad-lastcontact").parse::<u64>().unwrap() < 1_000);
    state.cell().stop().await;
}

/// A read can be sent again; a write may have been carried out.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_of_the_leader_is_unknown_for_a_write_only() {
    let Pair { standby, link, state, .. } = pair().await;
    let write = (
        "DELETE /v1/volume/csi/db",
        "the leader did not answer a request that was forwarded to it: read what it was about before you repeat it",
    );
    let read = ("GET /v1/volume/csi/db", "No cluster leader");
    for (fault, expected) in [
        (NotForwarded::NotSent("no".to_owned()), [(write.0, read.1), read]),
        (NotForwarded::Unanswered("cut".to_owned()), [write, read]),
    ] {
        *link.fault.lock() = Some(fault.clone());
        for (line, text) in expected {
            let answer = operate(&standby, line, "").await;
            assert_eq!((answer.status.as_u16(), answer.text.as_str()), (500, text), "{fault:?}");
        }
    }
    state.cell().stop().await;
}

/// The standby checks its clients, and the leader believes it.
#[tokio::test(start_paused = true)]
async fn only_the_operator_of_a_standby_is_the_operator_at_the_leader() {
    let Pair { standby, link, leader, state, .. } = pair().await;
    let forged = [(FORWARDED, "operator"), ("authorization", "Bearer x")];
    for router in [&standby, &leader] {
        let refused = ask(router, "PUT /v1/volume/csi/a/create", &creation("a"), &forged).await;
        assert_eq!(refused.status, 403, "{}", refused.text);
    }
    assert!(link.carried.lock().is_empty(), "it was not sent");
    let read = ask(&standby, "GET /v1/volume/csi/a", "", &forged).await;
    assert_eq!(read.status, 404, "{}", read.text);
    let created = operate(&standby, "PUT /v1/volume/csi/a/create", &creation("a")).await;
    assert_eq!(created.status, 200, "{}", created.text);
    let carried = link.carried.lock().clone();
    let said = |headers: &HeaderMap| {
        let all: Vec<_> = headers.get_all(FORWARDED).iter().cloned().collect();
        (all, headers.contains_key("authorization") || headers.contains_key(TOKEN))
    };
    let expected = |who| (vec![HeaderValue::from_static(who)], false);
    let carried: Vec<_> = carried.iter().map(said).collect();
    assert_eq!(carried, [expected("client"), expected("operator")]);
    state.cell().stop().await;
}

/// A page of a browser is refused where it arrives.
#[tokio::test(start_paused = true)]
async fn a_request_of_a_foreign_origin_is_not_forwarded() {
    let Pair { standby, link, state, .. } = pair().await;
    let foreign = [("origin", "https://example.com"), ("x-nomad-token", TOKEN_TEXT)];
    let refused = ask(&standby, "DELETE /v1/volume/csi/a", "", &foreign).await;
    assert_eq!(refused.status, 403, "{}", refused.text);
    assert!(link.carried.lock().is_empty());
    state.cell().stop().await;
}

/// Two servers that take each other for the leader do not send a request in a circle.
#[tokio::test(start_paused = true)]
async fn what_was_forwarded_is_not_forwarded_again() {
    let Pair { agent, standby, state, .. } = pair().await;
    let again = link_to(standby);
    let first = standby_router(&agent, &state, again.clone());
    let refused = operate(&first, "DELETE /v1/volume/csi/a", "").await;
    assert_eq!((refused.status.as_u16(), refused.text.as_str()), (500, "No cluster leader"));
    assert_eq!(again.carried.lock().len(), 1);
    state.cell().stop().await;
}

/// A blocking query of a standby ends with a change that the leader makes.
#[tokio::test(start_paused = true)]
async fn a_blocking_query_of_a_standby_waits_for_changes_of_the_leader() {
    let Pair { leader, standby, state, .. } = pair().await;
    let listed = ask(&standby, "GET /v1/namespaces", "", &[]).await;
    let index = listed.header("x-nomad-index").to_owned();
    let waiting = {
        let standby = standby.clone();
        let line = format!("GET /v1/namespaces?index={index}&wait=60s");
        tokio::spawn(async move { ask(&standby, &line, "", &[]).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    let body = json!({"Name": "x"}).to_string();
    assert_eq!(operate(&leader, "PUT /v1/namespace", &body).await.status, 200);
    let begun = tokio::time::Instant::now();
    let answer = waiting.await.unwrap();
    assert!(answer.text.contains("\"x\""), "{}", answer.text);
    assert!(begun.elapsed() < Duration::from_secs(1));
    state.cell().stop().await;
}

/// What a standby answers itself changes nothing and needs neither nodes nor what only the leader knows.
#[test]
fn every_endpoint_of_the_state_is_a_read() {
    for (method, path, answers) in [
        (Method::GET, "/v1/volumes", Answers::State),
        (Method::GET, "/v1/jobs", Answers::State),
        (Method::PUT, "/v1/search", Answers::State),
        (Method::GET, "/v1/event/stream", Answers::State),
        (Method::GET, "/v1/allocations", Answers::State),
        (Method::PUT, "/v1/volumes", Answers::Leader),
        (Method::GET, "/v1/volume/csi/a", Answers::Leader),
        (Method::GET, "/v1/volumes/claims", Answers::Leader),
        (Method::GET, "/v1/nodes", Answers::Leader),
        (Method::GET, "/v1/client/fs/logs/a", Answers::Leader),
        (Method::PUT, "/v1/jobs", Answers::Leader),
        (Method::GET, "/v1/status/leader", Answers::Leader),
        (Method::GET, "/v1/var/a", Answers::Leader),
    ] {
        assert_eq!(Route::parse(&method, path).unwrap().answers(), answers, "{path}");
    }
}

fn token_event(key: &str, event: Option<AclTokenEntry>) -> EventKind {
    let event = match event {
        Some(entry) => AclEvent::Written { entry: AclEntry::Token(entry), expected: None },
        None => AclEvent::Deleted,
    };
    EventKind::Acl { key: AclKey::Token(key.to_owned()), event }
}

/// A token counts on a server that follows, for what it answers and for what it forwards, and a token that is gone counts on none.
#[tokio::test(start_paused = true)]
async fn a_token_counts_where_a_request_is_answered_and_where_it_is_forwarded() {
    let Pair { agent, standby, link, .. } = pair().await;
    let entry = |secret: &str, policies: Option<&str>| AclTokenEntry {
        name: String::new(),
        policies: policies.map(|name| [name.to_owned()].into()),
        is_global: false,
        secret_hash: nomad_csi_model::hex(&Sha256::digest(secret.as_bytes())).collect(),
        expires_at: None,
    };
    let rules = "namespace \"default\" { policy = \"read\" }".to_owned();
    let policy = AclPolicyEntry { description: String::new(), rules };
    let written = |entry| AclEvent::Written { entry, expected: None };
    for kind in [
        EventKind::Acl { key: AclKey::Bootstrap, event: written(AclEntry::Bootstrapped) },
        EventKind::Acl {
            key: AclKey::Policy("p".to_owned()),
            event: written(AclEntry::Policy(policy)),
        },
        token_event("all", Some(entry("manager", None))),
        token_event("some", Some(entry("reader", Some("p")))),
    ] {
        agent.record_event(kind).await;
    }
    let status = async |line: &str, body: &str, token: Option<&str>| {
        let headers: Vec<_> = token.map(|token| ("x-nomad-token", token)).into_iter().collect();
        ask(&standby, line, body, &headers).await.status.as_u16()
    };
    let volumes = "GET /v1/volumes?type=csi";
    let new = creation("new");
    for (line, body, token, expected) in [
        (volumes, "", None, 403),
        (volumes, "", Some("other"), 403),
        (volumes, "", Some("reader"), 200),
        (volumes, "", Some("manager"), 200),
        (volumes, "", Some(TOKEN_TEXT), 200),
        ("GET /v1/nodes", "", None, 403),
        ("GET /v1/nodes", "", Some("reader"), 403),
        ("GET /v1/nodes", "", Some("manager"), 200),
        ("GET /v1/nodes", "", Some(TOKEN_TEXT), 200),
        ("PUT /v1/volume/csi/new/create", new.as_str(), Some("reader"), 403),
        ("PUT /v1/volume/csi/new/create", new.as_str(), Some("manager"), 200),
    ] {
        assert_eq!(status(line, body, token).await, expected, "{line} {token:?}");
    }
    let forged = [("x-nomad-csi-forwarded", "operator")];
    let answer = ask(&standby, "GET /v1/nodes", "", &forged).await;
    assert_eq!(answer.status.as_u16(), 403, "a client does not say that it is the operator");
    agent.record_event(token_event("all", None)).await;
    for line in [volumes, "GET /v1/nodes"] {
        assert_eq!(status(line, "", Some("manager")).await, 403, "{line}");
    }
    let carried = link.carried.lock();
    let token = |headers: &HeaderMap| {
        headers.get("x-nomad-token").map(|token| token.to_str().unwrap().to_owned())
    };
    let tokens: BTreeSet<_> = carried.iter().map(token).collect();
    let expected = [None, Some("manager"), Some("other"), Some("reader")];
    let expected = expected.map(|token: Option<&str>| token.map(str::to_owned));
    assert!(tokens.is_subset(&expected.into()), "the operator's token goes nowhere: {tokens:?}");
    assert!(tokens.contains(&Some("manager".to_owned())), "{tokens:?}");
}
