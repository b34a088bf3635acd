//! The requests that the client sends: request lines, headers and bodies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier};

use futures_util::future::join_all;
use nomad_csi_client::nomad::{
    ClientSettings, NomadClient, ProxySettings, RedactedString, TokenSource,
};
use nomad_csi_client::ports::{ApiError, VolumeApi as _, VolumeQuery, VolumeReader as _};
use nomad_csi_model::{
    AccessMode, AttachmentMode, Bytes, Capability, CapacityRange, ExternalId, MountOptions,
    Namespace, NamespacedId, PluginId, Secrets, Topology, TopologyRequest, VolumeId, VolumeRequest,
};
use nomad_csi_spec::schema;
use nomad_csi_wire::{WriteKind, request_to_wire};

use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};

pub(crate) fn key(namespace: &str, id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::new(namespace), VolumeId::new(id))
}

pub(crate) fn request(id: &str) -> VolumeRequest {
    let capability = Capability {
        access_mode: AccessMode::SingleNodeWriter,
        attachment_mode: AttachmentMode::FileSystem,
    };
    VolumeRequest {
        name: Some("database".into()),
        external_id: Some(ExternalId::new("vol-1")),
        secrets: Some(Secrets::from_iter([("password", "hunter2")])),
        context: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        ..VolumeRequest::new(key("prod", id), PluginId::new("ebs0"), vec![capability])
    }
}

pub(crate) fn query(namespace: &str) -> VolumeQuery {
    VolumeQuery { namespace: Namespace::new(namespace), prefix: None, plugin: None, filter: None }
}

/// `explain`, suggestions and the decoder use the names of the schema; the client those of its JSON types.
#[test]
fn the_schema_names_every_field_of_a_request() {
    let topology = Topology { segments: [("zone".to_owned(), "a".to_owned())].into() };
    let one = Bytes::parse("1GiB").unwrap();
    let complete = VolumeRequest {
        capacity: CapacityRange { min: one, max: one },
        topology_request: Some(TopologyRequest {
            required: vec![topology.clone()],
            preferred: vec![topology],
        }),
        clone_id: Some("vol-0".into()),
        snapshot_id: Some("snap-0".into()),
        mount_options: Some(MountOptions {
            fs_type: "ext4".into(),
            mount_flags: vec!["noatime".into()],
        }),
        parameters: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        ..request("db")
    };
    let document = request_to_wire(&complete, WriteKind::Register).unwrap();
    let document = serde_json::to_value(document).unwrap();
    let tables = [
        (&document, schema::VOLUME),
        (&document["RequestedCapabilities"][0], schema::CAPABILITY),
        (&document["MountOptions"], schema::MOUNT_OPTIONS),
        (&document["RequestedTopologies"], schema::TOPOLOGY_REQUEST),
    ];
    for (document, table) in tables {
        let sent: BTreeSet<&str> =
            document.as_object().unwrap().keys().map(String::as_str).collect();
        let named = table.iter().map(|field| field.api).filter(|name| !name.is_empty());
        assert_eq!(sent, named.collect());
    }
}

