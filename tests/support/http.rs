//! A minimal blocking HTTP client: one request per connection.

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// The address of a server.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    /// With the token that every request carries.
    Tcp(SocketAddr, Option<String>),
    Unix(PathBuf),
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The JSON body of a successful response.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Address {
    /// A TCP address whose requests carry no token.
    pub(crate) fn without_token(address: SocketAddr) -> Self {
        Self::Tcp(address, None)
    }

    /// The TCP address.
    pub(crate) fn tcp(&self) -> SocketAddr {
        match self {
            Self::Tcp(address, _) => *address,
            Self::Unix(path) => panic!("{} is no TCP address", path.display()),
        }
    }

    /// The token that every request carries.
    pub(crate) fn token(&self) -> Option<&str> {
        match self {
            Self::Tcp(_, token) => token.as_deref(),
            Self::Unix(_) => None,
        }
    }

    /// Sends these bytes as one request, and reads the whole response.
    pub(crate) fn send(&self, parts: &[&[u8]]) -> io::Result<Answer> {
        match self {
            Self::Tcp(address, token) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(LIMIT))?;
                let parts = with_token(parts, token.as_deref());
                let parts: Vec<&[u8]> = parts.iter().map(AsRef::as_ref).collect();
                exchange_raw(stream, &parts)
            }
            Self::Unix(socket) => {
                let stream = UnixStream::connect(socket)?;
                stream.set_read_timeout(Some(LIMIT))?;
                exchange_raw(stream, parts)
            }
        }
    }

    /// Sends one request and reads the whole response. A connection that closes early is an error.
    pub(crate) fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> io::Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        self.send(&[head.as_bytes(), body.as_bytes()])
    }
}

/// Adds the token after the first line of a request.
fn with_token<'a>(parts: &[&'a [u8]], token: Option<&str>) -> Vec<Cow<'a, [u8]>> {
    let mut parts: Vec<_> = parts.iter().map(|part| Cow::Borrowed(*part)).collect();
    if let (Some(token), Some(first)) = (token, parts.first_mut())
        && let Some(end) = first.windows(2).position(|window| window == b"\r\n")
    {
        let header = format!("x-nomad-token: {token}\r\n");
        first.to_mut().splice(end + 2..end + 2, header.into_bytes());
    }
    parts
}

/// Sends a request as it is, which must ask for the end of the connection, and reads the response. A
/// server may refuse a request before it has read all of it.
fn exchange_raw(mut stream: impl Read + Write, parts: &[&[u8]]) -> io::Result<Answer> {
    for part in parts {
        match stream.write_all(part) {
            Err(error) if is_refused_early(&error) => break,
            written => written?,
        }
    }
    read_answer(stream)
}

fn is_refused_early(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

/// Reads a response until the server closes the connection.
pub(crate) fn read_answer(mut stream: impl Read) -> io::Result<Answer> {
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
    let head = String::from_utf8_lossy(&answer[..end]).into_owned();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or(io::ErrorKind::InvalidData)?;
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let rest = &answer[end + 4..];
    let body = if chunked { joined(rest)? } else { rest.to_vec() };
    Ok(Answer { status, head, body })
}

/// Joins the parts of a chunked body. An incomplete body is an error.
fn joined(mut rest: &[u8]) -> io::Result<Vec<u8>> {
    let mut body = vec![];
    loop {
        let line = rest.windows(2).position(|window| window == b"\r\n");
        let line = line.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = usize::from_str_radix(&String::from_utf8_lossy(&rest[..line]), 16);
        let length = length.map_err(io::Error::other)?;
        if length == 0 {
            return Ok(body);
        }
        let part = rest.get(line + 2..line + 2 + length);
        body.extend_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
        rest = rest.get(line + 4 + length..).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
}
