//! The metrics endpoint: HTTP/1.1, one path, one request per connection.
//!
//! A scraper sends one short request every few seconds. A connection therefore has a few seconds, and few are served at
//! a time; others wait for one that ends. So up to 15 clients that send nothing delay no other, and more of them delay it
//! by at most five seconds.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

/// The time limit of one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of the head of a request in bytes.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// The connections that are served at a time.
const MAX_CONNECTIONS: usize = 16;
/// The pause after a connection that could not be accepted.
const PAUSE: Duration = Duration::from_secs(1);

/// Serves `text` at `GET /metrics` with this content type until the future is dropped.
pub async fn serve_metrics(
    listener: &TcpListener,
    content_type: &'static str,
    text: impl Fn() -> String,
) -> Infallible {
    let mut connections = FuturesUnordered::new();
    let mut resume_at = None;
    loop {
        let accepting = async {
            if let Some(resume_at) = resume_at {
                tokio::time::sleep_until(resume_at).await;
            }
            listener.accept().await
        };
        tokio::select! {
            accepted = accepting, if connections.len() < MAX_CONNECTIONS => {
                resume_at = None;
                match accepted {
                    Ok((stream, _)) => connections.push(serve_connection(stream, content_type, &text)),
                    Err(error) => {
                        // Usually too many open files, a temporary error.
                        tracing::warn!(%error, "cannot accept a metrics connection");
                        resume_at = Some(Instant::now() + PAUSE);
                    }
                }
            }
            Some(()) = connections.next() => {}
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    content_type: &'static str,
    text: &impl Fn() -> String,
) {
    let service = service_fn(async |request: Request<Incoming>| {
        Ok::<_, Infallible>(respond(request.method(), request.uri().path(), content_type, text))
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(MAX_HEAD_BYTES);
    let connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    if let Ok(Err(error)) = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await {
        tracing::debug!(%error, "the metrics connection failed");
    }
}

fn respond(
    method: &Method,
    path: &str,
    content_type: &'static str,
    text: &impl Fn() -> String,
) -> Response<String> {
    let (status, body) = match (method, path) {
        (&Method::GET, "/metrics") => (StatusCode::OK, text()),
        (&Method::GET, _) => (StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned()),
        _ => (StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n".to_owned()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[test]
    fn only_get_metrics_is_served() {
        for (method, path, expected) in [
            (Method::GET, "/metrics", 200),
            (Method::GET, "/", 404),
            (Method::POST, "/metrics", 405),
            (Method::HEAD, "/metrics", 405),
        ] {
            let response = respond(&method, path, "text/plain", &|| "a 1\n".to_owned());
            assert_eq!(response.status(), expected, "{method} {path}");
        }
    }

    /// Clients that send nothing hold all connections but one.
    #[tokio::test]
    async fn a_silent_client_delays_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asking = async {
            let mut silent = vec![];
            for _ in 1..MAX_CONNECTIONS {
                silent.push(TcpStream::connect(address).await.unwrap());
            }
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics?a=b HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        };
        let in_time = tokio::time::timeout(CONNECTION_TIMEOUT, asking);
        let response = tokio::select! {
            response = in_time => response.expect("the silent clients delay it"),
            never = serve_metrics(&listener, "text/plain", || "a 1\n".to_owned()) => match never {},
        };
        let head = response.to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200 ok\r\n"), "{response}");
        assert!(head.contains("content-type: text/plain\r\n"), "{response}");
        assert!(head.contains("content-length: 4\r\n"), "{response}");
        assert!(head.contains("connection: close\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\na 1\n"), "{response}");
    }
}
