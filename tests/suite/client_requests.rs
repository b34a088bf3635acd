//! What the client sends: lines, headers and bodies (`nomad-http-api` 2.2, 2.3, 10.1).

use std::collections::BTreeMap;

use nomad_csi::model::{
    AccessMode, AttachmentMode, Capability, CapacityRange, ExternalId, MountOptions, Namespace,
    NamespacedId, PluginId, Secrets, VolumeId, VolumeRequest,
};
use nomad_csi::nomad::{Hidden, NomadClient, ProxySettings, Settings};
use nomad_csi::ports::{ApiError, VolumeApi as _, VolumeQuery, VolumeReader as _};

use crate::support::http_server::{Answer, Seen, Server, answer, json, text};

pub(crate) fn key(namespace: &str, id: &str) -> NamespacedId {
    NamespacedId::new(Namespace::new(namespace), VolumeId::new(id))
}

pub(crate) fn request(id: &str) -> VolumeRequest {
    VolumeRequest {
        namespace: Namespace::new("prod"),
        id: VolumeId::new(id),
        name: Some("database".into()),
        external_id: Some(ExternalId::new("vol-1")),
        plugin_id: PluginId::new("ebs0"),
        capabilities: vec![Capability {
            access_mode: AccessMode::SingleNodeWriter,
            attachment_mode: AttachmentMode::FileSystem,
        }],
        capacity: CapacityRange::default(),
        topology_request: None,
        clone_id: None,
        snapshot_id: None,
        mount_options: None,
        secrets: Some(Secrets::from_iter([("password", "hunter2")])),
        parameters: None,
        context: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
    }
}

pub(crate) fn query(namespace: &str) -> VolumeQuery {
    VolumeQuery {
        namespace: Namespace::new(namespace),
        prefix: None,
        plugin: None,
    }
}

