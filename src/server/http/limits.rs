//! The limits of the HTTP API, in one place: name, meaning, default and range.
//!
//! The rule for memory: whatever clients send, the agent stays within 200 MB of what its state needs.
//! Each connection has a small buffer. The first [`FREE_BODY`] bytes of a body are always accepted, so
//! small requests work at any load; a larger body reserves its whole length from one budget for all
//! connections, before it is read and until its response is ready. A long response reserves its length
//! too; without room, a read is dropped and repeated when there is room. A decoded request takes a few times
//! the bytes of its body, because the number of its JSON values is bounded while they are decoded. The JSON of
//! listed volumes that is kept, as it is and compressed (`kept_lists`), belongs to the state: under 1 KiB a volume.
//!
//! `docs/security.md` lists the limits; a test compares it with this table.

use nomad_csi_model::{self as model, set_limit};

/// The bytes of a body that need no reservation.
pub const FREE_BODY: usize = 8 << 10;

/// The limits of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP connections that do not wait for a change.
    pub connections: usize,
    /// Connections of one client address, over loopback of each user, in any state; 0 is no limit.
    pub connections_per_address: usize,
    /// Connections of the Unix socket that do not wait for a change.
    pub socket_connections: usize,
    /// Blocking queries of TCP clients, and as many of socket clients.
    pub waiting_queries: usize,
    /// Event streams and followed logs of TCP clients, and as many of socket clients.
    pub streams: usize,
    /// Bytes of a request's line and headers.
    pub head_bytes: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Bytes of all bodies that are being handled, without the free part of each. One body always fits.
    pub total_body_bytes: usize,
    /// Seconds until a body has arrived.
    pub body_seconds: usize,
    /// JSON values in a body: objects, lists, texts, numbers and keys.
    pub json_values: usize,
    /// Elements of one JSON list in a body.
    pub list_elements: usize,
    /// Long lists that are being encoded at the same time.
    pub long_lists: usize,
    /// Bytes of all long responses that are being sent.
    pub total_response_bytes: usize,
    /// Seconds without progress while a response is sent.
    pub write_seconds: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_address: 100,
            socket_connections: 256,
            waiting_queries: 4096,
            streams: 64,
            head_bytes: 16 << 10,
            body_bytes: 8 << 20,
            total_body_bytes: 16 << 20,
            body_seconds: 30,
            json_values: 100_000,
            list_elements: 10_000,
            long_lists: 4,
            total_response_bytes: 64 << 20,
            write_seconds: 30,
        }
    }
}

/// One limit of the HTTP API.
pub type LimitField = model::LimitField<Limits>;

/// All limits, in the order of the documentation.
pub const LIMITS: &[LimitField] = &[
    LimitField::number(
        "connections",
        "TCP connections that do not wait in a blocking query",
        (1, 1 << 20),
        |limits| &mut limits.connections,
    ),
    LimitField::number(
        "connections-per-address",
        "connections of one client address, over loopback of each user, in any state; 0 is no limit",
        (0, 1 << 20),
        |limits| &mut limits.connections_per_address,
    ),
    LimitField::number(
        "socket-connections",
        "connections of the Unix socket that do not wait in a blocking query",
        (1, 1 << 20),
        |limits| &mut limits.socket_connections,
    ),
    LimitField::number(
        "waiting-queries",
        "blocking queries over TCP, and as many over the socket",
        (1, 1 << 20),
        |limits| &mut limits.waiting_queries,
    ),
    LimitField::number(
        "streams",
        "event streams and followed logs over TCP, and as many over the socket",
        (1, 1 << 20),
        |limits| &mut limits.streams,
    ),
    LimitField::size(
        "head-bytes",
        "the request line and the headers of a request",
        (8 << 10, 1 << 20),
        |limits| &mut limits.head_bytes,
    ),
    LimitField::size("body-bytes", "the body of a request", (FREE_BODY, 1 << 30), |limits| {
        &mut limits.body_bytes
    }),
    LimitField::size(
        "total-body-bytes",
        "the bodies of all requests, without the first 8 KiB of each, and as much for those of the operator; at least `body-bytes`",
        (FREE_BODY, 1 << 30),
        |limits| &mut limits.total_body_bytes,
    ),
    LimitField::number("body-seconds", "seconds for a body to arrive", (1, 3600), |limits| {
        &mut limits.body_seconds
    }),
    LimitField::number("json-values", "JSON values and keys in a body", (100, 1 << 30), |limits| {
        &mut limits.json_values
    }),
    LimitField::number(
        "list-elements",
        "elements of one JSON list in a body",
        (10, 1 << 30),
        |limits| &mut limits.list_elements,
    ),
    LimitField::number(
        "long-lists",
        "lists of 256 entries or more that are encoded at the same time",
        (1, 1 << 20),
        |limits| &mut limits.long_lists,
    ),
    LimitField::size(
        "total-response-bytes",
        "the responses of more than 16 KiB that are being sent; one always fits",
        (1 << 20, 1 << 30),
        |limits| &mut limits.total_response_bytes,
    ),
    LimitField::number(
        "write-seconds",
        "seconds in which a client reads nothing of its response",
        (1, 3600),
        |limits| &mut limits.write_seconds,
    ),
];

impl Limits {
    /// Changes a limit, given as `NAME=VALUE`.
    ///
    /// # Errors
    /// Returns why the text is not a limit.
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        set_limit(self, LIMITS, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_can_be_set_within_its_range() {
        for limit in LIMITS {
            let mut limits = Limits::default();
            let (min, max) = limit.range;
            assert!((min..=max).contains(&limit.get(&limits)), "{}", limit.name);
            for number in [min, max] {
                limits.set(&format!("{}={number}", limit.name)).unwrap();
                assert_eq!(limit.get(&limits), number, "{}", limit.name);
            }
            let above = format!("{}={}", limit.name, max + 1);
            assert!(limits.set(&above).is_err(), "{above}");
            if let Some(below) = min.checked_sub(1) {
                assert!(limits.set(&format!("{}={below}", limit.name)).is_err());
            }
        }
    }

    #[test]
    fn a_limit_is_a_number_or_a_size() {
        let mut limits = Limits::default();
        limits.set("body-bytes=32MiB").unwrap();
        assert_eq!(limits.body_bytes, 32 << 20);
        for (text, why) in [
            ("connections", "it is not of the form NAME=VALUE"),
            ("connections=many", "`many` is not a number"),
            ("connections=0", "`0` is not between 1 and 1048576"),
            ("conections=1", "`conections` is not a limit; did you mean `connections`?"),
        ] {
            assert_eq!(limits.set(text), Err(why.to_owned()), "{text}");
        }
    }
}
