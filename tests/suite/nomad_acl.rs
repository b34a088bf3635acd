//! Compares the predicted permissions of tokens with the responses of a real Nomad server.
//!
//! Tokens with different policies make every call, and the server must refuse exactly the predicted
//! ones. The tests need a server with ACLs over plain HTTP and a management token, so they are ignored
//! by default. They skip and report what an older server does not support. Policies and tokens are
//! named `nomad-csi-acl-…` and removed at the end.
//!
//!   `NOMAD_ADDR=http://127.0.0.1:4646 NOMAD_TOKEN=… cargo test --test suite nomad_acl -- --ignored`

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use nomad_csi_client::nomad::{ClientSettings, NomadClient, RedactedString};
use nomad_csi_client::ports::{ServerKind, TokenKind, VolumeReader as _};
use nomad_csi_client::reconcile::{Access, access};
use nomad_csi_model::{Namespace, SetName};
use nomad_csi_plan::{AclOperation, LedgerLocation, Permission, RequiredPermissions};
use serde_json::{Value, json};

const PLUGIN: &str = "plugin { policy = \"read\" }";

/// The policies of each token, in HCL or JSON, from all permissions to none.
const TOKENS: &[&[&str]] = &[
    &[
        "namespace \"*\" { policy = \"write\" variables { path \"*\" { capabilities = [\"list\", \"read\", \"write\", \"destroy\"] } } }",
        "plugin { policy = \"read\" } agent { policy = \"read\" }",
    ],
    &["namespace \"default\" { policy = \"write\" }", PLUGIN, "agent { policy = \"write\" }"],
    &["namespace \"def*\" { policy = \"write\" }"],
    &["namespace \"default\" { policy = \"write\" }", "plugin { policy = \"write\" }", PLUGIN],
    &["namespace \"default\" { policy = \"write\" }", "plugin { policy = \"list\" }"],
    &["namespace \"default\" { policy = \"read\" }", PLUGIN],
    &[
        "namespace \"*\" { policy = \"write\" }",
        "namespace \"default\" { policy = \"read\" }",
        PLUGIN,
    ],
    &["namespace \"default\" { capabilities = [\"csi-write-volume\"] }", PLUGIN],
    &["namespace \"default\" { capabilities = [\"csi-mount-volume\"] }", PLUGIN],
    &["namespace \"default\" { capabilities = [\"csi-list-volume\"] }"],
    &["namespace \"default\" { capabilities = [\"list-jobs\"] }"],
    &["namespace \"default\" { capabilities = [\"read-job\"] }"],
    &["namespace \"default\" { policy = \"scale\" }", PLUGIN],
    &["namespace \"default\" { policy = \"write\" capabilities = [\"deny\"] }", PLUGIN],
    &[
        "{\"namespace\": {\"default\": {\"policy\": \"read\", \"capabilities\": [\"csi-write-volume\"]}}, \"plugin\": {\"policy\": \"read\"}}",
    ],
    &["namespace \"default\" { variables { path \"nomad-csi/*\" { capabilities = [\"read\"] } } }"],
    &[
        "namespace \"default\" { variables { path \"nomad-csi/sets/*\" { capabilities = [\"write\"] } } }",
    ],
    &[
        "namespace \"default\" { variables { path \"nomad-csi/*\" { capabilities = [\"read\", \"write\"] } path \"nomad-csi/sets/acl/*\" { capabilities = [\"list\"] } } }",
    ],
    &["namespace \"other\" { policy = \"write\" }", "agent { policy = \"deny\" }"],
    &["node { policy = \"read\" }"],
];

struct Server {
    host: String,
}

impl Server {
    /// Returns the status and the body.
    fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).expect("the server listens");
        let body = body.map(Value::to_string).unwrap_or_default();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nX-Nomad-Token: {token}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.host,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("the server accepts the request");
        stream.write_all(body.as_bytes()).expect("the server accepts the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the server responds");
        let status = answer.get(9..12).and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status.expect("a response has a status"), body.to_owned())
    }
}

struct Call {
    name: &'static str,
    required: Vec<Permission>,
    method: &'static str,
    path: String,
    body: Option<Value>,
}

fn permissions(operation: AclOperation) -> Vec<Permission> {
    operation.permissions(&Namespace::default())
}

fn variable(set: &str, capability: &'static str) -> Vec<Permission> {
    let path = format!("nomad-csi/sets/{set}/*");
    vec![Permission::Variables(Namespace::default(), path, capability)]
}

