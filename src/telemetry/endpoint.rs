//! Where metrics are read: HTTP/1.1, one path, one request a connection.
//!
//! Whoever scrapes comes every few seconds and asks for one thing, so connections are answered one
//! after the other, and each has to be done within a few seconds. No request's body is read.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// How long one connection may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest request, without a body.
const LONGEST: usize = 16 << 10;

/// Answers `GET /metrics` with the text, of that content type, for as long as it is polled.
pub async fn serve_metrics(
    listener: &TcpListener,
    content_type: &str,
    text: impl Fn() -> String,
) -> std::convert::Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let answering = answer(stream, content_type, &text);
                let ended = tokio::time::timeout(PATIENCE, answering).await;
                if let Ok(Err(error)) = ended {
                    tracing::debug!(%error, "whoever asked for the metrics went away");
                }
            }
            Err(error) => {
                // Too many open files, most of the time: it passes.
                tracing::warn!(%error, "nobody can ask for the metrics");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(
    mut stream: TcpStream,
    content_type: &str,
    text: &impl Fn() -> String,
) -> std::io::Result<()> {
    let mut request = vec![];
    let mut piece = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < LONGEST {
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            length => request.extend_from_slice(&piece[..length]),
        }
    }
    let line = request.split(|byte| *byte == b'\r').next();
    let (status, body) = match reply(line.unwrap_or_default()) {
        Reply::Metrics => ("200 OK", text()),
        Reply::NotFound => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        Reply::NotAllowed => (
            "405 Method Not Allowed",
            "only GET is answered\n".to_owned(),
        ),
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

/// What a request's first line asks for.
fn reply(line: &[u8]) -> Reply {
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
    fn one_path_is_answered() {
        for (line, expected) in [
            ("GET /metrics HTTP/1.1", Reply::Metrics),
            ("GET /metrics?a=b HTTP/1.0", Reply::Metrics),
            ("GET / HTTP/1.1", Reply::NotFound),
            ("POST /metrics HTTP/1.1", Reply::NotAllowed),
            ("", Reply::NotAllowed),
        ] {
            assert_eq!(reply(line.as_bytes()), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn the_text_is_served() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asking = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream
                .write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
                .await
                .unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).await.unwrap();
            said
        };
        let said = tokio::select! {
            said = asking => said,
            never = serve_metrics(&listener, "text/plain", || "a 1\n".to_owned()) => match never {},
        };
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
        assert!(
            said.ends_with("Content-Length: 4\r\nConnection: close\r\n\r\na 1\n"),
            "{said}"
        );
    }
}
