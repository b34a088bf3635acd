//! An HTTP server that sends the bytes that a test sets, and records every request.
//!
//! It uses sockets and no HTTP library, so it can break the connection, hang or send other
//! protocols. A connection serves one request. The server stops when its value is dropped.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nomad_csi_client::nomad::{ClientSettings, NomadClient};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A request as received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    /// Path and query, as received.
    pub(crate) target: String,
    /// Headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key == name);
        let first = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None, "header {name} is repeated");
        first
    }

    /// `GET /v1/volumes?type=csi`.
    pub(crate) fn line(&self) -> String {
        format!("{} {}", self.method, self.target)
    }
}

/// The response of a server to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Sends bytes and closes the connection.
    Bytes(Vec<u8>),
    /// Sends bytes, then one space after every pause, without end.
    Drip(Vec<u8>, Duration),
    /// Closes the connection without a response.
    Close,
    /// Keeps the connection open and sends nothing.
    Hang,
}

/// A complete HTTP response.
pub(crate) fn response(
    status: u16,
    content_type: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut bytes = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\
         Connection: close\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in headers {
        bytes.extend(format!("{name}: {value}\r\n").into_bytes());
    }
    bytes.extend(b"\r\n");
    bytes.extend(body);
    Reply::Bytes(bytes)
}

pub(crate) fn json(body: &str) -> Reply {
    response(200, "application/json", &[("X-Nomad-Index", "7")], body.as_bytes())
}

pub(crate) fn text(status: u16, body: &str) -> Reply {
    response(status, "text/plain; charset=utf-8", &[], body.as_bytes())
}

type Script = dyn Fn(&ReceivedRequest, usize) -> Reply + Send + Sync;

/// The server; it listens until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Listens on a free local port. `script` receives each request and its number from 0.
    pub(crate) async fn start(
        script: impl Fn(&ReceivedRequest, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::listen(script, None).await
    }

    /// Sends the same response to every request.
    pub(crate) async fn always(answer: Reply) -> Self {
        Self::start(move |_, _| answer.clone()).await
    }

    /// Sends the same response to every request, over TLS.
    pub(crate) async fn with_tls(config: rustls::ServerConfig, answer: Reply) -> Self {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self::listen(move |_, _| answer.clone(), Some(acceptor)).await
    }

    async fn listen(
        script: impl Fn(&ReceivedRequest, usize) -> Reply + Send + Sync + 'static,
        tls: Option<TlsAcceptor>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let seen = Arc::new(Mutex::new(vec![]));
        let (log, script): (_, Arc<Script>) = (Arc::clone(&seen), Arc::new(script));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it accepts");
                let (tls, log, script) = (tls.clone(), Arc::clone(&log), Arc::clone(&script));
                tokio::spawn(async move {
                    let Some(tls) = tls else {
                        return serve(stream, &log, &*script).await;
                    };
                    // The client reports a refused handshake.
                    if let Ok(stream) = tls.accept(stream).await {
                        serve(stream, &log, &*script).await;
                    }
                });
            }
        });
        Self { address, seen, task }
    }

    /// Listens on a Unix socket.
    pub(crate) fn on_socket(path: &std::path::Path, answer: Reply) -> Self {
        let listener = UnixListener::bind(path).expect("the path is free and short");
        let seen = Arc::new(Mutex::new(vec![]));
        let log = Arc::clone(&seen);
        let script = move |_: &ReceivedRequest, _: usize| answer.clone();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.expect("it accepts");
                serve(stream, &log, &script).await;
            }
        });
        Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a client with only this server's address set.
    pub(crate) fn client(&self) -> NomadClient {
        NomadClient::new(&ClientSettings::new(self.url())).expect("the address is valid")
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().expect("no server panics").clone()
    }

    /// Returns the only request so far.
    pub(crate) fn only_request(&self) -> ReceivedRequest {
        let mut seen = self.requests();
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }
}

async fn serve<S>(
    mut stream: S,
    log: &Mutex<Vec<ReceivedRequest>>,
    script: &(dyn Fn(&ReceivedRequest, usize) -> Reply + Send + Sync),
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let Some(seen) = read_request(&mut stream).await else {
        return;
    };
    let number = {
        let mut log = log.lock().expect("no server panics");
        log.push(seen.clone());
        log.len() - 1
    };
    match script(&seen, number) {
        Reply::Close => {}
        Reply::Hang => std::future::pending().await,
        Reply::Drip(bytes, pause) => {
            let mut ticks = tokio::time::interval(pause);
            let mut sent = stream.write_all(&bytes).await;
            while sent.is_ok() {
                ticks.tick().await;
                sent = stream.write_all(b" ").await;
            }
        }
        // The client may have closed the connection.
        Reply::Bytes(bytes) => {
            let _gone = stream.write_all(&bytes).await;
            let _gone = stream.shutdown().await;
        }
    }
}

/// Reads one request; `None` if it is truncated.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> Option<ReceivedRequest> {
    let mut bytes = vec![];
    let head_end = loop {
        if let Some(at) = find(&bytes, b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("heads are text");
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().expect("a length"));
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(ReceivedRequest {
        method: first.next()?.to_owned(),
        target: first.next()?.to_owned(),
        headers,
        body: String::from_utf8(body).expect("bodies are text"),
    })
}

fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}
