//! How the client handles failures: which requests it repeats, and which errors it reports.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use nomad_csi_client::nomad::{ClientSettings, NomadClient, SlowResponseObserver};
use nomad_csi_client::ports::{
    ApiError, OutageObserver, ServerWait, TopicWatch as _, VolumeApi as _, VolumeReader as _,
    WatchRequest, WatchTopic,
};
use nomad_csi_model::Secrets;
use nomad_csi_model::diagnostic::Code;

use crate::client_requests::{key, request};
use crate::support::http_server::{ReceivedRequest, Reply, Server, json, response, text};

const BUSY: &str =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

async fn list_at(address: &str) -> ApiError {
    let client = NomadClient::new(&ClientSettings::new(address)).expect("the address is valid");
    client.list_plugins(None).await.expect_err("the connection fails")
}

/// The raw response of Nomad to a connection above its limit.
fn busy() -> Reply {
    let length = BUSY.len();
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    Reply::Bytes(format!("{head}{BUSY}").into_bytes())
}

#[tokio::test(start_paused = true)]
async fn refused_requests_are_repeated() {
    for refusal in [
        busy(),
        Reply::Bytes(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 9\r\n\r\n".to_vec()),
        text(500, "No cluster leader"),
        text(500, "rpc error: No cluster leader"),
        text(500, "Not ready to serve consistent reads"),
    ] {
        let server = Server::start(move |_, number| match number {
            0..3 => refusal.clone(),
            _ => json("{}"),
        })
        .await;
        let created = server.client().create_volume(&request("db0")).await;
        assert!(created.is_ok(), "{created:?}");
        let seen = server.requests();
        assert_eq!(seen.len(), 4);
        assert!(seen.iter().all(|request| *request == seen[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn retries_of_a_busy_server_are_bounded() {
    for (refusal, code, reason) in [
        (busy(), Code::ApiRateLimited, "limits the connections"),
        (text(500, "No cluster leader"), Code::ApiNoLeader, "have no leader"),
        (text(429, "slow down"), Code::ApiRateLimited, "limits the rate of requests"),
    ] {
        let server = Server::always(refusal).await;
        let created = server.client().create_volume(&request("db0")).await;
        let error = created.expect_err("every attempt is refused");
        assert_eq!(error.code, code);
        assert!(error.message.contains(reason), "{}", error.message);
        // Attempts go on for 30 seconds, with pauses of random length.
        let attempts = server.requests().len();
        assert!((7..=10).contains(&attempts), "{attempts}");
    }
}

#[derive(Default)]
struct Outages(Mutex<Vec<&'static str>>);

impl OutageObserver for Outages {
    fn server_unreachable(&self, _: &str, _: &ApiError, _: Duration) {
        self.0.lock().expect("no panic").push("away");
    }

    fn server_silent(&self, _: &str, _: Duration) {
        self.0.lock().expect("no panic").push("silent");
    }

    fn server_back(&self, _: &str, _: Duration) {
        self.0.lock().expect("no panic").push("back");
    }

    fn gave_up(&self, _: &str) {
        self.0.lock().expect("no panic").push("gave up");
    }
}

/// A server that answers the first request and those after `silent` others. Eight reads run at the same time.
async fn reads_during_an_outage(
    silent: usize,
) -> (Vec<Result<(), Code>>, Vec<&'static str>, usize) {
    let server = Server::start(move |_, number| match number {
        0 => json("[]"),
        number if number <= silent => Reply::Close,
        _ => json("[]"),
    })
    .await;
    let outages = Arc::new(Outages::default());
    let client = server
        .client()
        .waiting(ServerWait { timeout: Duration::from_secs(60), observer: outages.clone() });
    let first = client.list_plugins(None).await;
    assert!(first.is_ok(), "{first:?}");
    let reads = (0..8).map(async |_| match client.list_plugins(None).await {
        Ok(_) => Ok(()),
        Err(error) => Err(error.code),
    });
    let read = join_all(reads).await;
    let probes = server.requests();
    let is_probe = |line: &String| line.starts_with("GET /v1/status/leader");
    let probes = probes.iter().map(ReceivedRequest::line).filter(is_probe).count();
    let lines = outages.0.lock().expect("no panic").clone();
    (read, lines, probes)
}

/// One line and few probes, however many requests wait.
#[tokio::test(start_paused = true)]
async fn requests_wait_together_for_a_server_that_is_away() {
    let (read, lines, probes) = reads_during_an_outage(20).await;
    assert_eq!(read, [Ok(()); 8]);
    assert_eq!(lines, ["away", "back"]);
    assert!((1..=8).contains(&probes), "{probes}");
}

#[tokio::test(start_paused = true)]
async fn requests_stop_together_when_a_server_stays_away() {
    let (read, lines, probes) = reads_during_an_outage(usize::MAX).await;
    assert_eq!(read, [Err(Code::ApiConnectionLost); 8]);
    assert_eq!(lines, ["away", "gave up"]);
    assert!((8..=20).contains(&probes), "{probes}");
}

#[derive(Debug, Default)]
struct SlowResponses(Mutex<Vec<String>>);

impl SlowResponseObserver for SlowResponses {
    fn no_response_yet(&self, _: &str, action: &str, after: Duration) {
        let mut lines = self.0.lock().expect("no panic");
        lines.push(format!("{action} {}", after.as_secs()));
    }
}

/// The first request without a response is reported after three seconds, and each ends when the user says.
#[tokio::test(start_paused = true)]
async fn a_response_that_takes_long_is_reported_once_and_its_time_can_be_limited() {
    let server = Server::always(Reply::Hang).await;
    for (limit, expected) in [(2, vec![]), (7, vec!["list the plugins 3"])] {
        let slow = Arc::new(SlowResponses::default());
        let client = NomadClient::new(&ClientSettings {
            request_timeout: Some(Duration::from_secs(limit)),
            slow_responses: Some(slow.clone()),
            ..ClientSettings::new(server.url())
        });
        let client = client.expect("the address is valid");
        for _ in 0..2 {
            let error = client.list_plugins(None).await.expect_err("the server is silent");
            assert_eq!(error.code, Code::ApiTimeout);
            let limit = format!("did not respond within {limit}s");
            assert!(error.message.contains(&limit), "{}", error.message);
        }
        assert_eq!(*slow.0.lock().expect("no panic"), expected);
    }
}

/// The server holds such a request on purpose, for longer than others may take.
#[tokio::test(start_paused = true)]
async fn a_blocking_query_is_neither_slow_nor_cut_off() {
    let server = Server::start(|request, _| match request.line().contains("/v1/nodes") {
        true => Reply::Hang,
        false => json("\"leader\""),
    })
    .await;
    let slow = Arc::new(SlowResponses::default());
    let client = NomadClient::new(&ClientSettings {
        request_timeout: Some(Duration::from_secs(7)),
        slow_responses: Some(slow.clone()),
        ..ClientSettings::new(server.url())
    });
    let client = client.expect("the address is valid");
    let wait = WatchRequest { index: Some(7), max_wait: Duration::from_secs(30) };
    let watching = client.watch_topic(&WatchTopic::Nodes, wait);
    let watched = tokio::time::timeout(Duration::from_secs(30), watching).await;
    assert!(watched.is_err(), "{watched:?}");
    assert_eq!(slow.0.lock().expect("no panic").len(), 0);
}

/// A create in a cluster without a leader may have gone further than the error shows.
#[tokio::test]
async fn plugin_errors_are_not_repeated() {
    let words = "1 error occurred:\n\t* controller create volume: No cluster leader\n\n";
    let server = Server::always(text(500, words)).await;
    let created = server.client().create_volume(&request("db0")).await;
    assert_eq!(created.expect_err("the request fails").code, Code::PluginRefused);
    assert_eq!(server.requests().len(), 1);
}

/// Whatever breaks, a write is sent once.
#[tokio::test]
async fn a_write_with_an_unknown_outcome_is_not_repeated() {
    let cut = Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"Volumes\":".to_vec());
    let gateway = || response(502, "text/html", &[], b"<html>Bad Gateway</html>");
    for broken in [
        Reply::Close,
        Reply::Bytes(b"HTTP/1.1 200 OK\r\nConte".to_vec()),
        Reply::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        cut,
        gateway(),
        text(504, "upstream timed out"),
    ] {
        let server = Server::always(broken.clone()).await;
        let client = server.client();
        let secrets = Secrets::default();
        for (verb, failure) in [
            ("create", client.create_volume(&request("db0")).await.err()),
            ("register", client.register_volume(&request("db0")).await.err()),
            ("deregister", client.deregister_volume(&key("prod", "db0"), false).await.err()),
            ("delete", client.delete_volume(&key("prod", "db0"), &secrets).await.err()),
        ] {
            let error = failure.expect("it fails");
            assert_eq!(error.code, Code::ApiOutcomeUnknown, "{broken:?}");
            let begins = format!(
                "the outcome of the request to {verb} volume `db0` (namespace `prod`) is unknown: "
            );
            assert!(error.message.starts_with(&begins), "{}", error.message);
            assert!(error.help[0].ends_with("the request may have taken effect"));
        }
        assert_eq!(server.requests().len(), 4, "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_is_repeated_after_broken_connections() {
    let cut = Reply::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec());
    for broken in [Reply::Close, cut, response(503, "text/plain", &[], b"")] {
        let server = Server::start(move |_, number| match number {
            0..2 => broken.clone(),
            _ => json(r#"{"ID":"db0"}"#),
        })
        .await;
        let read = server.client().read_volume(&key("prod", "db0")).await;
        assert!(read.is_ok_and(|found| found.is_some()));
        assert_eq!(server.requests().len(), 3);
    }
    let server = Server::always(Reply::Close).await;
    let error = server.client().read_volume(&key("prod", "db0")).await.expect_err("never");
    assert_eq!(error.code, Code::ApiConnectionLost);
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn reads_time_out_after_a_minute_and_writes_after_fifteen() {
    let server = Server::always(Reply::Hang).await;
    let start = tokio::time::Instant::now();
    let read = server.client().read_volume(&key("prod", "db0")).await;
    let error = read.expect_err("the request times out");
    assert_eq!((error.code, start.elapsed().as_secs() / 60), (Code::ApiTimeout, 1));
    assert!(error.message.ends_with("did not respond within 60s"), "{}", error.message);

    let start = tokio::time::Instant::now();
    let created = server.client().create_volume(&request("db0")).await;
    let error = created.expect_err("the request times out");
    assert_eq!((error.code, start.elapsed().as_secs() / 60), (Code::ApiOutcomeUnknown, 15));
    assert_eq!(server.requests().len(), 4, "each request and one probe, none repeated");
}

#[tokio::test]
async fn a_closed_port_is_reported() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("the listener has an address");
    drop(listener);
    let error = list_at(&format!("http://{address}")).await;
    assert_eq!(error.code, Code::ApiConnectionRefused);
    assert_eq!(
        error.message,
        format!("cannot list the plugins: `http://{address}` refused the connection")
    );
    for words in ["check that Nomad runs", "NOMAD_ADDR", "--embedded"] {
        assert!(error.help[0].contains(words), "{:?}", error.help);
    }
    // The same holds for a write, which was not sent.
    let client = NomadClient::new(&ClientSettings::new(format!("http://{address}")));
    let created = client.expect("the address is valid").create_volume(&request("db0")).await;
    assert_eq!(created.expect_err("the connection fails").code, Code::ApiConnectionRefused);
}

#[tokio::test]
async fn an_unknown_host_is_reported() {
    let error = list_at("http://nomad.invalid:4646").await;
    assert_eq!(error.code, Code::ApiUnknownHost);
    assert!(error.message.contains("unknown host `nomad.invalid`"), "{}", error.message);
}

#[tokio::test]
async fn an_unreachable_address_is_reported() {
    let error = list_at("http://255.255.255.255:4646").await;
    assert_eq!(error.code, Code::ApiUnreachable);
    assert!(
        error.message.contains("cannot reach `http://255.255.255.255:4646`: "),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_missing_socket_is_reported() {
    let error = list_at("unix:///nonexistent/api.sock").await;
    assert_eq!(error.code, Code::ApiSocket);
    assert!(
        error.message.contains("cannot connect to `unix:///nonexistent/api.sock`: No such file"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_server_without_http_is_reported() {
    let server = Server::always(Reply::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())).await;
    let error = list_at(&server.url()).await;
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(error.message.contains("is not an HTTP server"), "{}", error.message);
    assert_eq!(error.help, ["use `https://` in the address if the server uses TLS"]);
}
