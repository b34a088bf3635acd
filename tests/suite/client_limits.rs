//! Servers that send too much or too slowly. Each limit is found at its edge from both sides.

use std::time::Duration;

use nomad_csi_client::nomad::{ClientSettings, NomadClient};
use nomad_csi_client::ports::{ApiError, ProviderReader as _, VolumeReader as _};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{Namespace, PluginId};

use crate::client_requests::{key, query};
use crate::support::http_server::{Reply, Server, json, response};

fn client(server: &Server, limit: &str) -> NomadClient {
    let mut settings = ClientSettings::new(server.url());
    settings.limits.set(limit).expect("a limit");
    NomadClient::new(&settings).expect("the address is valid")
}

/// Returns the number of listed volumes, or the error.
async fn listed(server: &Server, limit: &str) -> Result<usize, ApiError> {
    let volumes = client(server, limit).list_volumes(&query("prod")).await;
    volumes.map(|volumes| volumes.len())
}

/// Asserts that an error names a limit and how to raise it.
fn assert_limit<T: std::fmt::Debug>(result: Result<T, ApiError>, code: Code, limit: &str) {
    let error = result.expect_err("a limit");
    assert_eq!(error.code, code, "{error:?}");
    let named = format!("(limit `{limit}`)");
    assert!(error.message.ends_with(&named), "{}", error.message);
    let switch = format!("--response-limit {limit}=VALUE");
    assert!(error.help.iter().any(|help| help.contains(&switch)), "{error:?}");
}

/// A server whose pages have one volume each, with ever-new tokens after the first `pages - 1`.
async fn pages(count: Option<usize>) -> Server {
    Server::start(move |_, number| {
        let body = format!(r#"[{{"ID":"v{number}","Namespace":"prod"}}]"#);
        let token = format!("token-{number}");
        let is_last = count == Some(number + 1);
        let headers = [("X-Nomad-NextToken", token.as_str())];
        let headers = if is_last { &[][..] } else { &headers };
        response(200, "application/json", headers, body.as_bytes())
    })
    .await
}

#[tokio::test]
async fn ever_new_page_tokens_end_at_the_limit_of_pages() {
    assert_eq!(listed(&pages(Some(5)).await, "list-pages=5").await, Ok(5));
    let server = pages(None).await;
    let code = Code::ApiTooLarge;
    assert_limit(listed(&server, "list-pages=5").await, code, "list-pages");
    assert_eq!(server.requests().len(), 5, "no page beyond the limit is requested");
}

#[tokio::test]
async fn a_list_has_a_limit_of_entries_on_all_pages() {
    assert_eq!(listed(&pages(Some(5)).await, "list-items=5").await, Ok(5));
    let server = pages(None).await;
    let code = Code::ApiTooLarge;
    assert_limit(listed(&server, "list-items=5").await, code, "list-items");
    assert_eq!(
        server.requests().len(),
        7,
        "the sixth page was decoded while the seventh was on its way"
    );
}

#[tokio::test]
async fn a_list_has_a_limit_of_bytes_on_all_pages() {
    // A page and its token have at least 32 bytes.
    let server = pages(None).await;
    let code = Code::ApiTooLarge;
    assert_limit(listed(&server, "list-bytes=1KiB").await, code, "list-bytes");
    assert!(server.requests().len() <= 1024 / 32, "{}", server.requests().len());
    let page = |bytes: usize| json(&format!("[{}]", " ".repeat(bytes - 2)));
    let server = Server::always(page(1024)).await;
    assert_eq!(listed(&server, "list-bytes=1KiB").await, Ok(0));
    let server = Server::always(page(1025)).await;
    assert_limit(listed(&server, "list-bytes=1KiB").await, code, "list-bytes");
}

#[tokio::test]
async fn a_response_has_a_limit_of_bytes() {
    let page = |bytes: usize| json(&format!("[{}]", " ".repeat(bytes - 2)));
    let server = Server::always(page(2048)).await;
    assert_eq!(listed(&server, "response-bytes=2KiB").await, Ok(0));
    let server = Server::always(page(2049)).await;
    let refused = listed(&server, "response-bytes=2KiB").await;
    assert_limit(refused, Code::ApiTooLarge, "response-bytes");
}

#[tokio::test]
async fn a_document_has_a_limit_of_values() {
    // The volume, two keys with texts, a key and its list; and the numbers.
    let volume = |numbers: usize| {
        let list = vec!["0"; numbers].join(",");
        json(&format!(r#"{{"ID":"db0","Namespace":"prod","X":[{list}]}}"#))
    };
    for (numbers, fits) in [(93, true), (94, false)] {
        let server = Server::always(volume(numbers)).await;
        let client = client(&server, "json-values=100");
        let read = client.read_volume(&key("prod", "db0")).await;
        match read {
            Ok(found) => assert!(fits && found.is_some(), "{numbers}"),
            refused => {
                assert!(!fits, "{numbers}");
                assert_limit(refused, Code::ApiTooLarge, "json-values");
            }
        }
    }
}

/// The pages of a provider's list have their token in the body.
#[tokio::test]
async fn the_lists_of_a_provider_have_the_same_limits() {
    let server = Server::start(|_, number| {
        json(&format!(
            r#"{{"Volumes":[{{"ExternalID":"v{number}"}}],"NextToken":"token-{number}"}}"#
        ))
    })
    .await;
    for (limit, name) in [
        ("list-pages=5", "list-pages"),
        ("list-items=5", "list-items"),
        ("list-bytes=1KiB", "list-bytes"),
    ] {
        let (plugin, namespace) = (PluginId::new("p"), Namespace::default());
        let client = client(&server, limit);
        let listed = client.list_external_volumes(&plugin, &namespace);
        assert_limit(listed.await, Code::ApiTooLarge, name);
    }
}

fn dripping(pause: Duration) -> Reply {
    let head =
        "HTTP/1.1 200 X\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[";
    Reply::Drip(head.as_bytes().to_vec(), pause)
}

#[tokio::test(start_paused = true)]
async fn a_byte_every_half_second_ends_at_the_limit_of_time() {
    let server = Server::always(dripping(Duration::from_millis(500))).await;
    for (limit, seconds) in [("response-seconds=600", 600), ("response-seconds=20", 20)] {
        let start = tokio::time::Instant::now();
        let refused = listed(&server, limit).await;
        assert_limit(refused, Code::ApiTimeout, "response-seconds");
        assert_eq!(start.elapsed().as_secs(), seconds);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_within_a_response_ends_at_its_limit() {
    for (pause, limit) in [(59, "response-seconds"), (61, "silence-seconds")] {
        let server = Server::always(dripping(Duration::from_secs(pause))).await;
        let refused = listed(&server, "silence-seconds=60").await;
        assert_limit(refused, Code::ApiTimeout, limit);
    }
}