/// Responds as a Nomad in which every requested object exists.
fn nomad(seen: &ReceivedRequest, _: usize) -> Reply {
    match (seen.method.as_str(), seen.target.split('?').next()) {
        ("GET", Some("/v1/volumes" | "/v1/plugins")) => json("[]"),
        ("GET", Some(path)) if path.starts_with("/v1/plugin/") => json(r#"{"ID":"p/1"}"#),
        ("GET", _) => json(r#"{"ID":"db[0] ü%"}"#),
        ("PUT", _) => json(r#"{"Volumes":[{"ID":"db0"}],"Warnings":""}"#),
        _ => response(200, "application/json", &[], b""),
    }
}

#[tokio::test]
async fn every_call_is_one_request_with_a_namespace() {
    let server = Server::start(nomad).await;
    let client = server.client();
    let volume = key("prod", "db[0] ü%");
    let mut prefixed = query("prod");
    prefixed.prefix = Some("db&".into());
    client.list_volumes(&prefixed).await.expect("the list succeeds");
    client.list_volumes(&query("*")).await.expect("the list succeeds");
    client.read_volume(&volume).await.expect("the read succeeds");
    client.deregister_volume(&volume, true).await.expect("the deregistration succeeds");
    client.delete_volume(&volume, &Secrets::default()).await.expect("the delete succeeds");
    client.register_volume(&request("db0")).await.expect("the registration succeeds");
    client.create_volume(&request("db0")).await.expect("the creation succeeds");
    client.list_plugins(Some("h")).await.expect("the list succeeds");
    let lines: Vec<String> = server.requests().iter().map(ReceivedRequest::line).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/volumes?namespace=prod&per_page=2000&prefix=db%26&type=csi",
            "GET /v1/volumes?namespace=*&per_page=2000&type=csi",
            "GET /v1/volume/csi/db%5B0%5D%20%C3%BC%25?namespace=prod",
            "DELETE /v1/volume/csi/db%5B0%5D%20%C3%BC%25?force=true&namespace=prod",
            "DELETE /v1/volume/csi/db%5B0%5D%20%C3%BC%25/delete?namespace=prod",
            "PUT /v1/volume/csi/db0?namespace=prod",
            "PUT /v1/volume/csi/db0/create?namespace=prod",
            "GET /v1/plugins?prefix=h&type=csi",
        ]
    );
}

#[tokio::test]
async fn bodies_contain_the_users_fields_and_the_namespace() {
    let server = Server::start(nomad).await;
    let client = server.client();
    client.register_volume(&request("db0")).await.expect("the registration succeeds");
    client.create_volume(&request("db0")).await.expect("the creation succeeds");
    let seen = server.requests();
    let capability = r#"[{"AccessMode":"single-node-writer","AttachmentMode":"file-system"}]"#;
    let rest = format!(
        r#""ID":"db0","MountOptions":{{"FSType":"","MountFlags":null}},"Name":"database","Namespace":"prod","PluginID":"ebs0","RequestedCapabilities":{capability},"Secrets":{{"password":"hunter2"}}}}]}}"#
    );
    let register = format!(r#"{{"Volumes":[{{"Context":{{"k":"v"}},"ExternalID":"vol-1",{rest}"#);
    assert_eq!(seen[0].body, register);
    assert_eq!(seen[1].body, format!(r#"{{"Volumes":[{{{rest}"#));
    assert_eq!(seen[0].header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn every_request_carries_the_settings() {
    let server = Server::start(nomad).await;
    let mut settings = ClientSettings::new(format!("{}/ui?x=1", server.url()));
    settings.region = Some("eu".into());
    settings.namespace = Some("prod".into());
    settings.token = Some(RedactedString::new(" 11111111-2222 "));
    settings.http_auth = Some(RedactedString::new("me:pass:word"));
    let client = NomadClient::new(&settings).expect("the address is valid");
    client.list_plugins(None).await.expect("the list succeeds");
    client.read_volume(&key("other", "db[0] ü%")).await.expect("the read succeeds");
    let seen = server.requests();
    assert_eq!(seen[0].line(), "GET /v1/plugins?namespace=prod&region=eu&type=csi");
    assert_eq!(
        seen[1].line(),
        "GET /v1/volume/csi/db%5B0%5D%20%C3%BC%25?namespace=other&region=eu"
    );
    for request in &seen {
        assert_eq!(request.header("x-nomad-token"), Some("11111111-2222"));
        assert_eq!(request.header("authorization"), Some("Basic bWU6cGFzczp3b3Jk"));
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
        assert_eq!(
            request.header("accept"),
            Some("application/json, application/vnd.nomad-csi.error+json")
        );
        assert_eq!(request.header("host"), Some(server.address.to_string().as_str()));
    }
    let shown = format!("{settings:?} {client:?}");
    for secret in ["11111111", "pass:word"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn empty_settings_count_as_unset() {
    let server = Server::start(nomad).await;
    let mut settings = ClientSettings::new(server.url());
    settings.region = Some(String::new());
    settings.namespace = Some(String::new());
    settings.token = Some(RedactedString::new(" "));
    settings.http_auth = Some(RedactedString::new(""));
    settings.tls.server_name = Some(String::new());
    let client = NomadClient::new(&settings).expect("the address is valid");
    client.list_plugins(None).await.expect("the list succeeds");
    let seen = server.only_request();
    assert_eq!(seen.line(), "GET /v1/plugins?type=csi");
    assert_eq!((seen.header("x-nomad-token"), seen.header("authorization")), (None, None));
}

#[test]
fn settings_that_http_cannot_carry_are_refused() {
    let token = ClientSettings {
        token: Some(RedactedString::new("1111\n2222")),
        ..ClientSettings::default()
    };
    let mut name = ClientSettings::new("https://127.0.0.1:4646");
    name.tls.server_name = Some("no name".into());
    for (settings, reason) in [
        (token, "the token contains a character that an HTTP header cannot carry"),
        (name, "cannot use the server name `no name` for TLS"),
    ] {
        let error = NomadClient::new(&settings).expect_err(reason);
        assert!(error.message.starts_with(reason), "{}", error.message);
        assert!(!error.message.contains("1111"));
    }
}

/// Finds the token of now, after as many requests were refused as the barrier waits for.
#[derive(Debug)]
struct TokenAfterAll(Barrier);

impl TokenSource for TokenAfterAll {
    fn current(&self) -> Option<RedactedString> {
        self.0.wait();
        Some(RedactedString::new("now"))
    }
}

/// The server was started again: the first refused request that looks the token up keeps it for the others, which were
/// sent before that too.
#[tokio::test]
async fn every_request_with_the_token_of_before_is_repeated_with_that_of_now() {
    const REQUESTS: usize = 8;
    let server = Server::start(|request, number| match request.header("x-nomad-token") {
        Some("now") => nomad(request, number),
        _ => text(403, "Permission denied"),
    })
    .await;
    let mut settings = ClientSettings::new(server.url());
    settings.token = Some(RedactedString::new("before"));
    settings.token_source = Some(Arc::new(TokenAfterAll(Barrier::new(REQUESTS))));
    let client = NomadClient::new(&settings).expect("the address is valid");
    let ids: Vec<String> = (0..REQUESTS).map(|number| format!("db{number}")).collect();
    let removals = ids.iter().map(|id| async {
        client.deregister_volume(&key("prod", id), false).await.map_err(|error| error.message)
    });
    assert_eq!(join_all(removals).await, vec![Ok(()); REQUESTS]);
    let mut sent: Vec<_> = server
        .requests()
        .iter()
        .map(|request| (request.line(), request.header("x-nomad-token").map(str::to_owned)))
        .collect();
    sent.sort();
    let expected = ids.iter().flat_map(|id| {
        let line = format!("DELETE /v1/volume/csi/{id}?force=false&namespace=prod");
        ["before", "now"].map(|token| (line.clone(), Some(token.to_owned())))
    });
    assert_eq!(sent, expected.collect::<Vec<_>>());
}

/// A token that its server refuses is not sent twice.
#[tokio::test]
async fn a_request_with_the_token_of_now_is_refused_once() {
    let server = Server::always(text(403, "Permission denied")).await;
    let mut settings = ClientSettings::new(server.url());
    settings.token = Some(RedactedString::new("now"));
    settings.token_source = Some(Arc::new(TokenAfterAll(Barrier::new(1))));
    let client = NomadClient::new(&settings).expect("the address is valid");
    let refused = client.deregister_volume(&key("prod", "db"), false).await;
    assert_eq!(refused.expect_err("it is refused").status, Some(403));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn the_user_in_the_address_takes_precedence() {
    let server = Server::start(nomad).await;
    let mut settings = ClientSettings::new(format!("http://you:p%40ss@{}", server.address));
    settings.http_auth = Some(RedactedString::new("me:other"));
    let client = NomadClient::new(&settings).expect("the address is valid");
    client.list_plugins(None).await.expect("the list succeeds");
    assert_eq!(server.only_request().header("authorization"), Some("Basic eW91OnBAc3M="));
    assert_eq!(client.name(), server.url());
    assert!(!format!("{settings:?} {client:?}").contains("p@ss"));
}

#[tokio::test]
async fn requests_through_a_socket_match_nomads_client() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("api.sock");
    let server = Server::on_socket(&path, json("[]"));
    let settings = ClientSettings::new(format!("unix://{}", path.display()));
    let client = NomadClient::new(&settings).expect("the address is valid");
    client.list_plugins(None).await.expect("the list succeeds");
    assert_eq!(server.only_request().line(), "GET /v1/plugins?type=csi");
    assert_eq!(server.only_request().header("host"), Some("127.0.0.1"));
    assert_eq!(client.name(), format!("unix://{}", path.display()));
}

#[tokio::test]
async fn a_delete_carries_secrets_in_the_header() {
    let server = Server::start(nomad).await;
    let secrets = Secrets::from_iter([("user", "me"), ("password", "a=b c")]);
    let deleted = server.client().delete_volume(&key("default", "db0"), &secrets).await;
    deleted.expect("the delete succeeds");
    let seen = server.only_request();
    assert_eq!(seen.header("x-nomad-csi-secrets"), Some("password=a=b c,user=me"));
    assert_eq!(seen.body, "");
}

#[tokio::test]
async fn requests_that_would_arrive_changed_are_not_sent() {
    let server = Server::start(nomad).await;
    let client = server.client();
    let mut failures: Vec<(&str, ApiError)> = vec![];
    for (id, reason) in [
        ("", "it is empty"),
        ("a/b", "cannot address"),
        ("..", "remove `.` and `..`"),
        (".", "remove `.` and `..`"),
    ] {
        let volume = key("default", id);
        failures.push((reason, client.read_volume(&volume).await.expect_err(id)));
        failures.push((reason, client.deregister_volume(&volume, false).await.expect_err(id)));
        failures.push((reason, client.create_volume(&request(id)).await.expect_err(id)));
        let deleted = client.delete_volume(&volume, &Secrets::default()).await;
        failures.push((reason, deleted.expect_err(id)));
        let plugin = client.read_plugin(&PluginId::new(id), &Namespace::default()).await;
        failures.push((reason, plugin.expect_err(id)));
    }
    let comma = Secrets::from_iter([("password", "a,b")]);
    let deleted = client.delete_volume(&key("default", "db0"), &comma).await;
    failures.push(("contains `,`", deleted.expect_err("a comma")));
    let mut redacted = request("db0");
    redacted.mount_options =
        Some(MountOptions { fs_type: "ext4".into(), mount_flags: vec!["[REDACTED]".into()] });
    let registered = client.register_volume(&redacted).await;
    failures.push(("hides the mount flags", registered.expect_err("redacted")));
    for (reason, error) in failures {
        assert!(error.message.contains(reason), "{reason}: {}", error.message);
        assert_eq!(error.status, None);
    }
    assert_eq!(server.requests(), []);
}

/// Nomad finds no volume by plugin in namespace `*`, and ignores a prefix beside `plugin_id`.
#[tokio::test]
async fn volumes_are_filtered_by_plugin_namespace_and_prefix() {
    let stubs = r#"[{"ID":"b1","Namespace":"prod","PluginID":"ebs0"},
        {"ID":"a1","Namespace":"prod","PluginID":"ebs0"},{"ID":"a2","Namespace":"dev","PluginID":"ebs0"},
        {"ID":"a3","Namespace":"prod","PluginID":"nfs"}]"#;
    let server = Server::always(json(stubs)).await;
    let client = server.client();
    let listed = async |namespace: &str, prefix: Option<&str>, plugin: Option<&str>| {
        let query = VolumeQuery {
            namespace: Namespace::new(namespace),
            prefix: prefix.map(str::to_owned),
            plugin: plugin.map(PluginId::new),
            filter: None,
        };
        let listed = client.list_volumes(&query).await.expect("the list succeeds");
        let ids = listed.iter().map(|volume| volume.value.id.to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("*", None, Some("ebs0")).await, ["a2", "a1", "b1"]);
    assert_eq!(listed("*", Some("a"), Some("ebs0")).await, ["a2", "a1"]);
    assert_eq!(listed("prod", Some("a"), Some("ebs0")).await, ["a1"]);
    assert_eq!(listed("prod", None, Some("ebs0")).await, ["a1", "b1"]);
    assert_eq!(listed("*", None, None).await, ["a2", "a1", "a3", "b1"]);
    let lines: Vec<String> = server.requests().iter().map(ReceivedRequest::line).collect();
    let asked: Vec<bool> = lines.iter().map(|line| line.contains("plugin_id=ebs0")).collect();
    assert_eq!(asked, [false, false, false, true, false]);
}

#[tokio::test]
async fn a_proxy_receives_requests_to_other_hosts_only() {
    let proxy = Server::always(json("[]")).await;
    let client = |address: &str| {
        let mut settings = ClientSettings::new(address);
        settings.proxies = ProxySettings {
            http: Some(RedactedString::new(proxy.url())),
            https: None,
            no_proxy: Some("direct.invalid".into()),
        };
        NomadClient::new(&settings).expect("the address is valid")
    };
    client("http://nomad.invalid:4646").list_plugins(None).await.expect("the list succeeds");
    assert_eq!(proxy.only_request().line(), "GET http://nomad.invalid:4646/v1/plugins?type=csi");
    let direct = client("http://direct.invalid:4646").list_plugins(None).await;
    assert!(direct.is_err());
    let local = Server::always(text(500, "here")).await;
    let here = client(&local.url()).list_plugins(None).await;
    assert_eq!(here.expect_err("the request fails").server_text.as_deref(), Some("here"));
    assert_eq!(proxy.requests().len(), 1);
}
