//! Builds HTTP responses with Nomad's headers.
//!
//! Every success is 200, except for variables. An error is one line of text, or the typed error if the
//! client accepts it (`wire::ErrorBody`). Every response has Nomad's metadata with an index of at
//! least 1: with index 0, Nomad's clients repeat blocking queries without a pause.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::stream::Stream;
use http::header::{ACCEPT, CACHE_CONTROL, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;
use tokio::sync::OwnedSemaphorePermit;

use super::long_body::{LongBody, Pieces};
use crate::error::{ServerError, shortened};
use nomad_csi_ports::METRICS_CONTENT_TYPE;
use nomad_csi_wire::{AGENT, ErrorBody, INDEX, KNOWN_LEADER, LAST_CONTACT, NEXT_TOKEN};

/// The longest text of an error in bytes.
const LONGEST_ERROR: usize = 512 << 10;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static(METRICS_CONTENT_TYPE);

/// The response is sent as it is: compression would hold a stream back, or its client does not get it
/// (`accepted_encoding`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Uncompressed;

/// The result of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// JSON, or no body.
    body: Option<Pieces>,
    /// True if `body` is compressed with gzip already.
    is_compressed: bool,
    /// The index of the table that was read, or of the write; by default the state's.
    index: Option<u64>,
    next_token: Option<String>,
    /// 200 by default.
    status: StatusCode,
    /// A body that is made while it is sent, in place of the other one, and its type.
    stream: Option<(Body, HeaderValue)>,
    /// True if the connection ends with the response.
    closes: bool,
    /// The memory of a long body, reserved until it is sent.
    reserved: Option<OwnedSemaphorePermit>,
}

impl Reply {
    /// 200 without a body.
    pub(super) fn empty() -> Self {
        Self::default()
    }

    /// 200 with JSON, indented if `pretty`.
    pub(super) fn json<T: Serialize + ?Sized>(
        document: &T,
        pretty: bool,
    ) -> Result<Self, ServerError> {
        let body = if pretty { indented(document) } else { serde_json::to_vec(document) };
        let body = body.map_err(not_encoded)?;
        Ok(Self::pieces(Pieces::from(body)))
    }

    /// 200 with JSON in pieces.
    pub(super) fn pieces(body: Pieces) -> Self {
        Self { body: Some(body), ..Self::default() }
    }

    /// 200 with JSON that is compressed with gzip.
    pub(super) fn compressed(body: Pieces) -> Self {
        Self { is_compressed: true, ..Self::pieces(body) }
    }

    /// 200 with a stream of JSON objects, or of plain text.
    pub(super) fn stream<E: std::error::Error + Send + Sync + 'static>(
        parts: impl Stream<Item = Result<Bytes, E>> + Send + 'static,
        is_plain: bool,
    ) -> Self {
        let kind = if is_plain { TEXT } else { JSON };
        Self { stream: Some((Body::from_stream(parts), kind)), ..Self::default() }
    }

    /// 200 with metrics.
    pub(super) fn metrics(text: String) -> Self {
        Self { stream: Some((Body::from(text), METRICS)), ..Self::default() }
    }

    /// Ends the connection with the response.
    #[must_use]
    pub(super) fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Sets the status.
    #[must_use]
    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Sets the index.
    #[must_use]
    pub(super) fn with_index(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// The bytes of the body.
    pub(super) fn len(&self) -> usize {
        self.body.as_ref().map_or(0, Pieces::len)
    }

    /// Holds the reservation of a long body until it is sent.
    #[must_use]
    pub(super) fn with_reservation(mut self, reserved: OwnedSemaphorePermit) -> Self {
        self.reserved = Some(reserved);
        self
    }

    /// Sets the token of the next page.
    #[must_use]
    pub(super) fn with_next_token(mut self, next: Option<String>) -> Self {
        self.next_token = next;
        self
    }
}

/// The error of a document that is no JSON.
pub(super) fn not_encoded(error: impl std::fmt::Display) -> ServerError {
    ServerError::Internal(format!("cannot encode the response: {error}"))
}

