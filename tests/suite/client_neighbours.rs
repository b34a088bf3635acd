//! Requests other than volumes: versions, external volumes, snapshots, tokens and blocking queries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nomad_csi_client::ports::{
    AccessReader as _, ProviderReader as _, ServerKind, SnapshotApi as _, SnapshotRequest,
    TokenKind, VolumeApi as _, VolumeReader as _, VolumeWatch as _, WatchRequest,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, NodeId, PluginId, Secrets, ServerVersion, SnapshotId};

use super::client_requests::{key, query};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};

fn path(seen: &ReceivedRequest) -> &str {
    seen.target.split('?').next().unwrap_or_default()
}

#[tokio::test]
async fn the_servers_version_is_read_if_the_token_may() {
    let version = |about: Reply, headers: &'static [(&str, &str)]| async move {
        let server = Server::start(move |seen, _| match path(seen) {
            "/v1/regions" => response(200, "application/json", headers, b"[]"),
            _ => about.clone(),
        })
        .await;
        server.client().server().await
    };
    let about = r#"{"config":{"Version":{"Version":"1.10.0","VersionPrerelease":"beta.1","VersionMetadata":"ent"}}}"#;
    let expected = ServerVersion::parse("1.10.0-beta.1+ent").expect("it is a version");
    assert_eq!(version(json(about), &[]).await, Ok(ServerKind::Nomad(expected)));
    let forbidden = text(403, "Permission denied");
    assert_eq!(version(forbidden.clone(), &[]).await, Ok(ServerKind::NomadUnknownVersion));
    let agent = &[("X-Nomad-CSI-Agent", "0.1.0")];
    assert_eq!(version(forbidden, agent).await, Ok(ServerKind::Agent));
    let odd = version(json("{}"), &[]).await.expect_err("the response has no version");
    assert_eq!(odd.code, Code::ApiNotNomad);
    let down = version(text(500, "No path to region"), &[]).await;
    assert_eq!(down.expect_err("it failed").code, Code::ApiUnknownRegion);
}

