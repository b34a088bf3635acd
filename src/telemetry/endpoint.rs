//! The metrics endpoint: HTTP/1.1, one path, one request per connection.
//!
//! A scraper sends one short request every few seconds. The endpoint therefore serves connections one
//! by one, each within a few seconds, and never reads a request body.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The time limit of one connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum size of a request in bytes.
const MAX_REQUEST_BYTES: usize = 16 << 10;

/// Serves `text` at `GET /metrics` with this content type until the future is dropped.
pub async fn serve_metrics(
    listener: &TcpListener,
    content_type: &str,
    text: impl Fn() -> String,
) -> std::convert::Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = serve_connection(stream, content_type, &text);
                let ended = tokio::time::timeout(CONNECTION_TIMEOUT, answering).await;
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "the metrics connection failed");
                }
            }
            Err(error) => {
                // Usually too many open files, a temporary error.
                tracing::warn!(%error, "cannot accept a metrics connection");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn serve_connection(
    mut stream: TcpStream,
    content_type: &str,
    text: &impl Fn() -> String,
) -> std::io::Result<()> {
    let mut request = vec![];
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            length => request.extend_from_slice(&piece[..length]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next();
    let (status, body) = match route(line.unwrap_or_default()) {
        Reply::Metrics => ("200 OK", text()),
        Reply::NotFound => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        Reply::NotAllowed => ("405 Method Not Allowed", "only GET is supported\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

#[derive(Debug, PartialEq, Eq)]
enum Reply {
    Metrics,
    NotFound,
    NotAllowed,
}

/// Returns the reply to the first line of a request.
fn route(line: &[u8]) -> Reply {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next(), words.next().unwrap_or_default());
    let path = target.split('?').next();
    match (method, path) {
        (Some("GET"), Some("/metrics")) => Reply::Metrics,
        (Some("GET"), _) => Reply::NotFound,
        (_, _) => Reply::NotAllowed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_metrics_is_served() {
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", Reply::Metrics),
            ("GET /metrics?a=b HTTP/1.0", Reply::Metrics),
            ("GET / HTTP/1.1", Reply::NotFound),
            ("POST /metrics HTTP/1.1", Reply::NotAllowed),
            ("", Reply::NotAllowed),
        ] {
            assert_eq!(route(line.as_bytes()), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn the_metrics_text_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asking = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).await.unwrap();
            response
        };
        let response = tokio::select! {
            response = asking => response,
            never = serve_metrics(&listener, "text/plain", || "a 1\n".to_owned()) => match never {},
        };
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(
            response.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"),
            "{response}"
        );
    }
}
