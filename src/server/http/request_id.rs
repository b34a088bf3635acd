//! The ID of a request, which its client gets in `X-Request-Id` and every log line of the request has.
//!
//! A client can send its own, so that its log and the agent's can be joined. One that is too long, or has characters that a
//! log should not have, is replaced.

use http::{HeaderMap, HeaderName, HeaderValue};

use nomad_csi_ports::{IdSource as _, RandomIds};

/// The header with the ID.
pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest ID of a client, in bytes.
const MAX_BYTES: usize = 128;

/// Returns the ID of the client, or a new one.
pub(super) fn request_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get(REQUEST_ID).filter(|id| is_loggable(id.as_bytes()));
    let new = || HeaderValue::from_str(&RandomIds.uuid()).ok();
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