/// Answers everything as Nomad would a volume `db 0` that exists.
fn nomad(seen: &Seen, _: usize) -> Answer {
    match (seen.method.as_str(), seen.target.split('?').next()) {
        ("GET", Some("/v1/volumes" | "/v1/plugins")) => json("[]"),
        ("GET", Some(path)) if path.starts_with("/v1/plugin/") => json(r#"{"ID":"p/1"}"#),
        ("GET", _) => json(r#"{"ID":"db[0] ü%"}"#),
        ("PUT", _) => json(r#"{"Volumes":[{"ID":"db0"}],"Warnings":""}"#),
        _ => answer(200, "application/json", &[], b""),
    }
}

#[tokio::test]
async fn every_call_is_one_request_with_its_namespace() {
    let server = Server::start(nomad).await;
    let client = server.client();
    let volume = key("prod", "db[0] ü%");
    let mut prefixed = query("prod");
    prefixed.prefix = Some("db&".into());
    client.list_volumes(&prefixed).await.expect("it lists");
    client.list_volumes(&query("*")).await.expect("it lists");
    client.read_volume(&volume).await.expect("it reads");
    client
        .deregister_volume(&volume, true)
        .await
        .expect("it deregisters");
    client
        .delete_volume(&volume, &Secrets::default())
        .await
        .expect("it deletes");
    client
        .register_volume(&request("db0"))
        .await
        .expect("it registers");
    client
        .create_volume(&request("db0"))
        .await
        .expect("it creates");
    client.list_plugins(Some("h")).await.expect("it lists");
    let lines: Vec<String> = server.seen().iter().map(Seen::line).collect();
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
async fn bodies_hold_a_users_fields_and_the_namespace() {
    let server = Server::start(nomad).await;
    let client = server.client();
    client
        .register_volume(&request("db0"))
        .await
        .expect("it registers");
    client
        .create_volume(&request("db0"))
        .await
        .expect("it creates");
    let seen = server.seen();
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
async fn settings_go_into_every_request() {
    let server = Server::start(nomad).await;
    let mut settings = Settings::new(format!("{}/ui?x=1", server.url()));
    settings.region = Some("eu".into());
    settings.namespace = Some("prod".into());
    settings.token = Some(Hidden::new(" 11111111-2222 "));
    settings.http_auth = Some(Hidden::new("me:pass:word"));
    let client = NomadClient::new(&settings).expect("the address is one");
    client.list_plugins(None).await.expect("it lists");
    client
        .read_volume(&key("other", "db[0] ü%"))
        .await
        .expect("it reads");
    let seen = server.seen();
    assert_eq!(
        seen[0].line(),
        "GET /v1/plugins?namespace=prod&region=eu&type=csi"
    );
    assert_eq!(
        seen[1].line(),
        "GET /v1/volume/csi/db%5B0%5D%20%C3%BC%25?namespace=other&region=eu"
    );
    for request in &seen {
        assert_eq!(request.header("x-nomad-token"), Some("11111111-2222"));
        assert_eq!(
            request.header("authorization"),
            Some("Basic bWU6cGFzczp3b3Jk")
        );
        assert_eq!(request.header("accept-encoding"), Some("gzip"));
        assert_eq!(
            request.header("accept"),
            Some("application/json, application/vnd.nomad-csi.error+json")
        );
        assert_eq!(
            request.header("host"),
            Some(server.address.to_string().as_str())
        );
    }
    let shown = format!("{settings:?} {client:?}");
    for secret in ["11111111", "pass:word"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn empty_settings_count_as_not_given() {
    let server = Server::start(nomad).await;
    let mut settings = Settings::new(server.url());
    settings.region = Some(String::new());
    settings.namespace = Some(String::new());
    settings.token = Some(Hidden::new(" "));
    settings.http_auth = Some(Hidden::new(""));
    settings.tls.server_name = Some(String::new());
    let client = NomadClient::new(&settings).expect("the address is one");
    client.list_plugins(None).await.expect("it lists");
    let seen = server.only();
    assert_eq!(seen.line(), "GET /v1/plugins?type=csi");
    assert_eq!(
        (seen.header("x-nomad-token"), seen.header("authorization")),
        (None, None)
    );
}

#[test]
fn what_cannot_be_sent_as_it_is_meant_is_refused_at_once() {
    let token = Settings {
        token: Some(Hidden::new("1111\n2222")),
        ..Settings::default()
    };
    let mut name = Settings::new("https://127.0.0.1:4646");
    name.tls.server_name = Some("no name".into());
    for (settings, says) in [
        (
            token,
            "the token has a character that no HTTP header can carry",
        ),
        (name, "the server name `no name` cannot be used for TLS"),
    ] {
        let error = NomadClient::new(&settings).expect_err(says);
        assert!(error.message.starts_with(says), "{}", error.message);
        assert!(!error.message.contains("1111"));
    }
}

#[tokio::test]
async fn the_addresss_user_wins_over_the_variables() {
    let server = Server::start(nomad).await;
    let mut settings = Settings::new(format!("http://you:p%40ss@{}", server.address));
    settings.http_auth = Some(Hidden::new("me:other"));
    let client = NomadClient::new(&settings).expect("the address is one");
    client.list_plugins(None).await.expect("it lists");
    assert_eq!(
        server.only().header("authorization"),
        Some("Basic eW91OnBAc3M=")
    );
    assert_eq!(client.name(), server.url());
    assert!(!format!("{settings:?} {client:?}").contains("p@ss"));
}

#[tokio::test]
async fn a_socket_is_spoken_to_as_nomads_client_does() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("api.sock");
    let server = Server::on_socket(&path, json("[]"));
    let settings = Settings::new(format!("unix://{}", path.display()));
    let client = NomadClient::new(&settings).expect("the address is one");
    client.list_plugins(None).await.expect("it lists");
    assert_eq!(server.only().line(), "GET /v1/plugins?type=csi");
    assert_eq!(server.only().header("host"), Some("127.0.0.1"));
    assert_eq!(client.name(), format!("unix://{}", path.display()));
}

#[tokio::test]
async fn a_delete_carries_its_secrets_in_the_header() {
    let server = Server::start(nomad).await;
    let secrets = Secrets::from_iter([("user", "me"), ("password", "a=b c")]);
    let deleted = server
        .client()
        .delete_volume(&key("default", "db0"), &secrets)
        .await;
    deleted.expect("it deletes");
    let seen = server.only();
    assert_eq!(
        seen.header("x-nomad-csi-secrets"),
        Some("password=a=b c,user=me")
    );
    assert_eq!(seen.body, "");
}

#[tokio::test]
async fn what_would_arrive_changed_or_elsewhere_is_not_sent() {
    let server = Server::start(nomad).await;
    let client = server.client();
    let mut failures: Vec<(&str, ApiError)> = vec![];
    for (id, says) in [
        ("", "it is empty"),
        ("a/b", "cannot address"),
        ("..", "remove `.` and `..`"),
        (".", "remove `.` and `..`"),
    ] {
        let volume = key("default", id);
        failures.push((says, client.read_volume(&volume).await.expect_err(id)));
        failures.push((
            says,
            client
                .deregister_volume(&volume, false)
                .await
                .expect_err(id),
        ));
        failures.push((
            says,
            client.create_volume(&request(id)).await.expect_err(id),
        ));
        let deleted = client.delete_volume(&volume, &Secrets::default()).await;
        failures.push((says, deleted.expect_err(id)));
        let plugin = client
            .read_plugin(&PluginId::new(id), &Namespace::default())
            .await;
        failures.push((says, plugin.expect_err(id)));
    }
    let comma = Secrets::from_iter([("password", "a,b")]);
    let deleted = client.delete_volume(&key("default", "db0"), &comma).await;
    failures.push(("contains `,`", deleted.expect_err("a comma")));
    let mut redacted = request("db0");
    redacted.mount_options = Some(MountOptions {
        fs_type: "ext4".into(),
        mount_flags: vec!["[REDACTED]".into()],
    });
    let registered = client.register_volume(&redacted).await;
    failures.push((
        "the mount flags are hidden",
        registered.expect_err("redacted"),
    ));
    for (says, error) in failures {
        assert!(error.message.contains(says), "{says}: {}", error.message);
        assert_eq!(error.status, None);
    }
    assert_eq!(server.seen(), []);
}

/// With `*`, Nomad finds no volume of a plugin; beside `plugin_id` it ignores a prefix (3.1).
#[tokio::test]
async fn volumes_of_a_plugin_are_found_in_all_namespaces_and_by_prefix() {
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
        };
        let listed = client.list_volumes(&query).await.expect("it lists");
        let ids = listed.iter().map(|volume| volume.value.id.to_string());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed("*", None, Some("ebs0")).await, ["a2", "a1", "b1"]);
    assert_eq!(listed("*", Some("a"), Some("ebs0")).await, ["a2", "a1"]);
    assert_eq!(listed("prod", Some("a"), Some("ebs0")).await, ["a1"]);
    assert_eq!(listed("prod", None, Some("ebs0")).await, ["a1", "b1"]);
    assert_eq!(listed("*", None, None).await, ["a2", "a1", "a3", "b1"]);
    let lines: Vec<String> = server.seen().iter().map(Seen::line).collect();
    let asked: Vec<bool> = lines
        .iter()
        .map(|line| line.contains("plugin_id=ebs0"))
        .collect();
    assert_eq!(asked, [false, false, false, true, false]);
}

#[tokio::test]
async fn a_proxy_is_asked_for_hosts_that_are_not_this_machine() {
    let proxy = Server::always(json("[]")).await;
    let client = |address: &str| {
        let mut settings = Settings::new(address);
        settings.proxies = ProxySettings {
            http: Some(Hidden::new(proxy.url())),
            https: None,
            none_for: Some("direct.invalid".into()),
        };
        NomadClient::new(&settings).expect("the address is one")
    };
    client("http://nomad.invalid:4646")
        .list_plugins(None)
        .await
        .expect("it lists");
    assert_eq!(
        proxy.only().line(),
        "GET http://nomad.invalid:4646/v1/plugins?type=csi"
    );
    let direct = client("http://direct.invalid:4646")
        .list_plugins(None)
        .await;
    assert!(direct.is_err());
    let local = Server::always(text(500, "here")).await;
    let here = client(&local.url()).list_plugins(None).await;
    assert_eq!(
        here.expect_err("it fails").server_text.as_deref(),
        Some("here")
    );
    assert_eq!(proxy.seen().len(), 1);
}
