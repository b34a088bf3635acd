//! A proxy between a client and an agent that injects a fault into one request.
//!
//! The request is named by its line and by how many of these came before ([`RequestName`]), because its number among
//! all requests depends on the machine: a slow client renews its lock in the meantime, and the ledger writes what waits
//! with one request or with two. The agent is the real router over an agent's services, in this
//! process. The client connects through real HTTP, one request per connection. A delayed request is
//! delivered after later ones; the clock plays no part.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use futures_util::stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::http_server::{ReceivedRequest, read_request};

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFault {
    /// The request is lost, and the connection closes.
    RequestLost,
    /// Half of the body arrives, and the connection closes.
    RequestTruncated,
    /// The agent executes the request, and the response is lost.
    ResponseLost,
    /// The agent executes the request, and half of the response arrives.
    ResponseTruncated,
    /// The request arrives twice, and the second response is sent back.
    Duplicated,
    /// The connection closes, and the request arrives right before the next one.
    DelayedByOne,
    /// The connection closes, and the request arrives after the client ends
    /// ([`FaultyProxy::deliver_delayed`]).
    DelayedToEnd,
    /// The client is killed before the request arrives.
    ClientKilledBefore,
    /// The agent executes the request, and the client is killed before the response.
    ClientKilledAfter,
}

impl RequestFault {
    /// The faults of a request that changes a volume.
    const VOLUME_WRITES: [Self; 9] = [
        Self::RequestLost,
        Self::RequestTruncated,
        Self::ResponseLost,
        Self::ResponseTruncated,
        Self::Duplicated,
        Self::DelayedByOne,
        Self::DelayedToEnd,
        Self::ClientKilledBefore,
        Self::ClientKilledAfter,
    ];
    /// The faults of a request that changes a variable. It is conditional, so a delayed request
    /// equals a lost one.
    const VARIABLE_WRITES: [Self; 5] = [
        Self::RequestLost,
        Self::ResponseLost,
        Self::Duplicated,
        Self::ClientKilledBefore,
        Self::ClientKilledAfter,
    ];
    /// The faults of a read that matter to the client.
    const READS: [Self; 2] = [Self::ResponseLost, Self::ClientKilledBefore];

    /// Returns the faults that apply to a request (`PUT /v1/var/a`).
    pub(crate) fn applicable_to(line: &str) -> &'static [Self] {
        if line.starts_with("GET") {
            &Self::READS
        } else if line.contains("/v1/var/") {
            &Self::VARIABLE_WRITES
        } else {
            &Self::VOLUME_WRITES
        }
    }
}

/// A request of a client, the same one in every run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestName {
    /// Its line without the index that it expects.
    pub(crate) line: String,
    /// How many requests with this line came before.
    number: usize,
}

impl RequestName {
    /// Returns the names of requests that came one after another.
    pub(crate) fn of_all(lines: &[String]) -> Vec<Self> {
        let mut names: Vec<Self> = vec![];
        for line in lines {
            names.push(Self::after(line, &names));
        }
        names
    }

    fn after(line: &str, earlier: &[Self]) -> Self {
        let (path, query) = line.split_once('?').unwrap_or((line, ""));
        let query = query.split('&').filter(|part| !part.starts_with("cas="));
        let line = format!("{path}?{}", query.collect::<Vec<_>>().join("&"));
        let number = earlier.iter().filter(|name| name.line == line).count();
        Self { line, number }
    }
}

#[derive(Default)]
struct State {
    fault: Option<(RequestName, RequestFault)>,
    requests: Vec<String>,
    names: Vec<RequestName>,
    /// Requests to deliver before the next one.
    before_next: Vec<ReceivedRequest>,
    /// Requests to deliver at the end.
    at_end: Vec<ReceivedRequest>,
    kill: CancellationToken,
}

