//! The ID of a request, which its client gets in `X-Request-Id` and every log line of the request has.
//!
//! A client can send its own, so that its log and the agent's can be joined. One that is too long, or has characters that a
//! log should not have, is replaced.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};
use tracing::Instrument as _;

use nomad_csi_ports::{IdSource as _, RandomIds};

/// The header with the ID.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest ID of a client, in bytes.
const MAX_BYTES: usize = 128;

/// Handles a request in its span, which a filter for warnings keeps too, and adds its ID to the response.
pub(super) async fn with_request_id(request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let span = tracing::error_span!("request", request.id = id.to_str().unwrap_or_default());
    let mut response = next.run(request).instrument(span).await;
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// Returns the ID of the client, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get(REQUEST_ID).filter(|id| is_loggable(id.as_bytes()));
    let new = || HeaderValue::from_str(&RandomIds.uuid()).ok();
    // A UUID is always a value of a header.
    sent.cloned().or_else(new).unwrap_or(HeaderValue::from_static("unknown"))
}

fn is_loggable(id: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
    !id.is_empty() && id.len() <= MAX_BYTES && id.iter().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_client_is_kept_if_a_log_can_have_it() {
        let id_of = |sent: &[u8]| {
            let sent = HeaderValue::from_bytes(sent).unwrap();
            request_id(&HeaderMap::from_iter([(REQUEST_ID, sent)]))
        };
        assert_eq!(id_of(b"ci-4711.2"), "ci-4711.2");
        let long = "a".repeat(MAX_BYTES + 1);
        for refused in [b"".as_slice(), b"a b", b"a\"b", "ä".as_bytes(), long.as_bytes()] {
            let id = id_of(refused);
            assert_eq!(id.len(), 36, "{id:?}");
            assert_ne!(id, id_of(refused), "a new one for each request");
        }
        assert_eq!(request_id(&HeaderMap::new()).len(), 36);
    }
}