/// Nomad truncates the plugin's pages to a page size, and the rest is lost (W29).
#[tokio::test]
async fn external_volumes_are_read_in_the_plugins_pages() {
    let server = Server::start(|seen, _| {
        let (volumes, next) = if seen.target.contains("next_token=t%2F1") {
            (r#"[{"ExternalID":"a"},{"ExternalID":"c"}]"#, "")
        } else {
            (r#"[{"ExternalID":"c"},{"ExternalID":"b"}]"#, "t/1")
        };
        json(&format!(r#"{{"Volumes":{volumes},"NextToken":"{next}"}}"#))
    })
    .await;
    let plugin = PluginId::new("ebs0");
    let listed = server
        .client()
        .list_external_volumes(&plugin, &Namespace::default())
        .await
        .expect("the list succeeds");
    let ids: Vec<&str> = listed.iter().map(|volume| volume.external_id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let lines: Vec<String> = server.requests().iter().map(ReceivedRequest::line).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/volumes/external?namespace=default&plugin_id=ebs0",
            "GET /v1/volumes/external?namespace=default&next_token=t%2F1&plugin_id=ebs0",
        ]
    );

    let circle = Server::always(json(r#"{"Volumes":[],"NextToken":"again"}"#)).await;
    let listed = circle.client().list_external_volumes(&plugin, &Namespace::default()).await;
    assert_eq!(listed.expect_err("the list never ends").code, Code::ApiNotNomad);
}

/// Create Snapshot carries secrets in the body, the other requests in a header.
#[tokio::test]
async fn snapshots_are_created_listed_and_deleted_with_secrets() {
    let server = Server::start(|seen, _| match seen.method.as_str() {
        "DELETE" => response(200, "application/json", &[], b""),
        _ => json(
            r#"{"Snapshots":[{"ID":"s1","ExternalSourceVolumeID":"v","CreateTime":5,"SizeBytes":7},{"ID":"s2","CreateTime":9}],"NextToken":""}"#,
        ),
    })
    .await;
    let client = server.client();
    let secrets = Secrets::from_iter([("token", "hunter2")]);
    let plugin = PluginId::new("ebs0");
    let listed = client
        .list_snapshots(&plugin, &Namespace::new("prod"), &secrets)
        .await
        .expect("the list succeeds");
    let ids: Vec<&str> = listed.iter().map(|snapshot| snapshot.id.as_str()).collect();
    assert_eq!(ids, ["s2", "s1"], "the latest first");
    let request = SnapshotRequest {
        volume: key("prod", "db0"),
        plugin_id: plugin.clone(),
        name: "nightly".into(),
        parameters: BTreeMap::new(),
        secrets: secrets.clone(),
    };
    let created = client.create_snapshot(&request).await.expect("the snapshot is created");
    assert_eq!((created.id.as_str(), created.size.get()), ("s1", 7));
    client
        .delete_snapshot(&plugin, &Namespace::new("prod"), &SnapshotId::new("s1"), &secrets)
        .await
        .expect("the snapshot is deleted");
    let seen = server.requests();
    let lines: Vec<String> = seen.iter().map(ReceivedRequest::line).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/volumes/snapshot?namespace=prod&plugin_id=ebs0",
            "PUT /v1/volumes/snapshot?namespace=prod",
            "DELETE /v1/volumes/snapshot?namespace=prod&plugin_id=ebs0&snapshot_id=s1",
        ]
    );
    let headers: Vec<_> = seen.iter().map(|seen| seen.header("x-nomad-csi-secrets")).collect();
    assert_eq!(headers, [Some("token=hunter2"), None, Some("token=hunter2")]);
    assert!(seen[1].body.contains(r#""Secrets":{"token":"hunter2"}"#), "{}", seen[1].body);
    assert!(seen[1].body.contains(r#""SourceVolumeID":"db0""#), "{}", seen[1].body);
}

#[tokio::test]
async fn a_detach_request_names_the_node() {
    let server = Server::always(response(200, "application/json", &[], b"")).await;
    let detached = server.client().detach_volume(&key("prod", "db0"), &NodeId::new("n1")).await;
    assert_eq!(detached, Ok(()));
    assert_eq!(
        server.only_request().line(),
        "DELETE /v1/volume/csi/db0/detach?namespace=prod&node=n1"
    );
}

#[tokio::test]
async fn the_kind_of_token_is_read_from_every_version() {
    let client = |policies: &[&str]| TokenKind::Client {
        name: "ci".into(),
        policies: policies.iter().map(ToString::to_string).collect(),
    };
    for (given, expected) in [
        (
            json(r#"{"AccessorID":"acls-disabled","Name":"ACLs disabled token","Type":"client"}"#),
            TokenKind::AclDisabled,
        ),
        (text(400, "ACL support disabled"), TokenKind::AclDisabled),
        (text(404, "ACL token not found"), TokenKind::Workload),
        (
            json(r#"{"AccessorID":"7c","Name":"root","Type":"management","Policies":null}"#),
            TokenKind::Management { name: "root".into() },
        ),
        (
            json(r#"{"AccessorID":"7c","Name":"ci","Type":"client","Policies":["b","a"]}"#),
            client(&["a", "b"]),
        ),
    ] {
        let server = Server::always(given.clone()).await;
        assert_eq!(server.client().token().await, Ok(expected), "{given:?}");
    }
    let unknown = Server::always(text(403, "Permission denied")).await;
    let refused = unknown.client().token().await.expect_err("the token is unknown");
    assert_eq!(refused.code, Code::ApiForbidden);
    let expired = Server::always(text(500, "ACL token expired")).await;
    let refused = expired.client().token().await.expect_err("the token has expired");
    assert_eq!(refused.code, Code::ApiUnknownToken);
}

#[tokio::test]
async fn policies_are_read_with_rules_and_namespaces_with_names() {
    let server = Server::start(|seen, _| match path(seen) {
        "/v1/acl/policies" => json(r#"[{"Name":"gone"},{"Name":"ci"}]"#),
        "/v1/acl/policy/ci" => json(r#"{"Name":"ci","Rules":"plugin { policy = \"read\" }"}"#),
        "/v1/namespaces" => json(r#"[{"Name":"prod"},{"Name":"default"}]"#),
        _ => text(404, "ACL policy not found"),
    })
    .await;
    let client = server.client();
    let policies = client.policies().await.expect("the policies are read");
    let rules: Vec<&str> = policies.iter().map(|policy| policy.rules.as_str()).collect();
    assert_eq!(rules, [r#"plugin { policy = "read" }"#]);
    let namespaces = client.namespaces().await.expect("the namespaces are listed");
    let expected = ["default", "prod"].map(Namespace::new);
    assert_eq!(namespaces, BTreeSet::from(expected));
    let open = Server::always(text(400, "ACL support disabled")).await;
    assert_eq!(open.client().policies().await, Ok(vec![]));
}

#[tokio::test]
async fn blocking_queries_send_the_index_and_report_changes() {
    let answers = |index: &str, body: &str, status: u16| {
        response(status, "application/json", &[("X-Nomad-Index", index)], body.as_bytes())
    };
    let max_wait = Duration::from_secs(5);
    for (asked, answered, sent, expected) in [
        (None, "7", "GET /v1/volumes?namespace=prod&type=csi", (7, true)),
        (Some(7), "7", "GET /v1/volumes?index=7&namespace=prod&type=csi&wait=5000ms", (7, false)),
        (Some(7), "9", "GET /v1/volumes?index=7&namespace=prod&type=csi&wait=5000ms", (9, true)),
        (Some(0), "0", "GET /v1/volumes?index=1&namespace=prod&type=csi&wait=5000ms", (1, false)),
        (Some(7), "3", "GET /v1/volumes?index=7&namespace=prod&type=csi&wait=5000ms", (3, true)),
    ] {
        let server = Server::always(answers(answered, "[]", 200)).await;
        let wait = WatchRequest { index: asked, max_wait };
        let watched = server.client().watch_volumes(&query("prod"), wait).await;
        let watched = watched.expect("the server responds");
        assert_eq!((watched.index, watched.changed), expected, "{asked:?} {answered}");
        assert_eq!(server.only_request().line(), sent);
    }
    let gone = response(404, "text/plain", &[("X-Nomad-Index", "12")], b"volume not found");
    let server = Server::always(gone).await;
    let wait = WatchRequest { index: Some(4), max_wait };
    let watched = server.client().watch_volume(&key("prod", "db0"), wait).await;
    let watched = watched.expect("the server responds");
    assert_eq!((watched.value, watched.index, watched.changed), (None, 12, true));
}