/// The proxy; it listens until it is dropped.
pub(crate) struct FaultyProxy {
    url: String,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    agent: Router,
    state: Mutex<State>,
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl FaultyProxy {
    /// Starts a proxy to an agent.
    pub(crate) async fn start(agent: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        let shared = Arc::new(Shared { agent, state: Mutex::default() });
        let server = Arc::clone(&shared);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it accepts");
                let server = Arc::clone(&server);
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        Self { url, shared, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Forgets the requests and sets the fault. Returns the token that kills the client.
    pub(crate) fn inject(&self, fault: Option<(RequestName, RequestFault)>) -> CancellationToken {
        let mut content = self.shared.state.lock().expect("unpoisoned");
        content.requests.clear();
        content.names.clear();
        content.fault = fault;
        content.kill = CancellationToken::new();
        content.kill.clone()
    }

    /// Returns whether the request with the fault has come.
    pub(crate) fn was_disturbed(&self) -> bool {
        let content = self.shared.state.lock().expect("unpoisoned");
        let fault = content.fault.as_ref();
        fault.is_some_and(|(name, _)| content.names.contains(name))
    }

    /// Returns the requests since the fault was set: `PUT /v1/volume/csi/db/create`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let content = self.shared.state.lock().expect("unpoisoned");
        content.requests.clone()
    }

    /// Delivers all delayed requests.
    pub(crate) async fn deliver_delayed(&self) {
        for received in self.shared.take_delayed(true) {
            self.shared.execute(&received).await;
        }
    }
}

impl Shared {
    /// Records a request. Returns its fault, and the token that kills the client.
    fn record(&self, received: &ReceivedRequest) -> (Option<RequestFault>, CancellationToken) {
        let mut content = self.state.lock().expect("unpoisoned");
        let line = received.line();
        let name = RequestName::after(&line, &content.names);
        let fault = content.fault.as_ref().filter(|(meant, _)| *meant == name);
        let fault = fault.map(|(_, fault)| *fault);
        content.requests.push(line);
        content.names.push(name);
        (fault, content.kill.clone())
    }

    fn take_delayed(&self, at_end: bool) -> Vec<ReceivedRequest> {
        let mut content = self.state.lock().expect("unpoisoned");
        let mut delayed = std::mem::take(&mut content.before_next);
        if at_end {
            delayed.append(&mut content.at_end);
        }
        delayed
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(received) = read_request(&mut stream).await else {
            return;
        };
        let (fault, kill) = self.record(&received);
        for delayed in self.take_delayed(false) {
            self.execute(&delayed).await;
        }
        let delay = |list: fn(&mut State) -> &mut Vec<ReceivedRequest>| {
            let mut content = self.state.lock().expect("unpoisoned");
            list(&mut content).push(received.clone());
        };
        match fault {
            None => send(&mut stream, &self.execute(&received).await).await,
            Some(RequestFault::RequestLost) => {}
            Some(RequestFault::RequestTruncated) => {
                let half = Body::from_stream(stream::iter([
                    Ok(received.body[..received.body.len() / 2].to_owned()),
                    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
                ]));
                self.forward(&received, half).await;
            }
            Some(RequestFault::ResponseLost) => drop(self.execute(&received).await),
            Some(RequestFault::ResponseTruncated) => {
                let response = self.execute(&received).await;
                send(&mut stream, &response[..response.len() / 2]).await;
            }
            Some(RequestFault::Duplicated) => {
                self.execute(&received).await;
                send(&mut stream, &self.execute(&received).await).await;
            }
            Some(RequestFault::DelayedByOne) => delay(|content| &mut content.before_next),
            Some(RequestFault::DelayedToEnd) => delay(|content| &mut content.at_end),
            Some(RequestFault::ClientKilledBefore) => {
                kill.cancel();
                wait_until_closed(&mut stream).await;
            }
            Some(RequestFault::ClientKilledAfter) => {
                self.execute(&received).await;
                kill.cancel();
                wait_until_closed(&mut stream).await;
            }
        }
    }

    async fn execute(&self, received: &ReceivedRequest) -> Vec<u8> {
        self.forward(received, Body::from(received.body.clone())).await
    }

    /// Returns the agent's response, as bytes.
    async fn forward(&self, received: &ReceivedRequest, body: Body) -> Vec<u8> {
        let mut request =
            http::Request::builder().method(received.method.as_str()).uri(&received.target);
        for (name, value) in &received.headers {
            request = request.header(name, value);
        }
        let request = request.body(body).expect("the request is valid");
        let response = self.agent.clone().oneshot(request).await;
        let (head, body) = response.expect("the agent answers").into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("the response ends");
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
        let end = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
        bytes.extend_from_slice(end.as_bytes());
        bytes.extend_from_slice(&body);
        bytes
    }
}

/// Sends bytes; the client may have closed the connection.
async fn send(stream: &mut TcpStream, bytes: &[u8]) {
    let _gone = stream.write_all(bytes).await;
    let _gone = stream.shutdown().await;
}

/// Waits until the client closes the connection.
async fn wait_until_closed(stream: &mut TcpStream) {
    let mut rest = [0];
    let _gone = stream.read(&mut rest).await;
}
