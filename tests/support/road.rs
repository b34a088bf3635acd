//! The way from a client to an agent, on which one request comes to harm.
//!
//! Requests are counted from 0. The agent is the real router over an agent's services, in this
//! process; the way to it is real HTTP, one request per connection. Time plays no part: what is late
//! is late by what comes before it, not by the clock.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::http_server::{Seen, request};

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Harm {
    /// It does not arrive, and the connection ends.
    RequestLost,
    /// Half of its body arrives, and the connection ends.
    RequestCut,
    /// It is carried out, and the connection ends without a word.
    ReplyLost,
    /// It is carried out, and half of the answer comes back.
    ReplyCut,
    /// It arrives twice, and the second answer comes back.
    Twice,
    /// The connection ends at once, and it arrives right before the next one.
    LateByOne,
    /// The connection ends at once, and it arrives when the client has ended ([`Road::deliver`]).
    Late,
    /// The client dies before it arrives.
    DeathBefore,
    /// It is carried out, and the client dies before the answer.
    DeathAfter,
}

impl Harm {
    /// Everything that can happen to a request that changes a volume.
    const TO_VOLUMES: [Self; 9] = [
        Self::RequestLost,
        Self::RequestCut,
        Self::ReplyLost,
        Self::ReplyCut,
        Self::Twice,
        Self::LateByOne,
        Self::Late,
        Self::DeathBefore,
        Self::DeathAfter,
    ];
    /// What can happen to one that changes a variable: it says what it relies on, so that coming late
    /// is as good as not coming.
    const TO_VARIABLES: [Self; 5] = [
        Self::RequestLost,
        Self::ReplyLost,
        Self::Twice,
        Self::DeathBefore,
        Self::DeathAfter,
    ];
    /// What can happen to one that changes nothing and makes a difference to the client.
    const TO_READS: [Self; 2] = [Self::ReplyLost, Self::DeathBefore];

    /// What can happen to this request (`PUT /v1/var/a`).
    pub(crate) fn all_to(line: &str) -> &'static [Self] {
        if line.starts_with("GET") {
            &Self::TO_READS
        } else if line.contains("/v1/var/") {
            &Self::TO_VARIABLES
        } else {
            &Self::TO_VOLUMES
        }
    }
}

#[derive(Default)]
struct Content {
    harm: Option<(usize, Harm)>,
    asked: Vec<String>,
    /// What arrives before the next request.
    next: Vec<Seen>,
    /// What arrives at the end.
    late: Vec<Seen>,
    kill: CancellationToken,
}

/// The way; it is open until it is dropped.
pub(crate) struct Road {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    agent: Router,
    content: Mutex<Content>,
}

impl Drop for Road {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Road {
    /// Opens the way to an agent.
    pub(crate) async fn to(agent: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let shared = Arc::new(Shared {
            agent,
            content: Mutex::default(),
        });
        let here = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it accepts");
                let here = Arc::clone(&here);
                tokio::spawn(async move { here.serve(stream).await });
            }
        });
        Self { url, shared, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Counts from 0 again; that request comes to harm. What kills the client is returned.
    pub(crate) fn expect(&self, harm: Option<(usize, Harm)>) -> CancellationToken {
        let mut content = self.shared.content.lock().expect("unpoisoned");
        content.asked.clear();
        content.harm = harm;
        content.kill = CancellationToken::new();
        content.kill.clone()
    }

    /// Every request since: `PUT /v1/volume/csi/db/create`.
    pub(crate) fn asked(&self) -> Vec<String> {
        let content = self.shared.content.lock().expect("unpoisoned");
        content.asked.clone()
    }

    /// Lets everything arrive that is late.
    pub(crate) async fn deliver(&self) {
        for seen in self.shared.waiting(true) {
            self.shared.carry_out(&seen).await;
        }
    }
}

impl Shared {
    /// Notes a request; whether it comes to harm, and what kills its sender.
    fn note(&self, seen: &Seen) -> (Option<Harm>, CancellationToken) {
        let mut content = self.content.lock().expect("unpoisoned");
        let number = content.asked.len();
        content.asked.push(seen.line());
        let harm = content.harm.filter(|(at, _)| *at == number);
        (harm.map(|(_, harm)| harm), content.kill.clone())
    }

    fn waiting(&self, everything: bool) -> Vec<Seen> {
        let mut content = self.content.lock().expect("unpoisoned");
        let mut waiting = std::mem::take(&mut content.next);
        if everything {
            waiting.append(&mut content.late);
        }
        waiting
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(seen) = request(&mut stream).await else {
            return;
        };
        let (harm, kill) = self.note(&seen);
        for late in self.waiting(false) {
            self.carry_out(&late).await;
        }
        let keep = |list: fn(&mut Content) -> &mut Vec<Seen>| {
            let mut content = self.content.lock().expect("unpoisoned");
            list(&mut content).push(seen.clone());
        };
        match harm {
            None => send(&mut stream, &self.carry_out(&seen).await).await,
            Some(Harm::RequestLost) => {}
            Some(Harm::RequestCut) => {
                let half = Body::from_stream(stream::iter([
                    Ok(seen.body[..seen.body.len() / 2].to_owned()),
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                ]));
                self.forward(&seen, half).await;
            }
            Some(Harm::ReplyLost) => drop(self.carry_out(&seen).await),
            Some(Harm::ReplyCut) => {
                let answer = self.carry_out(&seen).await;
                send(&mut stream, &answer[..answer.len() / 2]).await;
            }
            Some(Harm::Twice) => {
                self.carry_out(&seen).await;
                send(&mut stream, &self.carry_out(&seen).await).await;
            }
            Some(Harm::LateByOne) => keep(|content| &mut content.next),
            Some(Harm::Late) => keep(|content| &mut content.late),
            Some(Harm::DeathBefore) => {
                kill.cancel();
                gone(&mut stream).await;
            }
            Some(Harm::DeathAfter) => {
                self.carry_out(&seen).await;
                kill.cancel();
                gone(&mut stream).await;
            }
        }
    }

    async fn carry_out(&self, seen: &Seen) -> Vec<u8> {
        self.forward(seen, Body::from(seen.body.clone())).await
    }

    /// The agent's answer, as it goes over the wire.
    async fn forward(&self, seen: &Seen, body: Body) -> Vec<u8> {
        let mut request = http::Request::builder()
            .method(seen.method.as_str())
            .uri(&seen.target);
        for (name, value) in &seen.headers {
            request = request.header(name, value);
        }
        let request = request.body(body).expect("it was one");
        let answer = self.agent.clone().oneshot(request).await;
        let (head, body) = answer.expect("the agent answers").into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("an answer ends");
        let mut bytes = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
        let framing = ["content-length", "transfer-encoding", "connection"];
        for (name, value) in &head.headers {
            if !framing.contains(&name.as_str()) {
                bytes.extend_from_slice(name.as_str().as_bytes());
                bytes.extend_from_slice(b": ");
                bytes.extend_from_slice(value.as_bytes());
                bytes.extend_from_slice(b"\r\n");
            }
        }
        let end = format!(
            "content-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        bytes.extend_from_slice(end.as_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// A client that has gone away is no failure here.
async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _gone = stream.write_all(bytes).await;
    let _gone = stream.shutdown().await;
}

/// Waits until the client has gone.
async fn gone(stream: &mut TcpStream) {
    let mut rest = [0];
    let _gone = stream.read(&mut rest).await;
}
