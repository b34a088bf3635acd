//! A server with an ACL: every endpoint by every kind of token, and what lists and streams show.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use nomad_csi_claims::state::samples::jobs::{alloc_placed, job_registered};
use nomad_csi_model::{JobKey, Namespace};

use super::super::endpoints::Route;
use super::*;
use crate::acl::AclSettings;

const OPERATOR: &str = "operator-operator-operator-operator";
const EVALUATION: &str = "33333333-2222-4333-8444-555555555555";
const ALLOC: &str = "44444444-2222-4333-8444-555555555555";

/// A server with an ACL, on which client tokens can be made.
struct AclServer {
    agent: FakeAgent,
    router: axum::Router,
    tokens: BTreeMap<String, String>,
}

impl AclServer {
    async fn start() -> Self {
        let agent = agent().await;
        agent.add_namespaces(&["other"]).await;
        let services = agent.services.clone().with_acl(AclSettings { is_enabled: Some(true) });
        let token = super::super::OperatorToken::new(OPERATOR).unwrap();
        let operator =
            OperatorAccess { token: Some((token, "/token".into())), ..OperatorAccess::default() };
        let router = router(services, HttpSettings::default(), operator);
        Self { agent, router, tokens: BTreeMap::new() }
    }

    /// Has a volume, a job with an allocation, and a variable in `default`.
    async fn with_objects() -> Self {
        let server = Self::start().await;
        create(&server.agent, "db").await;
        let key = job_key("web");
        server.agent.record_event(job_registered(&key)).await;
        server.agent.record_event(alloc_placed(&key, ALLOC, FakeAgent::NODE)).await;
        server
    }

