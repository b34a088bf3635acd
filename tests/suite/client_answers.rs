//! How the client interprets responses of every Nomad, of the embedded agent and of other servers.

use nomad_csi_client::nomad::{ClientSettings, NomadClient, RedactedString};
use nomad_csi_client::ports::{
    ApiError, ServerKind, VolumeApi as _, VolumeReader as _, WriteReply,
};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, PluginId, Secrets, ServerVersion};

use crate::client_requests::{key, query, request};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};

/// Returns the error of reading a volume.
async fn read_failure(given: Reply) -> ApiError {
    let server = Server::always(given).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    read.expect_err("the request fails")
}

async fn create(given: Reply) -> Result<WriteReply, ApiError> {
    let server = Server::always(given).await;
    let created = server.client().create_volume(&request("db0")).await;
    assert_eq!(server.requests().len(), 1, "a write is sent once");
    created
}

/// Each case: response, part of the message, server text.
#[tokio::test]
async fn responses_that_are_not_nomads_are_errors() {
    let html = "<!DOCTYPE html>\n<html><title>Login</title>\u{7}</html>";
    let page = || response(200, "text/html; charset=utf-8", &[], html.as_bytes());
    let shown = "<!DOCTYPE html> <html><title>Login</title></html>";
    let long = "x".repeat(2000);
    let cut = format!("{}…", "x".repeat(100));
    for (given, expected, server_text) in [
        (page(), "responded with a web page (200 OK)", Some(shown)),
        (
            response(200, "application/json", &[], html.as_bytes()),
            "responded with a web page (200 OK)",
            Some(shown),
        ),
        (
            response(404, "text/html", &[], html.as_bytes()),
            "responded with a web page (404 Not Found)",
            Some(shown),
        ),
        (json(""), "responded with an empty body (200 OK)", None),
        (json("  \n"), "responded with an empty body (200 OK)", None),
        (json(r#"{"ID":"db0","Na"#), "responded with truncated JSON", Some(r#"{"ID":"db0","Na"#)),
        (text(200, "Welcome"), "responded with a body that is not JSON (200 OK)", Some("Welcome")),
        (text(200, &long), "a body that is not JSON", Some(cut.as_str())),
        (json("[]"), "responded with unexpected JSON (invalid type: sequence", None),
        (
            json(r#"{"ID":"db0","Capacity":"big"}"#),
            "responded with unexpected JSON (Capacity: invalid type: string \"big\", expected i64)",
            None,
        ),
        (json(r#"{"ok":true}"#), "responded with ``", None),
        (json(r#"{"ID":"other"}"#), "responded with `other`", None),
        (
            text(404, "404 page not found"),
            "does not have this endpoint",
            Some("404 page not found"),
        ),
        (
            text(404, "resource not found"),
            "does not have this endpoint",
            Some("resource not found"),
        ),
        (text(405, "Invalid method"), "does not have this endpoint", Some("Invalid method")),
        (text(202, "{}"), "a status that Nomad never sends (202 Accepted)", Some("{}")),
        (
            response(302, "text/html", &[("Location", "https://sso.example/")], b""),
            "redirects to `https://sso.example/`, and redirects are not followed",
            None,
        ),
    ] {
        let error = read_failure(given).await;
        assert_eq!(error.code, Code::ApiNotNomad, "{}", error.message);
        assert!(error.message.starts_with("cannot read volume `db0` (namespace `prod`): "));
        assert!(error.message.contains(expected), "{expected}: {}", error.message);
        assert_eq!(error.server_text.as_deref(), server_text);
    }
}

/// Only Nomad's own text reports a missing volume. Any other 404 does not.
#[tokio::test]
async fn a_missing_object_is_none_and_no_error() {
    for body in ["volume not found", "rpc error: volume not found"] {
        let server = Server::always(text(404, body)).await;
        let read = server.client().read_volume(&key("prod", "db0")).await;
        assert_eq!(read, Ok(None));
    }
    let server = Server::always(text(404, "plugin not found")).await;
    let plugin = PluginId::new("ebs0");
    let read = server.client().read_plugin(&plugin, &Namespace::default()).await;
    assert_eq!(read, Ok(None));
}

#[tokio::test]
async fn server_errors_get_a_code_and_a_reason_and_keep_their_text() {
    for (status, body, code, reason) in [
        (403, "Permission denied", Code::ApiForbidden, "the token lacks the permission"),
        (403, "ACL token not found", Code::ApiUnknownToken, "the server does not know the token"),
        (401, "Unauthorized", Code::ApiUnknownToken, "the server requires a token"),
        (500, "No path to region", Code::ApiUnknownRegion, "the server does not know the region"),
        (400, "Invalid index", Code::ApiBadRequest, "reports the request as malformed"),
        (500, "something new", Code::ApiServerError, "reported an internal error"),
        (
            400,
            "Client sent an HTTP request to an HTTPS server.",
            Code::ApiTls,
            "requires TLS, but the address uses `http`",
        ),
    ] {
        let error = read_failure(text(status, body)).await;
        assert_eq!((error.code, error.status), (code, Some(status)), "{body}");
        assert!(error.message.contains(reason), "{}", error.message);
        assert_eq!(error.server_text.as_deref(), Some(body));
    }
}

/// Nomad reports "Permission denied" both for a weak token and for a missing one.
#[tokio::test]
async fn the_help_names_a_missing_token() {
    let server = Server::always(text(403, "Permission denied")).await;
    let without = server.client().list_plugins(None).await;
    let help = without.expect_err("the request is forbidden").help;
    assert_eq!(help, ["set NOMAD_TOKEN or --token: the request carried no token"]);
    let mut settings = ClientSettings::new(server.url());
    settings.token = Some(RedactedString::new("11111111"));
    let client = NomadClient::new(&settings).expect("the address is valid");
    let with = client.list_plugins(None).await;
    assert_eq!(with.expect_err("the request is forbidden").help, [""; 0]);
}

#[tokio::test]
async fn multiple_errors_of_a_create_become_lines() {
    let body = "1 error occurred:\n\t* unable to update volume: 2 errors occurred:\n\t* volume name \
                cannot be updated\n\t* volume parameters cannot be updated\n\n\n\n";
    let error = create(text(500, body)).await.expect_err("the request fails");
    assert_eq!(error.code, Code::VolumeImmutableField);
    assert_eq!(
        error.message,
        "cannot create volume `db0` (namespace `prod`): the name cannot change"
    );
    assert_eq!(
        error.server_text.as_deref(),
        Some(
            "unable to update volume:\nvolume name cannot be updated\nvolume parameters cannot be \
             updated"
        )
    );
}

#[tokio::test]
async fn the_embedded_agents_typed_error_takes_precedence() {
    let media_type = "application/vnd.nomad-csi.error+json";
    let body = r#"{"code":"volume/in-use","message":"volume `db0` is claimed","help":["Stop web."],
        "text":"volume in use: db0","claiming_allocs":["a1","a2"]}"#;
    let error = create(response(500, media_type, &[], body.as_bytes())).await;
    let error = error.expect_err("the request fails");
    assert_eq!(error.code, Code::VolumeInUse);
    assert_eq!(error.message, "volume `db0` is claimed");
    assert_eq!(error.help, ["Stop web.", "stop the allocations that claim it: a1, a2"]);
    assert_eq!(error.server_text.as_deref(), Some("volume in use: db0"));

    let later = r#"{"code":"of/the-future","message":"m","text":"volume in use: db0"}"#;
    let error = create(response(500, media_type, &[], later.as_bytes())).await;
    assert_eq!(error.expect_err("the request fails").code, Code::VolumeInUse);
    let missing = r#"{"code":"volume/not-found","message":"m","text":"volume not found"}"#;
    let server = Server::always(response(404, media_type, &[], missing.as_bytes())).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    assert_eq!(read, Ok(None));
    let broken = create(response(500, media_type, &[], b"volume in use: db0")).await;
    assert_eq!(broken.expect_err("the request fails").code, Code::VolumeInUse);
}

/// The embedded agent identifies itself in every response.
#[tokio::test]
async fn the_kind_of_server_is_detected() {
    let regions = |status, headers: &[(&str, &str)]| {
        response(status, "application/json", headers, br#"["global"]"#)
    };
    let about = r#"{"config":{"Version":{"Version":"1.9.4"}}}"#;
    let nomad = ServerKind::Nomad(ServerVersion::new(1, 9, 4));
    let agent: &[_] = &[("X-Nomad-CSI-Agent", "0.1.0")];
    for (headers, expected, asked) in [
        (&[][..], nomad, &["GET /v1/regions", "GET /v1/agent/self"][..]),
        (agent, ServerKind::Agent, &["GET /v1/regions"]),
    ] {
        let answers = [regions(200, headers), json(about)];
        let server = Server::start(move |_, number| answers[number].clone()).await;
        assert_eq!(server.client().server().await, Ok(expected));
        let lines: Vec<_> = server.requests().iter().map(ReceivedRequest::line).collect();
        assert_eq!(lines, asked);
    }
}

/// Nomad before 1.10.5 sends no body; 1.1 and 1.2 send secrets and mount flags in clear text.
#[tokio::test]
async fn responses_to_writes_of_every_version_are_decoded() {
    assert_eq!(create(json("")).await, Ok(WriteReply::default()));
    let old = r#"{"Index":5,"Volumes":[{"ID":"db0","Secrets":{"password":"hunter2"},
        "MountOptions":{"FSType":"cifs","MountFlags":["password=hunter2"]}}]}"#;
    let written = create(json(old)).await.expect("the response is decoded");
    let document = written.document.expect("the response has a volume");
    assert_eq!(
        document.to_string(),
        r#"{"ID":"db0","Secrets":null,"MountOptions":{"FSType":"cifs","MountFlags":["[REDACTED]"]}}"#
    );
    let warned = r#"{"Volumes":[{"ID":"db0","New":[1]}],"Warnings":"one\n\n two \n"}"#;
    let written = create(json(warned)).await.expect("the response is decoded");
    assert_eq!(written.warnings, ["one", "two"]);
    assert_eq!(
        written.document.map(|volume| volume.to_string()).as_deref(),
        Some(r#"{"ID":"db0","New":[1]}"#)
    );
    let none = create(json(r#"{"Volumes":null,"Warnings":null}"#)).await;
    assert_eq!(none, Ok(WriteReply::default()));
}

/// The server made the change, but its response is lost.
#[tokio::test]
async fn a_write_with_a_malformed_response_has_an_unknown_outcome() {
    for body in [r#"{"Volumes":[{"ID""#, r#"{"Volumes":1}"#, "[]"] {
        let error = create(json(body)).await.expect_err(body);
        assert_eq!(error.code, Code::ApiOutcomeUnknown, "{body}");
        assert!(
            error.message.starts_with("the outcome of the request to create volume"),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn a_web_page_is_an_error_of_a_write() {
    let error = create(response(200, "text/html", &[], b"<html>ok</html>")).await;
    assert_eq!(error.expect_err("the request fails").code, Code::ApiNotNomad);
    let server = Server::always(response(200, "text/html", &[], b"<html>ok</html>")).await;
    let deleted = server.client().delete_volume(&key("prod", "db0"), &Secrets::default()).await;
    assert_eq!(deleted.expect_err("the request fails").code, Code::ApiNotNomad);
}

#[tokio::test]
async fn secrets_are_removed_from_plugin_errors() {
    let body = "controller create volume: bad login me:hunter2";
    let error = create(text(500, body)).await.expect_err("the request fails");
    assert_eq!(
        error.server_text.as_deref(),
        Some("controller create volume: bad login me:[REDACTED]")
    );
    let server = Server::always(text(500, "controller delete volume: hunter2, no")).await;
    let secrets = Secrets::from_iter([("password", "hunter2"), ("digit", "e")]);
    let deleted = server.client().delete_volume(&key("prod", "db0"), &secrets).await;
    let shown = deleted.expect_err("the request fails").server_text;
    assert_eq!(shown.as_deref(), Some("controller delete volume: [REDACTED], no"));
}

#[tokio::test]
async fn documents_are_returned_unchanged() {
    let body = r#"{"ID":"db0","Zebra":1,"Capacity":9223372036854775807,"Alpha":{"b":1,"a":2}}"#;
    let server = Server::always(json(body)).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    let reading = read.expect("the read succeeds").expect("the volume exists");
    assert_eq!(reading.document.to_string(), body);
    assert_eq!(reading.value.capacity.get(), i64::MAX as u64);
}

#[tokio::test]
async fn lists_contain_all_pages_sorted_and_without_duplicates() {
    let page = |ids: &[&str], next: Option<&str>| {
        let stubs: Vec<String> =
            ids.iter().map(|id| format!(r#"{{"ID":"{id}","Namespace":"prod"}}"#)).collect();
        let headers: Vec<_> = next.iter().map(|next| ("X-Nomad-NextToken", *next)).collect();
        let body = format!("[{}]", stubs.join(","));
        response(200, "application/json", &headers, body.as_bytes())
    };
    let server = Server::start(move |seen, _| {
        match seen.target.split("next_token=").nth(1).map(|rest| rest.split('&').next()) {
            None => page(&["c", "a"], Some("prod.d")),
            Some(Some("prod.d")) => page(&["d", "c"], Some("prod.e")),
            Some(_) => page(&["e"], None),
        }
    })
    .await;
    let listed = server.client().list_volumes(&query("prod")).await.expect("the list succeeds");
    let ids: Vec<_> = listed.iter().map(|volume| volume.value.id.as_str()).collect();
    assert_eq!(ids, ["a", "c", "d", "e"]);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_repeated_page_is_an_error() {
    let again = [("X-Nomad-NextToken", "prod.a")];
    let server = Server::always(response(200, "application/json", &again, b"[]")).await;
    let error =
        server.client().list_volumes(&query("prod")).await.expect_err("the list never ends");
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(error.message.ends_with("sent the same page twice"), "{}", error.message);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn null_is_an_empty_list() {
    let server = Server::always(json("null")).await;
    assert_eq!(server.client().list_volumes(&query("*")).await, Ok(vec![]));
    assert_eq!(server.client().list_plugins(None).await, Ok(vec![]));
}

#[tokio::test]
async fn compressed_responses_are_decoded() {
    // `[{"ID":"db0","Namespace":"prod"}]`, compressed with gzip.
    let packed = include_bytes!("../data/wire/volumes.json.gz");
    let headers = [("Content-Encoding", "gzip")];
    let server = Server::always(response(200, "application/json", &headers, packed)).await;
    let listed = server.client().list_volumes(&query("prod")).await.expect("the list succeeds");
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn a_response_that_does_not_decompress_is_corrupt() {
    let headers = [("Content-Encoding", "gzip")];
    let error = read_failure(response(200, "application/json", &headers, b"[not gzip]")).await;
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(error.message.contains("is corrupt: "), "{}", error.message);
}

#[tokio::test]
async fn a_response_above_the_limit_is_refused() {
    let server = Server::always(json(&" ".repeat((64 << 20) + 1))).await;
    let error =
        server.client().list_volumes(&query("prod")).await.expect_err("the response is too large");
    assert_eq!(error.code, Code::ApiTooLarge);
    assert!(
        error.message.ends_with("is larger than 64MiB (limit `response-bytes`)"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_long_error_is_truncated() {
    let error = read_failure(text(500, &"é".repeat(200_000))).await;
    assert_eq!(error.code, Code::ApiServerError);
    assert_eq!(error.server_text.map(|text| text.len() <= 64 << 10), Some(true));
}
