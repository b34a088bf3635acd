//! What the client makes of answers: Nomad's of all versions, our agent's, and those of others.

use nomad_csi::diagnostic::Code;
use nomad_csi::model::{Namespace, PluginId, Secrets, ServerVersion};
use nomad_csi::nomad::{Hidden, NomadClient, Settings};
use nomad_csi::ports::{ApiError, ServerKind, VolumeApi as _, VolumeReader as _, Written};

use crate::client_requests::{key, query, request};
use crate::support::http_server::{Answer, Seen, Server, answer, json, text};

/// What reading a volume makes of an answer.
async fn read_failure(given: Answer) -> ApiError {
    let server = Server::always(given).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    read.expect_err("it fails")
}

async fn create(given: Answer) -> Result<Written, ApiError> {
    let server = Server::always(given).await;
    let created = server.client().create_volume(&request("db0")).await;
    assert_eq!(server.seen().len(), 1, "a write is sent once");
    created
}

/// (an answer, words of the message, the text shown)
#[tokio::test]
async fn what_is_not_nomad_is_said_to_be_something_else() {
    let html = "<!DOCTYPE html>\n<html><title>Login</title>\u{7}</html>";
    let page = || answer(200, "text/html; charset=utf-8", &[], html.as_bytes());
    let shown = "<!DOCTYPE html> <html><title>Login</title></html>";
    let long = "x".repeat(2000);
    let cut = format!("{}…", "x".repeat(100));
    for (given, says, words) in [
        (page(), "answered with a web page (200 OK)", Some(shown)),
        (
            answer(200, "application/json", &[], html.as_bytes()),
            "answered with a web page (200 OK)",
            Some(shown),
        ),
        (
            answer(404, "text/html", &[], html.as_bytes()),
            "answered with a web page (404 Not Found)",
            Some(shown),
        ),
        (json(""), "answered with nothing (200 OK)", None),
        (json("  \n"), "answered with nothing (200 OK)", None),
        (
            json(r#"{"ID":"db0","Na"#),
            "answered with JSON that ends too early",
            Some(r#"{"ID":"db0","Na"#),
        ),
        (
            text(200, "Welcome"),
            "answered with something that is not JSON (200 OK)",
            Some("Welcome"),
        ),
        (
            text(200, &long),
            "something that is not JSON",
            Some(cut.as_str()),
        ),
        (json("[]"), "is not Nomad's (invalid type: sequence", None),
        (
            json(r#"{"ID":"db0","Capacity":"big"}"#),
            "is not Nomad's (Capacity: invalid type: string \"big\", expected i64)",
            None,
        ),
        (json(r#"{"ok":true}"#), "answered with ``", None),
        (json(r#"{"ID":"other"}"#), "answered with `other`", None),
        (
            text(404, "404 page not found"),
            "has nothing at that path",
            Some("404 page not found"),
        ),
        (
            text(404, "resource not found"),
            "has nothing at that path",
            Some("resource not found"),
        ),
        (
            text(405, "Invalid method"),
            "has nothing at that path",
            Some("Invalid method"),
        ),
        (
            text(202, "{}"),
            "a status that Nomad never sends (202 Accepted)",
            Some("{}"),
        ),
        (
            answer(
                302,
                "text/html",
                &[("Location", "https://sso.example/")],
                b"",
            ),
            "a redirect to https://sso.example/, which is not followed",
            None,
        ),
    ] {
        let error = read_failure(given).await;
        assert_eq!(error.code, Code::ApiNotNomad, "{}", error.message);
        assert!(
            error
                .message
                .starts_with("volume db0 (namespace prod) could not be read: ")
        );
        assert!(error.message.contains(says), "{says}: {}", error.message);
        assert_eq!(error.server_text.as_deref(), words);
    }
}

/// Only Nomad's own words mean that there is no volume; a stranger's 404 does not.
#[tokio::test]
async fn a_missing_thing_is_none_and_no_error() {
    for body in ["volume not found", "rpc error: volume not found"] {
        let server = Server::always(text(404, body)).await;
        let read = server.client().read_volume(&key("prod", "db0")).await;
        assert_eq!(read, Ok(None));
    }
    let server = Server::always(text(404, "plugin not found")).await;
    let plugin = PluginId::new("ebs0");
    let read = server
        .client()
        .read_plugin(&plugin, &Namespace::default())
        .await;
    assert_eq!(read, Ok(None));
}

#[tokio::test]
async fn the_servers_words_get_a_code_a_sentence_and_stay() {
    for (status, body, code, sentence) in [
        (
            403,
            "Permission denied",
            Code::ApiForbidden,
            "the token may not do this",
        ),
        (
            403,
            "ACL token not found",
            Code::ApiUnknownToken,
            "does not know the token",
        ),
        (
            401,
            "Unauthorized",
            Code::ApiUnknownToken,
            "the server wants a token",
        ),
        (
            500,
            "No path to region",
            Code::ApiUnknownRegion,
            "knows no such region",
        ),
        (
            400,
            "Invalid index",
            Code::ApiBadRequest,
            "does not understand",
        ),
        (
            500,
            "something new",
            Code::ApiServerError,
            "the server failed",
        ),
        (
            400,
            "Client sent an HTTP request to an HTTPS server.",
            Code::ApiTls,
            "wants TLS, and the address says `http`",
        ),
    ] {
        let error = read_failure(text(status, body)).await;
        assert_eq!((error.code, error.status), (code, Some(status)), "{body}");
        assert!(error.message.contains(sentence), "{}", error.message);
        assert_eq!(error.server_text.as_deref(), Some(body));
    }
}

/// Nomad says "Permission denied" of every token that may not, and of none.
#[tokio::test]
async fn a_missing_token_is_named_as_the_reason() {
    let server = Server::always(text(403, "Permission denied")).await;
    let without = server.client().list_plugins(None).await;
    let help = without.expect_err("it is forbidden").help;
    assert_eq!(help, ["No token was given: set NOMAD_TOKEN or --token."]);
    let mut settings = Settings::new(server.url());
    settings.token = Some(Hidden::new("11111111"));
    let client = NomadClient::new(&settings).expect("the address is one");
    let with = client.list_plugins(None).await;
    assert_eq!(with.expect_err("it is forbidden").help, [""; 0]);
}

#[tokio::test]
async fn several_errors_of_a_create_become_lines() {
    let body = "1 error occurred:\n\t* unable to update volume: 2 errors occurred:\n\t* volume name \
                cannot be updated\n\t* volume parameters cannot be updated\n\n\n\n";
    let error = create(text(500, body)).await.expect_err("it fails");
    assert_eq!(error.code, Code::VolumeImmutableField);
    assert_eq!(
        error.message,
        "volume db0 (namespace prod) was not created: its name cannot change"
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
async fn our_agents_typed_error_wins_over_the_text() {
    let media_type = "application/vnd.nomad-csi.error+json";
    let body = r#"{"code":"volume/in-use","message":"volume `db0` is claimed","help":["Stop web."],
        "text":"volume in use: db0","holders":["a1","a2"]}"#;
    let error = create(answer(500, media_type, &[], body.as_bytes())).await;
    let error = error.expect_err("it fails");
    assert_eq!(error.code, Code::VolumeInUse);
    assert_eq!(error.message, "volume `db0` is claimed");
    assert_eq!(error.help, ["Stop web.", "Held by the allocations a1, a2."]);
    assert_eq!(error.server_text.as_deref(), Some("volume in use: db0"));

    let later = r#"{"code":"of/the-future","message":"m","text":"volume in use: db0"}"#;
    let error = create(answer(500, media_type, &[], later.as_bytes())).await;
    assert_eq!(error.expect_err("it fails").code, Code::VolumeInUse);
    let missing = r#"{"code":"volume/not-found","message":"m","text":"volume not found"}"#;
    let server = Server::always(answer(404, media_type, &[], missing.as_bytes())).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    assert_eq!(read, Ok(None));
    let broken = create(answer(500, media_type, &[], b"volume in use: db0")).await;
    assert_eq!(broken.expect_err("it fails").code, Code::VolumeInUse);
}

/// Our agent says who it is in every answer; nothing else is taken for it.
#[tokio::test]
async fn who_answers_is_discovered_and_not_assumed() {
    let regions = |status, headers: &[(&str, &str)]| {
        answer(status, "application/json", headers, br#"["global"]"#)
    };
    let about = r#"{"config":{"Version":{"Version":"1.9.4"}}}"#;
    let nomad = ServerKind::Nomad(ServerVersion::new(1, 9, 4));
    let agent: &[_] = &[("X-Nomad-CSI-Agent", "0.1.0")];
    for (headers, expected, asked) in [
        (
            &[][..],
            nomad,
            &["GET /v1/regions", "GET /v1/agent/self"][..],
        ),
        (agent, ServerKind::Agent, &["GET /v1/regions"]),
    ] {
        let answers = [regions(200, headers), json(about)];
        let server = Server::start(move |_, number| answers[number].clone()).await;
        assert_eq!(server.client().server().await, Ok(expected));
        let lines: Vec<_> = server.seen().iter().map(Seen::line).collect();
        assert_eq!(lines, asked);
    }
}

/// `nomad-http-api` 8.2: nothing before 1.10.5; secrets and flags in clear text in 1.1 and 1.2.
#[tokio::test]
async fn writes_are_understood_whatever_they_answer() {
    assert_eq!(create(json("")).await, Ok(Written::default()));
    let old = r#"{"Index":5,"Volumes":[{"ID":"db0","Secrets":{"password":"hunter2"},
        "MountOptions":{"FSType":"cifs","MountFlags":["password=hunter2"]}}]}"#;
    let written = create(json(old)).await.expect("it is understood");
    let document = written.document.expect("it has a volume");
    assert_eq!(
        document.to_string(),
        r#"{"ID":"db0","Secrets":null,"MountOptions":{"FSType":"cifs","MountFlags":["[REDACTED]"]}}"#
    );
    let warned = r#"{"Volumes":[{"ID":"db0","New":[1]}],"Warnings":"one\n\n two \n"}"#;
    let written = create(json(warned)).await.expect("it is understood");
    assert_eq!(written.warnings, ["one", "two"]);
    assert_eq!(
        written.document.map(|volume| volume.to_string()).as_deref(),
        Some(r#"{"ID":"db0","New":[1]}"#)
    );
    let none = create(json(r#"{"Volumes":null,"Warnings":null}"#)).await;
    assert_eq!(none, Ok(Written::default()));
}

/// The server took the write and answered it; only what it said is lost.
#[tokio::test]
async fn a_write_whose_answer_makes_no_sense_may_have_happened() {
    for body in [r#"{"Volumes":[{"ID""#, r#"{"Volumes":1}"#, "[]"] {
        let error = create(json(body)).await.expect_err(body);
        assert_eq!(error.code, Code::ApiOutcomeUnknown, "{body}");
        assert!(
            error.message.contains("was perhaps not created"),
            "{}",
            error.message
        );
    }
}

#[tokio::test]
async fn a_web_page_is_no_success_of_a_write() {
    let error = create(answer(200, "text/html", &[], b"<html>ok</html>")).await;
    assert_eq!(error.expect_err("it fails").code, Code::ApiNotNomad);
    let server = Server::always(answer(200, "text/html", &[], b"<html>ok</html>")).await;
    let deleted = server
        .client()
        .delete_volume(&key("prod", "db0"), &Secrets::default())
        .await;
    assert_eq!(deleted.expect_err("it fails").code, Code::ApiNotNomad);
}

#[tokio::test]
async fn a_secret_that_a_plugin_repeats_is_not_shown() {
    let body = "controller create volume: bad login me:hunter2";
    let error = create(text(500, body)).await.expect_err("it fails");
    assert_eq!(
        error.server_text.as_deref(),
        Some("controller create volume: bad login me:[REDACTED]")
    );
    let server = Server::always(text(500, "controller delete volume: hunter2, no")).await;
    let secrets = Secrets::from_iter([("password", "hunter2"), ("digit", "e")]);
    let deleted = server
        .client()
        .delete_volume(&key("prod", "db0"), &secrets)
        .await;
    let shown = deleted.expect_err("it fails").server_text;
    assert_eq!(
        shown.as_deref(),
        Some("controller delete volume: [REDACTED], no")
    );
}

#[tokio::test]
async fn a_document_is_handed_on_untouched() {
    let body = r#"{"ID":"db0","Zebra":1,"Capacity":9223372036854775807,"Alpha":{"b":1,"a":2}}"#;
    let server = Server::always(json(body)).await;
    let read = server.client().read_volume(&key("prod", "db0")).await;
    let reading = read.expect("it reads").expect("it is there");
    assert_eq!(reading.document.to_string(), body);
    assert_eq!(reading.value.capacity.get(), i64::MAX as u64);
}

#[tokio::test]
async fn lists_go_through_all_pages_sorted_and_without_repetition() {
    let page = |ids: &[&str], next: Option<&str>| {
        let stubs: Vec<String> = ids
            .iter()
            .map(|id| format!(r#"{{"ID":"{id}","Namespace":"prod"}}"#))
            .collect();
        let headers: Vec<_> = next
            .iter()
            .map(|next| ("X-Nomad-NextToken", *next))
            .collect();
        let body = format!("[{}]", stubs.join(","));
        answer(200, "application/json", &headers, body.as_bytes())
    };
    let server = Server::start(move |seen, _| {
        match seen
            .target
            .split("next_token=")
            .nth(1)
            .map(|rest| rest.split('&').next())
        {
            None => page(&["c", "a"], Some("prod.d")),
            Some(Some("prod.d")) => page(&["d", "c"], Some("prod.e")),
            Some(_) => page(&["e"], None),
        }
    })
    .await;
    let listed = server
        .client()
        .list_volumes(&query("prod"))
        .await
        .expect("it lists");
    let ids: Vec<_> = listed
        .iter()
        .map(|volume| volume.value.id.as_str())
        .collect();
    assert_eq!(ids, ["a", "c", "d", "e"]);
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_server_that_repeats_its_page_ends_in_an_error() {
    let again = [("X-Nomad-NextToken", "prod.a")];
    let server = Server::always(answer(200, "application/json", &again, b"[]")).await;
    let error = server
        .client()
        .list_volumes(&query("prod"))
        .await
        .expect_err("it is endless");
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(
        error.message.ends_with("gives the same page again"),
        "{}",
        error.message
    );
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn null_is_an_empty_list() {
    let server = Server::always(json("null")).await;
    assert_eq!(server.client().list_volumes(&query("*")).await, Ok(vec![]));
    assert_eq!(server.client().list_plugins(None).await, Ok(vec![]));
}

#[tokio::test]
async fn compressed_answers_are_read() {
    // `[{"ID":"db0","Namespace":"prod"}]`, by gzip.
    let packed = include_bytes!("../data/wire/volumes.json.gz");
    let headers = [("Content-Encoding", "gzip")];
    let server = Server::always(answer(200, "application/json", &headers, packed)).await;
    let listed = server
        .client()
        .list_volumes(&query("prod"))
        .await
        .expect("it lists");
    assert_eq!(listed.len(), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_unpacked_is_garbled() {
    let headers = [("Content-Encoding", "gzip")];
    let error = read_failure(answer(200, "application/json", &headers, b"[not gzip]")).await;
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(error.message.contains("is garbled: "), "{}", error.message);
}

#[tokio::test]
async fn an_endless_answer_is_refused() {
    let server = Server::always(json(&" ".repeat((64 << 20) + 1))).await;
    let error = server
        .client()
        .list_volumes(&query("prod"))
        .await
        .expect_err("it is too large");
    assert_eq!(error.code, Code::ApiTooLarge);
    assert!(
        error.message.ends_with("answered with more than 64 MiB"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_endless_error_is_cut_off() {
    let error = read_failure(text(500, &"é".repeat(200_000))).await;
    assert_eq!(error.code, Code::ApiServerError);
    assert_eq!(
        error.server_text.map(|text| text.len() <= 64 << 10),
        Some(true)
    );
}