    async fn response(&self, line: &str, body: &str, token: Option<&str>) -> Response {
        let (method, uri) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(uri);
        if let Some(token) = token {
            request = request.header("X-Nomad-Token", token);
        }
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        let place = ConnectionSlots::new(8, 8, 8).enter().await.unwrap();
        request.extensions_mut().insert(Connection::new(Peer::Network, place));
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn ask(&self, line: &str, body: &str, token: Option<&str>) -> Answer {
        answer(self.response(line, body, token).await).await
    }

    async fn operate(&self, line: &str, body: &Value) -> Answer {
        let answer = self.ask(line, &body.to_string(), Some(OPERATOR)).await;
        assert_eq!(answer.status, 200, "{line}: {}", answer.text());
        answer
    }

    /// Makes a token with these rules.
    async fn token(&mut self, rules: &str) -> String {
        if let Some(known) = self.tokens.get(rules) {
            return known.clone();
        }
        let name = format!("policy-{}", self.tokens.len());
        self.operate(&format!("PUT /v1/acl/policy/{name}"), &json!({"Rules": rules})).await;
        let token = json!({"Name": name, "Type": "client", "Policies": [name]});
        let made = self.operate("PUT /v1/acl/token", &token).await.json();
        let secret = made["SecretID"].as_str().unwrap().to_owned();
        self.tokens.insert(rules.to_owned(), secret.clone());
        secret
    }

    async fn management(&self) -> String {
        let token = json!({"Name": "all", "Type": "management"});
        let made = self.operate("POST /v1/acl/token", &token).await.json();
        made["SecretID"].as_str().unwrap().to_owned()
    }
}

/// What an endpoint requires in a test.
#[derive(Clone, Copy)]
enum Needs {
    /// Nothing.
    Open,
    /// All of these.
    All(&'static [Rule]),
    /// A management token.
    Management,
    /// A known token; the rest depends on the object.
    Known,
}

/// A rule of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// A capability in `default`.
    Capability(&'static str),
    /// Anything else.
    Level(&'static str, &'static str),
}

impl Rule {
    fn text(self, namespace: &str) -> String {
        match self {
            Self::Capability(word) => {
                format!("namespace \"{namespace}\" {{ capabilities = [\"{word}\"] }}\n")
            }
            Self::Level(kind, word) => format!("{kind} {{ policy = \"{word}\" }}\n"),
        }
    }
}

fn rules(rules: impl IntoIterator<Item = Rule>, namespace: &str) -> String {
    rules.into_iter().map(|rule| rule.text(namespace)).collect()
}

use Needs::{All, Known, Management, Open};
use Rule::{Capability, Level};

const PLUGIN: Rule = Level("plugin", "read");
const NODE_READ: Rule = Level("node", "read");
const NODE_WRITE: Rule = Level("node", "write");
const AGENT: Rule = Level("agent", "read");

fn volumes() -> String {
    json!({"Volumes": [volume_body("new")]}).to_string()
}

fn a_job() -> String {
    let job = job_to_wire(&job(&job_key("new")));
    json!({"Job": job}).to_string()
}

/// A request for each endpoint, and what it requires.
#[expect(clippy::too_many_lines, reason = "a table")]
fn endpoints() -> Vec<(String, String, Needs)> {
    let none = String::new;
    let list = All(&[Capability("csi-list-volume")]);
    let read = All(&[Capability("csi-read-volume")]);
    let write = All(&[Capability("csi-write-volume"), PLUGIN]);
    let mount = All(&[Capability("csi-mount-volume"), PLUGIN]);
    let read_job = All(&[Capability("read-job")]);
    let submit = All(&[Capability("submit-job")]);
    let lifecycle = All(&[Capability("alloc-lifecycle")]);
    let files = All(&[Capability("read-fs")]);
    let fence = All(&[NODE_WRITE, Level("operator", "write")]);
    let node = FakeAgent::NODE;
    let rows = [
        ("GET /v1/volumes?type=csi", none(), list),
        ("GET /v1/volumes/external?plugin_id=fake", none(), list),
        ("GET /v1/volumes/snapshot?plugin_id=fake", none(), list),
        ("GET /v1/volumes/claims?type=csi", none(), list),
        ("GET /v1/volumes/creations", none(), list),
        (
            "PUT /v1/volumes/snapshot",
            json!({"Snapshots": [{"SourceVolumeID": "db"}]}).to_string(),
            write,
        ),
        ("DELETE /v1/volumes/snapshot?plugin_id=fake&snapshot_id=s", none(), write),
        ("GET /v1/volume/csi/db", none(), read),
        ("GET /v1/volume/csi/db/claims", none(), read),
        ("GET /v1/volume/csi/db/history", none(), read),
        ("GET /v1/volume/csi/db/health", none(), read),
        ("GET /v1/volume/csi/db/stats", none(), read),
        ("PUT /v1/volumes", volumes(), write),
        ("PUT /v1/volume/csi/new/create", volumes(), write),
        ("DELETE /v1/volume/csi/db", none(), All(&[Capability("csi-write-volume")])),
        ("DELETE /v1/volumes/registrations?id=db", none(), All(&[Capability("csi-write-volume")])),
        ("DELETE /v1/volume/csi/db/delete", none(), write),
        ("DELETE /v1/volume/csi/db/detach?node=n", none(), mount),
        ("PUT /v1/volume/csi/db/modify", json!({"MutableParameters": {}}).to_string(), write),
        ("DELETE /v1/volume/csi/db/creation", none(), All(&[Capability("csi-write-volume")])),
        ("PUT /v1/volume/csi/db/claim", json!({"AllocID": "a"}).to_string(), mount),
        ("DELETE /v1/volume/csi/db/claim?alloc=a", none(), mount),
        (&format!("PUT /v1/node/{node}/fence"), none(), fence),
        (&format!("PUT /v1/node/{node}/unfence"), none(), fence),
        ("GET /v1/plugins?type=csi", none(), All(&[Level("plugin", "list")])),
        ("GET /v1/plugin/csi/fake", none(), All(&[PLUGIN])),
        ("GET /v1/plugin/csi/fake/capacity", none(), All(&[PLUGIN])),
        ("GET /v1/nodes", none(), All(&[NODE_READ])),
        (&format!("GET /v1/node/{node}"), none(), All(&[NODE_READ])),
        (&format!("GET /v1/node/{node}/allocations"), none(), All(&[NODE_READ])),
        ("GET /v1/node/pools", none(), All(&[NODE_READ])),
        ("GET /v1/node/pool/default", none(), All(&[NODE_READ])),
        (&format!("PUT /v1/node/{node}/eligibility"), none(), All(&[NODE_WRITE])),
        (&format!("PUT /v1/node/{node}/drain"), none(), All(&[NODE_WRITE])),
        ("GET /v1/jobs", none(), All(&[Capability("list-jobs")])),
        ("PUT /v1/jobs", a_job(), submit),
        ("PUT /v1/job/new/plan", a_job(), submit),
        ("PUT /v1/job/new/placement", a_job(), submit),
        ("PUT /v1/validate/job", a_job(), read_job),
        ("PUT /v1/jobs/parse", json!({"JobHCL": "x"}).to_string(), All(&[Capability("parse-job")])),
        ("GET /v1/job/web", none(), read_job),
        ("GET /v1/job/web/versions", none(), read_job),
        ("GET /v1/job/web/summary", none(), read_job),
        ("GET /v1/job/web/placement", none(), read_job),
        ("GET /v1/job/web/allocations", none(), read_job),
        ("GET /v1/job/web/evaluations", none(), read_job),
        ("GET /v1/job/web/deployment", none(), read_job),
        ("GET /v1/deployments", none(), read_job),
        ("GET /v1/evaluations", none(), read_job),
        ("GET /v1/allocations", none(), read_job),
        ("GET /v1/job/web/scale", none(), All(&[Capability("read-job-scaling")])),
        ("PUT /v1/job/web/scale", none(), All(&[Capability("scale-job")])),
        ("PUT /v1/job/web/dispatch", none(), All(&[Capability("dispatch-job")])),
        ("PUT /v1/job/web/periodic/force", none(), submit),
        ("DELETE /v1/job/web", none(), submit),
        ("PUT /v1/job/web/evaluate", none(), submit),
        ("PUT /v1/job/web/revert", none(), submit),
        (&format!("GET /v1/evaluation/{EVALUATION}"), none(), read_job),
        (&format!("GET /v1/evaluation/{EVALUATION}/allocations"), none(), read_job),
        (&format!("GET /v1/allocation/{ALLOC}"), none(), read_job),
        (&format!("PUT /v1/allocation/{ALLOC}/stop"), none(), lifecycle),
        (&format!("PUT /v1/client/allocation/{ALLOC}/restart"), json!({}).to_string(), lifecycle),
        (
            &format!("PUT /v1/client/allocation/{ALLOC}/signal"),
            json!({"Signal": "SIGHUP"}).to_string(),
            lifecycle,
        ),
        (&format!("GET /v1/client/fs/ls/{ALLOC}"), none(), files),
        (&format!("GET /v1/client/fs/stat/{ALLOC}?path=x&offset=0&limit=1"), none(), files),
        (&format!("GET /v1/client/fs/cat/{ALLOC}?path=x&offset=0&limit=1"), none(), files),
        (&format!("GET /v1/client/fs/readat/{ALLOC}?path=x&offset=0&limit=1"), none(), files),
        (
            &format!("GET /v1/client/fs/logs/{ALLOC}?task=t&type=stdout"),
            none(),
            All(&[Capability("read-logs")]),
        ),
        ("PUT /v1/search", json!({"Context": "all"}).to_string(), Known),
        ("GET /v1/event/stream", none(), Known),
        ("GET /v1/agent/self", none(), All(&[AGENT])),
        ("GET /v1/metrics", none(), All(&[AGENT])),
        ("GET /v1/agent/members", none(), All(&[AGENT])),
        ("GET /v1/agent/health", none(), Open),
        ("GET /v1/status/leader", none(), Open),
        ("GET /v1/status/peers", none(), Open),
        ("GET /v1/regions", none(), Open),
        ("PUT /v1/system/gc", none(), Management),
        ("GET /v1/namespaces", none(), Known),
        ("GET /v1/namespace/default", none(), All(&[Capability("read-fs")])),
        ("PUT /v1/namespace", json!({"Name": "new"}).to_string(), Management),
        ("DELETE /v1/namespace/other", none(), Management),
        ("GET /v1/vars", none(), Known),
        ("GET /v1/var/x", none(), Management),
        ("PUT /v1/acl/bootstrap", none(), Management),
        ("GET /v1/acl/token/self", none(), Known),
        ("GET /v1/acl/tokens", none(), Management),
        ("GET /v1/acl/token/nope", none(), Management),
        ("PUT /v1/acl/token", json!({"Type": "management"}).to_string(), Management),
        ("DELETE /v1/acl/token/nope", none(), Management),
        ("GET /v1/acl/policies", none(), Known),
        ("GET /v1/acl/policy/self", none(), Known),
        ("GET /v1/acl/policy/nope", none(), Management),
        (
            "PUT /v1/acl/policy/p",
            json!({"Rules": "node { policy = \"read\" }"}).to_string(),
            Management,
        ),
        ("DELETE /v1/acl/policy/nope", none(), Management),
    ];
    rows.map(|(line, body, needs)| (line.to_owned(), body, needs)).into()
}

#[test]
fn the_requests_of_the_test_are_for_all_endpoints() {
    let asked: BTreeSet<_> = endpoints()
        .iter()
        .map(|(line, ..)| {
            let (method, uri) = line.split_once(' ').unwrap();
            let path = uri.split('?').next().unwrap();
            Route::parse(&method.parse().unwrap(), path).unwrap().operation()
        })
        .collect();
    let all: BTreeSet<_> = Route::OPERATIONS.iter().copied().collect();
    let missing: Vec<_> = all.difference(&asked).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Each request is sent to a server of its own: without a token, with an unknown one, with all rights but one, with the right in
/// another namespace, with every right but that of a manager, and with enough.
#[tokio::test(start_paused = true)]
async fn every_endpoint_requires_its_rights() {
    let everything = rules(
        [
            "alloc-lifecycle",
            "csi-list-volume",
            "csi-mount-volume",
            "csi-read-volume",
            "csi-register-plugin",
            "csi-write-volume",
            "dispatch-job",
            "list-jobs",
            "parse-job",
            "read-fs",
            "read-job",
            "read-logs",
            "scale-job",
            "submit-job",
        ]
        .map(Capability)
        .into_iter()
        .chain([PLUGIN, NODE_WRITE, AGENT, Level("operator", "write")]),
        "default",
    );
    for (line, body, needs) in endpoints() {
        let mut server = AclServer::with_objects().await;
        let refused = async |server: &AclServer, token: Option<&str>, what: &str| {
            let response = server.response(&line, &body, token).await;
            assert_eq!(response.status(), 403, "{line}: {what}");
            let text = answer(response).await;
            let expected = match token {
                Some("unknown") => "ACL token not found",
                Some(_) | None => "Permission denied",
            };
            assert_eq!(text.text(), expected, "{line}: {what}");
        };
        let admitted = async |server: &AclServer, token: Option<&str>, what: &str| {
            let response = server.response(&line, &body, token).await;
            assert_ne!(response.status(), 403, "{line}: {what}");
        };
        match needs {
            Open => {
                admitted(&server, None, "without a token").await;
                admitted(&server, Some("unknown"), "with an unknown token").await;
                continue;
            }
            Known => admitted(&server, None, "without a token").await,
            Management => {
                refused(&server, None, "without a token").await;
                let all = server.token(&everything).await;
                refused(&server, Some(&all), "with every policy").await;
            }
            All(needed) => {
                refused(&server, None, "without a token").await;
                for left_out in needed {
                    let rest = needed.iter().copied().filter(|rule| rule != left_out);
                    let rest = rest.chain([Level("quota", "read")]);
                    let token = server.token(&rules(rest, "default")).await;
                    refused(&server, Some(&token), "with all rights but one").await;
                }
                if needed.iter().any(|rule| matches!(rule, Capability(_))) {
                    let token = server.token(&rules(needed.iter().copied(), "other")).await;
                    let elsewhere = line.contains("/evaluation/");
                    match elsewhere {
                        // The evaluation does not exist, which is seen first.
                        true => admitted(&server, Some(&token), "with the right elsewhere").await,
                        false => refused(&server, Some(&token), "with the right elsewhere").await,
                    }
                }
                let token = server.token(&rules(needed.iter().copied(), "default")).await;
                admitted(&server, Some(&token), "with enough").await;
            }
        }
        refused(&server, Some("unknown"), "with an unknown token").await;
        let token = server.management().await;
        admitted(&server, Some(&token), "with a management token").await;
        admitted(&server, Some(OPERATOR), "as the operator").await;
    }
}

/// CVE-2024-10975: the namespace of the body counts, and not that of the query.
#[tokio::test(start_paused = true)]
async fn a_volume_is_written_with_the_right_in_its_own_namespace() {
    let mut server = AclServer::start().await;
    let policy = rules([Capability("csi-write-volume"), PLUGIN], "other");
    let token = server.token(&policy).await;
    let volume = |namespace: &str| {
        let mut volume = volume_body("new");
        volume["Namespace"] = json!(namespace);
        volume
    };
    for (query, namespaces, expected) in [
        ("?namespace=other", &["default"][..], 403),
        ("?namespace=other", &["other", "default"], 403),
        ("", &[""], 403),
        ("?namespace=default", &["other"], 200),
    ] {
        let volumes: Vec<_> = namespaces.iter().map(|namespace| volume(namespace)).collect();
        let body = json!({"Volumes": volumes}).to_string();
        let line = format!("PUT /v1/volume/csi/new/create{query}");
        let answer = server.ask(&line, &body, Some(&token)).await;
        assert_eq!(answer.status, expected, "{query} {namespaces:?}: {}", answer.text());
    }
    let listed = server.ask("GET /v1/volumes?type=csi&namespace=*", "", Some(OPERATOR)).await;
    assert_eq!(listed.json().as_array().unwrap().len(), 1);
}

/// A job needs the rights for what it uses, also by a plan, and by a return to an earlier version.
#[tokio::test(start_paused = true)]
async fn a_job_needs_the_rights_for_its_volumes_and_plugins() {
    let mut server = AclServer::with_objects().await;
    let request = |(volume, plugin, host): (bool, bool, bool)| {
        let mut document = json!({"Job": job_to_wire(&job(&job_key("new")))});
        let group = &mut document["Job"]["TaskGroups"][0];
        if volume {
            group["Volumes"] = json!({"data": {"Name": "data", "Type": "csi", "Source": "db",
                "AccessMode": "single-node-writer", "AttachmentMode": "file-system"}});
        }
        if host {
            group["Volumes"] =
                json!({"scratch": {"Name": "scratch", "Type": "host", "Source": "scratch-1"}});
        }
        if plugin {
            group["Tasks"][0]["CSIPluginConfig"] =
                json!({"ID": "p", "Type": "monolith", "MountDir": "/csi"});
        }
        document.to_string()
    };
    let submit = Capability("submit-job");
    let mount = Capability("csi-mount-volume");
    for (volume, plugin, host, granted, expected) in [
        (false, false, false, vec![submit], ""),
        (true, false, false, vec![submit], "csi-mount-volume in namespace default"),
        (true, false, false, vec![submit, mount], "plugin read, because the job has CSI volumes"),
        (true, false, false, vec![submit, mount, PLUGIN], ""),
        (
            false,
            true,
            false,
            vec![submit, mount, PLUGIN],
            "csi-register-plugin in namespace default",
        ),
        (false, true, false, vec![submit, Capability("csi-register-plugin")], ""),
        (false, false, true, vec![submit, mount], "host_volume scratch-1 write"),
    ] {
        let token = server.token(&rules(granted, "default")).await;
        for line in ["PUT /v1/jobs", "PUT /v1/job/new/plan", "PUT /v1/job/new/placement"] {
            let (method, uri) = line.split_once(' ').unwrap();
            let sent = Request::builder().method(method).uri(uri);
            let sent = sent.header("X-Nomad-Token", &token).header("Accept", ErrorBody::MEDIA_TYPE);
            let mut sent = sent.body(Body::from(request((volume, plugin, host)))).unwrap();
            let place = ConnectionSlots::new(8, 8, 8).enter().await.unwrap();
            sent.extensions_mut().insert(Connection::new(Peer::Network, place));
            let found = answer(server.router.clone().oneshot(sent).await.unwrap()).await;
            match expected {
                "" => assert_ne!(found.status, 403, "{line}: {}", found.text()),
                needs => {
                    assert_eq!(found.status, 403, "{line}: {}", found.text());
                    let message = format!("the token does not grant {needs}");
                    assert!(found.text().contains(&message), "{line}: {}", found.text());
                }
            }
        }
    }
}

/// A list with `*` shows what its client may see, page by page, and a read by ID looks at the object's namespace.
#[tokio::test(start_paused = true)]
async fn lists_and_searches_show_what_the_client_may_see() {
    let mut server = AclServer::with_objects().await;
    for id in ["o1", "o2", "o3"] {
        let mut volume = volume_body(id);
        volume["Namespace"] = json!("other");
        let body = json!({"Volumes": [volume]});
        server.operate(&format!("PUT /v1/volume/csi/{id}/create"), &body).await;
    }
    let other = JobKey::new(Namespace::new("other"), "web2".into());
    server.agent.record_event(job_registered(&other)).await;
    let alloc = "55555555-2222-4333-8444-555555555555";
    server.agent.record_event(alloc_placed(&other, alloc, FakeAgent::NODE)).await;
    for (path, namespace) in [("a", "default"), ("b/c", "other"), ("b/d", "other")] {
        let body = json!({"Path": path, "Namespace": namespace, "Items": {"k": "v"}});
        server.operate(&format!("PUT /v1/var/{path}"), &body).await;
    }
    let policy = "namespace \"other\" { policy = \"read\"\n variables { path \"b/c\" { capabilities = [\"read\"] } } }\nnode { policy = \"read\" }";
    let token = server.token(policy).await;
    let ids = |answer: &Answer, key: &str| -> Vec<String> {
        let list = answer.json();
        let all = list.as_array().unwrap().iter();
        let mut all: Vec<_> = all.map(|one| one[key].as_str().unwrap().to_owned()).collect();
        all.dedup();
        all
    };
    for (line, key, expected) in [
        ("/v1/volumes?type=csi&namespace=*", "ID", vec!["o1", "o2", "o3"]),
        ("/v1/volumes?type=csi&namespace=*&per_page=2", "ID", vec!["o1", "o2"]),
        ("/v1/jobs?namespace=*", "ID", vec!["web2"]),
        ("/v1/allocations?namespace=*", "Namespace", vec!["other"]),
        ("/v1/evaluations?namespace=*", "Namespace", vec!["other"]),
        ("/v1/vars?namespace=*", "Path", vec!["b/c"]),
        ("/v1/vars", "Path", vec![]),
        ("/v1/namespaces", "Name", vec!["other"]),
        (&format!("/v1/node/{}/allocations", FakeAgent::NODE), "Namespace", vec!["other"]),
        ("/v1/volumes/claims?type=csi&namespace=*", "VolumeID", vec![]),
    ] {
        let answer = server.ask(&format!("GET {line}"), "", Some(&token)).await;
        assert_eq!(answer.status, 200, "{line}: {}", answer.text());
        assert_eq!(ids(&answer, key), expected, "{line}");
        let all = server.ask(&format!("GET {line}"), "", Some(OPERATOR)).await;
        if !line.contains("per_page") && !line.contains("claims") {
            assert!(ids(&all, key).len() > expected.len(), "{line}: the operator sees all");
        }
    }
    for (line, expected) in [
        (format!("GET /v1/allocation/{alloc}"), 200),
        (format!("GET /v1/allocation/{ALLOC}"), 403),
        ("GET /v1/volume/csi/db".to_owned(), 403),
        ("GET /v1/volume/csi/o1?namespace=other".to_owned(), 200),
        ("GET /v1/namespace/default".to_owned(), 403),
        ("GET /v1/namespace/other".to_owned(), 200),
        ("GET /v1/var/b/c?namespace=other".to_owned(), 200),
        ("GET /v1/var/b/d?namespace=other".to_owned(), 403),
        ("DELETE /v1/var/b/c?namespace=other".to_owned(), 403),
    ] {
        let answer = server.ask(&line, "", Some(&token)).await;
        assert_eq!(answer.status, expected, "{line}: {}", answer.text());
    }
    let search = json!({"Context": "all", "Namespace": "*"}).to_string();
    let found = server.ask("PUT /v1/search", &search, Some(&token)).await.json();
    let matches = &found["Matches"];
    assert_eq!(matches["volumes"], json!(["o1", "o2", "o3"]));
    assert_eq!(matches["jobs"], json!(["web2"]));
    let allocs = matches["allocs"].as_array().unwrap();
    assert!(allocs.contains(&json!(alloc)) && !allocs.contains(&json!(ALLOC)), "{allocs:?}");
    assert_eq!(matches["vars"], json!(["b/c"]));
    assert_eq!(matches["namespaces"], json!(["other"]));
    assert_eq!(matches["plugins"], json!([]));
    assert_eq!(matches["nodes"], json!([FakeAgent::NODE]));
    let nothing = server.ask("PUT /v1/search", &search, None).await.json();
    let matches = nothing["Matches"].as_object().unwrap();
    assert!(matches.values().all(|found| *found == json!([])), "{matches:?}");
}

/// Who may write a variable does not read what stands there.
#[tokio::test(start_paused = true)]
async fn a_writer_of_a_variable_does_not_see_its_items() {
    let mut server = AclServer::start().await;
    let body = json!({"Path": "a", "Items": {"k": "canary"}});
    server.operate("PUT /v1/var/a", &body).await;
    let rules = "namespace \"default\" { variables { path \"a\" { capabilities = [\"write\"] } } }";
    let token = server.token(rules).await;
    let mine = json!({"Path": "a", "Items": {"k": "mine"}}).to_string();
    let conflict = server.ask("PUT /v1/var/a?cas=1", &mine, Some(&token)).await;
    assert_eq!(conflict.status, 409);
    assert!(!conflict.text().contains("canary"), "{}", conflict.text());
    let written = server.ask("PUT /v1/var/a", &mine, Some(&token)).await;
    assert_eq!(written.status, 200);
    assert_eq!(server.ask("GET /v1/var/a", "", Some(&token)).await.status, 403);
}

async fn next_line(stream: &mut BodyDataStream) -> String {
    let part = stream.next().await.unwrap().unwrap();
    String::from_utf8(part.to_vec()).unwrap()
}

/// A stream shows what its client may see, and ends when its token is gone.
#[tokio::test(start_paused = true)]
async fn a_stream_follows_the_rights_of_its_token() {
    let mut server = AclServer::with_objects().await;
    let policy = "namespace \"other\" { policy = \"read\" }";
    let token = server.token(policy).await;
    let from = server.agent.cell.index() + 1;
    let line = format!("GET /v1/event/stream?namespace=*&index={from}");
    let response = server.response(&line, "", Some(&token)).await;
    let mut stream = response.into_body().into_data_stream();
    assert_eq!(next_line(&mut stream).await, "{}\n");
    server.agent.observe_plugin("unseen", true).await;
    create(&server.agent, "hidden").await;
    let mut volume = volume_body("seen");
    volume["Namespace"] = json!("other");
    server.operate("PUT /v1/volume/csi/seen/create", &json!({"Volumes": [volume]})).await;
    let shown = next_line(&mut stream).await;
    assert!(shown.contains("seen") && !shown.contains("hidden"), "{shown}");
    assert!(!shown.contains("CSIPlugin"), "{shown}");
    let tokens = server.ask("GET /v1/acl/tokens", "", Some(OPERATOR)).await.json();
    let accessor = tokens[0]["AccessorID"].as_str().unwrap();
    server.operate(&format!("DELETE /v1/acl/token/{accessor}"), &json!(null)).await;
    create(&server.agent, "after").await;
    let last = next_line(&mut stream).await;
    assert!(last.contains("the token of the stream is not valid any more"), "{last}");
    assert!(stream.next().await.is_none());
}

/// A query that waits shows what its token may see at the end.
#[tokio::test(start_paused = true)]
async fn a_query_that_waits_does_not_keep_what_was_taken_away() {
    let mut server = AclServer::with_objects().await;
    let token = server.token("namespace \"default\" { policy = \"read\" }").await;
    let index = server.agent.cell.index();
    let line = format!("GET /v1/volumes?type=csi&namespace=*&index={index}&wait=5m");
    let waiting = server.response(&line, "", Some(&token));
    let changes = async {
        tokio::task::yield_now().await;
        let rules = json!({"Rules": "namespace \"other\" { policy = \"read\" }"});
        server.operate("PUT /v1/acl/policy/policy-0", &rules).await;
        create(&server.agent, "second").await;
    };
    let (response, ()) = tokio::join!(waiting, changes);
    let answer = answer(response).await;
    assert_eq!((answer.status, answer.text()), (200, "[]"));
}

/// Every read that waits looks at the rights again when it answers.
#[tokio::test(start_paused = true)]
async fn every_query_that_waits_looks_at_the_rights_again() {
    let mut server = AclServer::with_objects().await;
    let before = "namespace \"default\" { policy = \"read\" }\nplugin { policy = \"read\" }\nnode { policy = \"read\" }";
    let token = server.token(before).await;
    let write = async |rules: &str| {
        server.operate("PUT /v1/acl/policy/policy-0", &json!({"Rules": rules})).await;
    };
    let node = format!("/v1/node/{}?", FakeAgent::NODE);
    for path in [
        "/v1/job/web?",
        "/v1/job/web/allocations?",
        "/v1/job/web/evaluations?",
        "/v1/job/web/versions?",
        "/v1/job/web/scale?",
        "/v1/jobs?",
        "/v1/allocations?",
        "/v1/volumes?type=csi&",
        "/v1/volume/csi/db?",
        "/v1/volume/csi/db/claims?",
        "/v1/plugins?type=csi&",
        "/v1/plugin/csi/fake?",
        "/v1/nodes?",
        &node,
    ] {
        write(before).await;
        let line = format!("GET {path}index=999999&wait=1m");
        let waiting = server.response(&line, "", Some(&token));
        let changes = async {
            tokio::task::yield_now().await;
            write("quota { policy = \"read\" }").await;
        };
        let (response, ()) = tokio::join!(waiting, changes);
        assert_eq!(response.status(), 403, "{line}");
    }
}

/// A body may arrive long after its head, and the token be gone by then.
#[tokio::test(start_paused = true)]
async fn a_token_that_goes_while_a_body_arrives_writes_nothing() {
    let server = AclServer::start().await;
    let token = server.management().await;
    let tokens = server.ask("GET /v1/acl/tokens", "", Some(OPERATOR)).await.json();
    let accessor = tokens[0]["AccessorID"].as_str().unwrap().to_owned();
    let (send, receive) = tokio::sync::oneshot::channel::<()>();
    let parts = futures_util::stream::once(async { Ok::<_, std::io::Error>("{\"Type\":") });
    let rest = futures_util::stream::once(async {
        receive.await.ok();
        Ok("\"management\"}")
    });
    let body = Body::from_stream(parts.chain(rest));
    let mut request =
        Request::put("/v1/acl/token").header("X-Nomad-Token", &token).body(body).unwrap();
    let place = ConnectionSlots::new(8, 8, 8).enter().await.unwrap();
    request.extensions_mut().insert(Connection::new(Peer::Network, place));
    let writing = server.router.clone().oneshot(request);
    let revoking = async {
        tokio::task::yield_now().await;
        server.operate(&format!("DELETE /v1/acl/token/{accessor}"), &json!(null)).await;
        send.send(()).unwrap();
    };
    let (response, ()) = tokio::join!(writing, revoking);
    assert_eq!(response.unwrap().status(), 403);
    let tokens = server.ask("GET /v1/acl/tokens", "", Some(OPERATOR)).await.json();
    assert_eq!(tokens, json!([]));
}

/// Who knows the ID of a lock can release it.
#[tokio::test(start_paused = true)]
async fn the_lock_of_a_variable_is_shown_to_its_owner_and_to_managers() {
    let mut server = AclServer::start().await;
    let rules = |words: &str| {
        format!(
            "namespace \"default\" {{ variables {{ path \"a\" {{ capabilities = [{words}] }} }} }}"
        )
    };
    let reader = server.token(&rules("\"read\", \"write\", \"list\"")).await;
    let lock = json!({"Path": "a", "Items": {"k": "v"}, "Lock": {"TTL": "15s", "LockDelay": "1s"}});
    let acquired = server.ask("PUT /v1/var/a?lock-acquire", &lock.to_string(), Some(&reader)).await;
    let id = acquired.json()["Lock"]["ID"].as_str().unwrap().to_owned();
    let write = json!({"Path": "a", "Items": {"k": "w"}}).to_string();
    for (line, body) in
        [("GET /v1/var/a", ""), ("GET /v1/vars", ""), ("PUT /v1/var/a?cas=1", write.as_str())]
    {
        let answer = server.ask(line, body, Some(&reader)).await;
        assert!(!answer.text().contains(&id), "{line}: {}", answer.text());
    }
    let seen = server.ask("GET /v1/var/a", "", Some(OPERATOR)).await;
    assert!(seen.text().contains(&id), "{}", seen.text());
}

/// Without an ACL nothing is known of tokens, and its endpoints say so as Nomad does.
#[tokio::test(start_paused = true)]
async fn without_an_acl_its_endpoints_say_so() {
    let agent = agent().await;
    for line in ["GET /v1/acl/token/self", "GET /v1/acl/policies", "GET /v1/acl/tokens"] {
        let answer = get(&agent, line.trim_start_matches("GET ")).await;
        assert_eq!((answer.status, answer.text()), (400, "ACL support disabled"), "{line}");
    }
    for (line, body) in [
        ("PUT /v1/acl/bootstrap", json!({})),
        ("PUT /v1/acl/token", json!({"Type": "management"})),
        ("PUT /v1/acl/policy/p", json!({"Rules": "node { policy = \"read\" }"})),
        ("DELETE /v1/acl/policy/p", json!({})),
        ("DELETE /v1/acl/token/t", json!({})),
    ] {
        let answer = send_line(&agent, line, &body.to_string()).await;
        assert_eq!((answer.status, answer.text()), (400, "ACL support disabled"), "{line}");
    }
}

/// A server whose configuration says nothing is not open when its cluster has an ACL.
#[tokio::test(start_paused = true)]
async fn a_server_without_the_setting_has_the_acl_of_its_cluster() {
    for first in ["PUT /v1/acl/bootstrap", "PUT /v1/acl/token"] {
        let server = AclServer::start().await;
        let silent = server.agent.services.clone();
        let line = "GET /v1/volumes?type=csi";
        let ask = async |services: &Services| {
            let router =
                router(services.clone(), HttpSettings::default(), OperatorAccess::default());
            let place = ConnectionSlots::new(8, 8, 8).enter().await.unwrap();
            let mut request =
                Request::get(line.trim_start_matches("GET ")).body(Body::empty()).unwrap();
            request.extensions_mut().insert(Connection::new(Peer::Network, place));
            router.oneshot(request).await.unwrap().status().as_u16()
        };
        assert_eq!(ask(&silent).await, 200);
        server.operate(first, &json!({"Type": "management"})).await;
        assert_eq!(ask(&silent).await, 403);
        let off = silent.with_acl(AclSettings { is_enabled: Some(false) });
        assert_eq!(ask(&off).await, 200, "switched off by an operator");
    }
}

/// A secret is in the response that makes the token and nowhere else.
#[tokio::test(start_paused = true)]
async fn a_secret_is_shown_once() {
    let server = AclServer::start().await;
    let first = server.operate("PUT /v1/acl/bootstrap", &json!({})).await.json();
    let secret = first["SecretID"].as_str().unwrap();
    let accessor = first["AccessorID"].as_str().unwrap();
    assert_eq!((&first["Type"], &first["Global"]), (&json!("management"), &json!(true)));
    let own = server.ask("GET /v1/acl/token/self", "", Some(secret)).await;
    assert_eq!(own.json()["SecretID"], json!(secret), "its bearer has it already");
    for line in ["GET /v1/acl/tokens", &format!("GET /v1/acl/token/{accessor}")] {
        let shown = server.ask(line, "", Some(secret)).await;
        assert!(shown.text().contains(accessor) && !shown.text().contains(secret), "{line}");
    }
    let events = server.agent.cell.read_events(0, 1000).await.unwrap();
    let journal = format!("{events:?}{}", serde_json::to_string(&events).unwrap());
    assert!(journal.contains(accessor) && !journal.contains(secret));
    let again = server.ask("PUT /v1/acl/bootstrap", "", Some(OPERATOR)).await;
    let index = &first["ModifyIndex"];
    let reset = again.text().to_owned();
    assert_eq!(again.status, 400);
    assert!(reset.starts_with("ACL bootstrap already done (reset index: "), "{reset} {index}");
}

/// What a client may say of a token, in Nomad's forms.
#[tokio::test(start_paused = true)]
async fn tokens_have_nomads_forms() {
    let server = AclServer::start().await;
    for (body, status, text) in [
        (json!({"Type": "client"}), 400, "client token missing policies or roles"),
        (json!({"Type": "management", "Policies": ["p"]}), 400, "management token cannot be"),
        (json!({"Type": "root"}), 400, "the token has type \"root\""),
        (json!({"Type": "client", "Policies": ["p"], "Roles": [{"ID": "r"}]}), 400, "no roles"),
        (json!({"Type": "management", "AccessorID": "mine"}), 400, "the server chooses it"),
        (json!({"Type": "management", "ExpirationTTL": "1s"}), 400, "less than a minute"),
        (json!({"Type": "management", "ExpirationTTL": "soon"}), 400, "is not a duration"),
        (
            json!({"Type": "management", "ExpirationTTL": -3_600_000_000_000_i64}),
            400,
            "is negative",
        ),
        (json!({"Type": "management", "ExpirationTime": "tomorrow"}), 400, "is not a time"),
        (json!({"Type": "management", "ExpirationTime": "2026-12-31"}), 400, "is not a time"),
        (
            json!({"Type": "management", "ExpirationTime": "0001-01-01T00:00:00Z"}),
            200,
            "\"ExpirationTime\":null",
        ),
        (json!({"Type": "management", "ExpirationTTL": "8h"}), 200, "2026-01-01T08:00:00Z"),
        (
            json!({"Type": "management", "ExpirationTTL": 3_600_000_000_000_u64}),
            200,
            "2026-01-01T01:00:00Z",
        ),
        (
            json!({"Type": "management", "ExpirationTime": "2026-01-02T00:00:00Z"}),
            200,
            "2026-01-02T00:00:00Z",
        ),
        (
            json!({"Type": "management", "ExpirationTime": "2020-01-02T00:00:00Z"}),
            400,
            "less than a minute",
        ),
    ] {
        let answer = server.ask("PUT /v1/acl/token", &body.to_string(), Some(OPERATOR)).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.text().contains(text), "{body}: {}", answer.text());
    }
    for (name, rules, text) in [
        ("p", "", "failed to parse rules: the policy has no rule"),
        ("p", "nodes { policy = \"read\" }", "`nodes` is not a rule of a policy"),
        ("a_b", "node { policy = \"read\" }", "invalid name 'a_b'"),
    ] {
        let line = format!("PUT /v1/acl/policy/{name}");
        let body = json!({"Rules": rules}).to_string();
        let answer = server.ask(&line, &body, Some(OPERATOR)).await;
        assert_eq!(answer.status, 400, "{rules}");
        assert!(answer.text().contains(text), "{rules}: {}", answer.text());
    }
}