fn indented<T: Serialize + ?Sized>(document: &T) -> serde_json::Result<Vec<u8>> {
    let mut body = vec![];
    let formatter = PrettyFormatter::with_indent(b"    ");
    document.serialize(&mut serde_json::Serializer::with_formatter(&mut body, formatter))?;
    body.push(b'\n');
    Ok(body)
}

/// Builds responses that carry the version of the agent.
#[derive(Clone, Debug)]
pub(super) struct ResponseBuilder {
    pub(super) version: HeaderValue,
    /// How many milliseconds ago this server had everything that the leader had acknowledged.
    last_contact: u64,
    knows_leader: bool,
}

impl ResponseBuilder {
    pub(super) fn of(version: &str) -> Self {
        let version = HeaderValue::from_str(version);
        let version = version.unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { version, last_contact: 0, knows_leader: true }
    }

    /// Sets how long ago this server had everything that the leader had acknowledged, and whether one leads.
    pub(super) fn with_contact(self, (last, knows_leader): (Duration, bool)) -> Self {
        let last_contact = u64::try_from(last.as_millis()).unwrap_or(u64::MAX);
        Self { last_contact, knows_leader, ..self }
    }

    fn add_nomad_headers(&self, headers: &mut HeaderMap, index: u64) {
        headers.insert(INDEX, HeaderValue::from(index.max(1)));
        headers.insert(LAST_CONTACT, HeaderValue::from(self.last_contact));
        let knows_leader = if self.knows_leader { "true" } else { "false" };
        headers.insert(KNOWN_LEADER, HeaderValue::from_static(knows_leader));
        headers.insert(AGENT, self.version.clone());
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }

    /// Builds the response of a success.
    pub(super) fn success(&self, reply: Reply, index: u64) -> Response {
        if let Some((body, kind)) = reply.stream {
            return self.streamed(body, kind, reply.closes);
        }
        let mut response = match reply.body {
            None => Response::new(Body::empty()),
            Some(body) => {
                let body = LongBody::new(body, reply.reserved);
                let mut response = Response::new(Body::new(body));
                response.headers_mut().insert(CONTENT_TYPE, JSON);
                if reply.is_compressed {
                    response.headers_mut().insert(CONTENT_ENCODING, GZIP);
                }
                response
            }
        };
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        self.add_nomad_headers(headers, reply.index.unwrap_or(index));
        let next = reply.next_token.map(HeaderValue::try_from);
        if let Some(Ok(next)) = next {
            headers.insert(NEXT_TOKEN, next);
        }
        response
    }

    /// Builds the response of a stream, which has none of Nomad's headers.
    fn streamed(&self, body: Body, kind: HeaderValue, closes: bool) -> Response {
        let mut response = Response::new(body);
        response.extensions_mut().insert(Uncompressed);
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, kind);
        headers.insert(AGENT, self.version.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        if closes {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Builds the response of an error, in the format that the client accepts.
    pub(super) fn failure(&self, error: &ServerError, typed: bool, index: u64) -> Response {
        let (code, status) = error.code_and_status();
        let text = shortened(error.text(), LONGEST_ERROR);
        let (content_type, body) = if typed {
            let document = ErrorBody {
                code: code.as_str().to_owned(),
                message: shortened(error.message(), LONGEST_ERROR),
                notes: error.notes(),
                help: error.help(),
                text,
                claiming_allocs: error.claiming_allocs(),
            };
            let body = serde_json::to_vec(&document).unwrap_or_default();
            (HeaderValue::from_static(ErrorBody::MEDIA_TYPE), body)
        } else {
            (TEXT, text.into_bytes())
        };
        let empty = body.is_empty();
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if !empty {
            headers.insert(CONTENT_TYPE, content_type);
        }
        self.add_nomad_headers(headers, index);
        response
    }

    /// Builds the response for a handler that panicked, with the smallest index.
    pub(super) fn panicked(&self) -> Response {
        let error = ServerError::Internal("the handler of the request panicked".into());
        let response = self.failure(&error, false, 1);
        debug_assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        response
    }
}

/// Returns whether the client accepts the typed error.
pub(super) fn wants_typed_errors(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains(ErrorBody::MEDIA_TYPE))
}
