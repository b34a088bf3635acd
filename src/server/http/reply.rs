//! From what was found to an HTTP response: the one place that knows Nomad's headers.
//!
//! Every success is 200 (`nomad-http-api` 2.5), those of variables apart, every error one line of
//! text, or the typed error for who asks for it (`wire::ErrorBody`). Every response of either kind
//! carries Nomad's metadata, with an index of at least 1: with index 0 Nomad's own blocking reads
//! spin.

use axum::body::Body;
use axum::response::Response;
use http::header::{ACCEPT, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::ser::PrettyFormatter;

use crate::server::error::ServerError;
use crate::wire::{AGENT, ErrorBody, INDEX, KNOWN_LEADER, LAST_CONTACT, NEXT_TOKEN};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// What an endpoint answers.
#[derive(Debug, Default)]
pub(super) struct Reply {
    /// Nothing, or JSON.
    body: Option<Vec<u8>>,
    /// Of the table that was read, or of the write; the state's if it is none of both.
    index: Option<u64>,
    next_token: Option<String>,
    /// 200, if it is nothing else.
    status: StatusCode,
}

impl Reply {
    /// 200 without a body.
    pub(super) fn empty() -> Self {
        Self::default()
    }

    /// 200 with JSON, indented if the client wants to look at it.
    pub(super) fn json<T: Serialize + ?Sized>(
        document: &T,
        pretty: bool,
    ) -> Result<Self, ServerError> {
        let body = if pretty {
            indented(document)
        } else {
            serde_json::to_vec(document)
        };
        let body = body.map_err(|error| ServerError::Defect(format!("cannot encode: {error}")))?;
        Ok(Self {
            body: Some(body),
            ..Self::default()
        })
    }

    /// That, with another status than 200.
    #[must_use]
    pub(super) fn with(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// That, read or written at that index.
    #[must_use]
    pub(super) fn at(mut self, index: u64) -> Self {
        self.index = Some(index);
        self
    }

    /// That, with another page behind it.
    #[must_use]
    pub(super) fn before(mut self, next: Option<String>) -> Self {
        self.next_token = next;
        self
    }
}

fn indented<T: Serialize + ?Sized>(document: &T) -> serde_json::Result<Vec<u8>> {
    let mut body = vec![];
    let formatter = PrettyFormatter::with_indent(b"    ");
    document.serialize(&mut serde_json::Serializer::with_formatter(
        &mut body, formatter,
    ))?;
    body.push(b'\n');
    Ok(body)
}

/// Who answers, as every response says.
#[derive(Clone, Debug)]
pub(super) struct Signature {
    pub(super) version: HeaderValue,
}

impl Signature {
    pub(super) fn of(version: &str) -> Self {
        let version = HeaderValue::from_str(version);
        Self {
            version: version.unwrap_or_else(|_| HeaderValue::from_static("unknown")),
        }
    }

    fn sign(&self, headers: &mut HeaderMap, index: u64) {
        headers.insert(INDEX, HeaderValue::from(index.max(1)));
        headers.insert(LAST_CONTACT, HeaderValue::from_static("0"));
        headers.insert(KNOWN_LEADER, HeaderValue::from_static("true"));
        headers.insert(AGENT, self.version.clone());
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }

    /// A success.
    pub(super) fn success(&self, reply: Reply, index: u64) -> Response {
        let mut response = match reply.body {
            None => Response::new(Body::empty()),
            Some(body) => {
                let mut response = Response::new(Body::from(body));
                response.headers_mut().insert(CONTENT_TYPE, JSON);
                response
            }
        };
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        self.sign(headers, reply.index.unwrap_or(index));
        let next = reply.next_token.map(HeaderValue::try_from);
        if let Some(Ok(next)) = next {
            headers.insert(NEXT_TOKEN, next);
        }
        response
    }

    /// A failure, in the form that the client asked for.
    pub(super) fn failure(&self, error: &ServerError, typed: bool, index: u64) -> Response {
        let (code, status) = error.class();
        let text = error.text();
        let (content_type, body) = if typed {
            let document = ErrorBody {
                code: code.as_str().to_owned(),
                message: error.message(),
                help: error.help(),
                text,
                holders: error.holders(),
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
        self.sign(headers, index);
        response
    }

    /// What is left to say when a handler panicked; the index is the least that there can be.
    pub(super) fn panicked(&self) -> Response {
        let error = ServerError::Defect("a request could not be answered".into());
        let response = self.failure(&error, false, 1);
        debug_assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        response
    }
}

/// Whether the client can read the typed error.
pub(super) fn wants_typed_errors(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.contains(ErrorBody::MEDIA_TYPE))
}