/// Returns every call, with the variables of this set.
fn calls(set: &str) -> Vec<Call> {
    let volume = || {
        json!({"Volumes": [{
            "ID": "nomad-csi-acl", "Name": "v", "PluginID": "nomad-csi-acl-none",
            "RequestedCapabilities": [
                {"AccessMode": "single-node-writer", "AttachmentMode": "file-system"}
            ],
        }]})
    };
    let call = |name, required, method, path: &str, body| Call {
        name,
        required,
        method,
        path: path.to_owned(),
        body,
    };
    let snapshot = json!({"Snapshots": [{"SourceVolumeID": "nomad-csi-acl", "Name": "s"}]});
    let head = &format!("/v1/var/nomad-csi/sets/{set}/head");
    let gone = &format!("/v1/var/nomad-csi/sets/{set}/gone");
    let stored = json!({"Path": format!("nomad-csi/sets/{set}/head"), "Items": {"a": "b"}});
    let read = permissions(AclOperation::Observe)
        .into_iter()
        .filter(|need| matches!(need, Permission::Volumes(..)))
        .collect();
    let id = "/v1/volume/csi/nomad-csi-acl";
    let node = "/v1/volume/csi/nomad-csi-acl/detach?node=11111111-1111-1111-1111-111111111111";
    vec![
        call("list", permissions(AclOperation::List), "GET", "/v1/volumes?type=csi", None),
        call("read", read, "GET", id, None),
        call("register", permissions(AclOperation::Write), "PUT", id, Some(volume())),
        call(
            "create",
            permissions(AclOperation::Write),
            "PUT",
            "/v1/volume/csi/nomad-csi-acl/create",
            Some(volume()),
        ),
        call("deregister", permissions(AclOperation::Deregister), "DELETE", id, None),
        call(
            "delete",
            permissions(AclOperation::Delete),
            "DELETE",
            "/v1/volume/csi/nomad-csi-acl/delete",
            None,
        ),
        call("detach", permissions(AclOperation::Detach), "DELETE", node, None),
        call(
            "snapshot",
            permissions(AclOperation::Snapshot),
            "PUT",
            "/v1/volumes/snapshot",
            Some(snapshot),
        ),
        call("list plugins", vec![Permission::ListPlugins], "GET", "/v1/plugins?type=csi", None),
        call(
            "read plugin",
            vec![Permission::ReadPlugins],
            "GET",
            "/v1/plugin/csi/nomad-csi-acl-none",
            None,
        ),
        call("agent", vec![Permission::ReadAgent], "GET", "/v1/agent/self", None),
        call("read variable", variable(set, "read"), "GET", head, None),
        call("write variable", variable(set, "write"), "PUT", head, Some(stored)),
        call("delete variable", variable(set, "destroy"), "DELETE", gone, None),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Nomad server with ACLs: NOMAD_ADDR and NOMAD_TOKEN"]
async fn a_server_refuses_exactly_the_predicted_calls() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (address, management) = (variable("NOMAD_ADDR"), variable("NOMAD_TOKEN"));
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let server = Server { host: host.into() };
    let client = |token: &str| {
        let token = Some(RedactedString::new(token));
        let settings = ClientSettings { token, ..ClientSettings::new(address.as_str()) };
        NomadClient::new(&settings).expect("the address is valid")
    };
    let all = access(&client(&management)).await.expect("the token is valid");
    assert!(matches!(all.owner, TokenKind::Management { .. }), "{all:?}");

    let kind = client(&management).server().await.expect("the server responds");
    let is_before_2_0 =
        matches!(&kind, ServerKind::Nomad(version) if !version.is_at_least(2, 0, 0));
    let mut wrong = vec![];
    let mut refused = 0;
    for (at, rules) in TOKENS.iter().enumerate() {
        if is_before_2_0 && rules[0].contains("scale") {
            report_skipped(rules[0], "before 2.0 the policy `scale` does not grant reading");
            continue;
        }
        let Some(created) = create_token(&server, &management, at, rules) else {
            continue;
        };
        let found = access(&client(&created.secret)).await.expect("the token is valid");
        for call in calls("acl") {
            let (status, text) =
                server.ask(&created.secret, call.method, &call.path, call.body.as_ref());
            let is_refused = status == 403;
            refused += usize::from(is_refused);
            if is_refused == predicted(&found, &call) {
                wrong.push(format!("{rules:?}: {} answered {status} {text}", call.name));
            }
        }
        // A list omits the variables that the token cannot see.
        let path = "/v1/vars?prefix=nomad-csi/sets/acl/";
        server.ask(
            &management,
            "PUT",
            "/v1/var/nomad-csi/sets/acl/head",
            calls("acl")[12].body.as_ref(),
        );
        let (_, listed) = server.ask(&created.secret, "GET", path, None);
        let list = Call {
            name: "list variables",
            required: self::variable("acl", "list"),
            method: "",
            path: path.to_owned(),
            body: None,
        };
        if listed.contains("sets/acl/head") != predicted(&found, &list) {
            wrong.push(format!("{rules:?}: the list of variables was {listed}"));
        }
        created.remove(&server, &management);
    }
    server.ask(&management, "DELETE", "/v1/var/nomad-csi/sets/acl/head", None);
    assert!(refused > TOKENS.len(), "the server refused too few calls");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The smallest policy grants every needed call and no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Nomad server with ACLs: NOMAD_ADDR and NOMAD_TOKEN"]
async fn the_smallest_policy_is_sufficient() {
    let variable = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"));
    let (address, management) = (variable("NOMAD_ADDR"), variable("NOMAD_TOKEN"));
    let host = address.trim_start_matches("http://").trim_end_matches('/');
    let server = Server { host: host.into() };
    let mut needs = RequiredPermissions::default();
    needs.add(AclOperation::Observe, &Namespace::default());
    needs.add(AclOperation::Write, &Namespace::default());
    needs.add_ledger(&LedgerLocation {
        namespace: Namespace::default(),
        set: SetName::parse("acl-paste").expect("the name is valid"),
    });
    let created = create_token(&server, &management, 99, &[&needs.policy()])
        .expect("every server accepts the policy");
    let token = Some(RedactedString::new(created.secret.as_str()));
    let settings = ClientSettings { token, ..ClientSettings::new(address.as_str()) };
    let client = NomadClient::new(&settings).expect("the address is valid");
    let found = access(&client).await.expect("the token is valid");
    assert!(needs.missing(&found.grants).is_empty(), "{found:?}");
    for call in calls("acl-paste") {
        let (status, text) =
            server.ask(&created.secret, call.method, &call.path, call.body.as_ref());
        let desired = !matches!(call.name, "detach" | "agent");
        assert_eq!(status != 403, desired, "{}: {status} {text}", call.name);
    }
    created.remove(&server, &management);
    server.ask(&management, "DELETE", "/v1/var/nomad-csi/sets/acl-paste/head", None);
}

/// Returns whether the server should allow a call.
fn predicted(access: &Access, call: &Call) -> bool {
    call.required.iter().all(|need| access.grants.allows(need) == Some(true))
}

struct TestToken {
    secret: String,
    accessor: String,
    policies: Vec<String>,
}

impl TestToken {
    fn remove(&self, server: &Server, management: &str) {
        let token = format!("/v1/acl/token/{}", self.accessor);
        server.ask(management, "DELETE", &token, None);
        for policy in &self.policies {
            server.ask(management, "DELETE", &format!("/v1/acl/policy/{policy}"), None);
        }
    }
}

/// Creates a token with one policy for each of these rules.
fn create_token(server: &Server, management: &str, at: usize, rules: &[&str]) -> Option<TestToken> {
    let mut policies = vec![];
    for (part, rules) in rules.iter().enumerate() {
        let name = format!("nomad-csi-acl-{at}-{part}");
        let body = json!({"Name": name, "Rules": rules});
        let path = format!("/v1/acl/policy/{name}");
        let (status, text) = server.ask(management, "PUT", &path, Some(&body));
        if status == 400 && text.contains("Invalid plugin policy") {
            report_skipped(rules, "this server does not support the policy");
            for name in &policies {
                let path = format!("/v1/acl/policy/{name}");
                server.ask(management, "DELETE", &path, None);
            }
            return None;
        }
        assert_eq!(status, 200, "{rules}: {text}");
        policies.push(name);
    }
    let body = json!({"Name": "nomad-csi-acl", "Type": "client", "Policies": policies});
    let (status, text) = server.ask(management, "PUT", "/v1/acl/token", Some(&body));
    assert_eq!(status, 200, "{text}");
    let start = text.find('{').unwrap_or_default();
    let end = text.rfind('}').map_or(text.len(), |end| end + 1);
    let token: Value = serde_json::from_str(&text[start..end]).expect("a token is JSON");
    let text = |key: &str| token[key].as_str().expect("a token has IDs").to_owned();
    Some(TestToken { secret: text("SecretID"), accessor: text("AccessorID"), policies })
}

#[expect(clippy::print_stderr, reason = "the operator must see the skipped cases")]
fn report_skipped(rules: &str, why: &str) {
    eprintln!("skipped: {rules}: {why}");
}
