//! What the client does when there is no good answer: what it repeats, and what it says.

use nomad_csi::diagnostic::Code;
use nomad_csi::model::Secrets;
use nomad_csi::nomad::{NomadClient, Settings};
use nomad_csi::ports::{ApiError, VolumeApi as _, VolumeReader as _};

use crate::client_requests::{key, request};
use crate::support::http_server::{Answer, Server, answer, json, text};

const BUSY: &str =
    "Your IP is issuing too many concurrent connections, please rate limit your calls\n";

async fn list_at(address: &str) -> ApiError {
    let client = NomadClient::new(&Settings::new(address)).expect("the address is one");
    client
        .list_plugins(None)
        .await
        .expect_err("nobody is there")
}

/// The raw answer to one connection too many (`nomad-http-api` 2.1).
fn busy() -> Answer {
    let length = BUSY.len();
    let head = format!(
        "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    );
    Answer::Bytes(format!("{head}{BUSY}").into_bytes())
}

#[tokio::test(start_paused = true)]
async fn what_the_server_refused_before_it_did_anything_is_sent_again() {
    for refusal in [
        busy(),
        Answer::Bytes(b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 9\r\n\r\n".to_vec()),
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
        let seen = server.seen();
        assert_eq!(seen.len(), 4);
        assert!(seen.iter().all(|request| *request == seen[0]));
    }
}

#[tokio::test(start_paused = true)]
async fn patience_with_a_busy_server_ends() {
    for (refusal, code, says) in [
        (busy(), Code::ApiRateLimited, "accepts no more connections"),
        (
            text(500, "No cluster leader"),
            Code::ApiNoLeader,
            "have no leader",
        ),
        (
            text(429, "slow down"),
            Code::ApiRateLimited,
            "accepts no more requests",
        ),
    ] {
        let server = Server::always(refusal).await;
        let created = server.client().create_volume(&request("db0")).await;
        let error = created.expect_err("it never works");
        assert_eq!(error.code, code);
        assert!(error.message.contains(says), "{}", error.message);
        assert_eq!(server.seen().len(), 7);
    }
}

/// A create inside a cluster without a leader may have come further than its words say.
#[tokio::test]
async fn a_plugins_words_are_no_refusal_of_the_server() {
    let words = "1 error occurred:\n\t* controller create volume: No cluster leader\n\n";
    let server = Server::always(text(500, words)).await;
    let created = server.client().create_volume(&request("db0")).await;
    assert_eq!(created.expect_err("it fails").code, Code::PluginRefused);
    assert_eq!(server.seen().len(), 1);
}

/// `nomad-http-api` 10.1 point 11: whatever breaks, a write goes out once.
#[tokio::test]
async fn a_write_that_may_have_arrived_is_never_repeated() {
    let cut =
        Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"Volumes\":".to_vec());
    let gateway = || answer(502, "text/html", &[], b"<html>Bad Gateway</html>");
    for broken in [
        Answer::Nothing,
        Answer::Bytes(b"HTTP/1.1 200 OK\r\nConte".to_vec()),
        Answer::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()),
        cut,
        gateway(),
        text(504, "upstream timed out"),
    ] {
        let server = Server::always(broken.clone()).await;
        let client = server.client();
        let secrets = Secrets::default();
        for (done, failure) in [
            ("created", client.create_volume(&request("db0")).await.err()),
            (
                "registered",
                client.register_volume(&request("db0")).await.err(),
            ),
            (
                "deregistered",
                client
                    .deregister_volume(&key("prod", "db0"), false)
                    .await
                    .err(),
            ),
            (
                "deleted",
                client
                    .delete_volume(&key("prod", "db0"), &secrets)
                    .await
                    .err(),
            ),
        ] {
            let error = failure.expect("it fails");
            assert_eq!(error.code, Code::ApiOutcomeUnknown, "{broken:?}");
            let begins = format!("volume db0 (namespace prod) was perhaps not {done}: ");
            assert!(error.message.starts_with(&begins), "{}", error.message);
            assert!(error.help[0].starts_with("It may have been carried out"));
        }
        assert_eq!(server.seen().len(), 4, "{broken:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_survives_broken_connections() {
    let cut = Answer::Bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{".to_vec());
    for broken in [Answer::Nothing, cut, answer(503, "text/plain", &[], b"")] {
        let server = Server::start(move |_, number| match number {
            0..2 => broken.clone(),
            _ => json(r#"{"ID":"db0"}"#),
        })
        .await;
        let read = server.client().read_volume(&key("prod", "db0")).await;
        assert!(read.is_ok_and(|found| found.is_some()));
        assert_eq!(server.seen().len(), 3);
    }
    let server = Server::always(Answer::Nothing).await;
    let error = server
        .client()
        .read_volume(&key("prod", "db0"))
        .await
        .expect_err("never");
    assert_eq!(error.code, Code::ApiConnectionLost);
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn silence_ends_after_a_minute_for_reads_and_after_minutes_for_writes() {
    let server = Server::always(Answer::Silence).await;
    let start = tokio::time::Instant::now();
    let read = server.client().read_volume(&key("prod", "db0")).await;
    let error = read.expect_err("it never answers");
    assert_eq!(
        (error.code, start.elapsed().as_secs() / 60),
        (Code::ApiTimeout, 1)
    );
    assert!(
        error.message.ends_with("did not answer within 60 s"),
        "{}",
        error.message
    );

    let start = tokio::time::Instant::now();
    let created = server.client().create_volume(&request("db0")).await;
    let error = created.expect_err("it never answers");
    assert_eq!(
        (error.code, start.elapsed().as_secs() / 60),
        (Code::ApiOutcomeUnknown, 15)
    );
    assert_eq!(server.seen().len(), 2);
}

#[tokio::test]
async fn a_closed_port_is_explained() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("it listens");
    drop(listener);
    let error = list_at(&format!("http://{address}")).await;
    assert_eq!(error.code, Code::ApiConnectionRefused);
    assert_eq!(
        error.message,
        format!(
            "the plugins could not be listed: http://{address} refused the connection: nothing listens there"
        )
    );
    for words in ["Is Nomad running", "NOMAD_ADDR", "--embedded"] {
        assert!(error.help[0].contains(words), "{:?}", error.help);
    }
    // Also of a write: nothing was sent.
    let client = NomadClient::new(&Settings::new(format!("http://{address}")));
    let created = client
        .expect("the address is one")
        .create_volume(&request("db0"))
        .await;
    assert_eq!(
        created.expect_err("nobody is there").code,
        Code::ApiConnectionRefused
    );
}

#[tokio::test]
async fn an_unknown_host_is_explained() {
    let error = list_at("http://nomad.invalid:4646").await;
    assert_eq!(error.code, Code::ApiUnknownHost);
    assert!(
        error
            .message
            .contains("the host `nomad.invalid` is not known"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn an_address_that_cannot_be_reached_is_explained() {
    let error = list_at("http://255.255.255.255:4646").await;
    assert_eq!(error.code, Code::ApiUnreachable);
    assert!(
        error.message.contains("cannot be reached: "),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn a_missing_socket_is_explained() {
    let error = list_at("unix:///nonexistent/api.sock").await;
    assert_eq!(error.code, Code::ApiSocket);
    assert!(
        error
            .message
            .contains("unix:///nonexistent/api.sock cannot be opened: No such file"),
        "{}",
        error.message
    );
}

#[tokio::test]
async fn what_speaks_no_http_is_explained() {
    let server = Server::always(Answer::Bytes(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())).await;
    let error = list_at(&server.url()).await;
    assert_eq!(error.code, Code::ApiNotNomad);
    assert!(
        error.message.contains("does not speak HTTP"),
        "{}",
        error.message
    );
    assert_eq!(
        error.help,
        ["If it speaks TLS, write `https://` in the address."]
    );
}
