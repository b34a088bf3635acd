//! What both ends of a connection agree on: protocols, pings and windows.

use std::time::Duration;

use tonic::transport::{Endpoint, Server};

/// The node calls the server.
pub(super) const CALLS: &[u8] = b"h2";
/// The server calls the node: HTTP/2 with its roles reversed, after the token of the registration.
pub(super) const REVERSED: &[u8] = b"ncsi-node/1";

/// A connection of a node that calls, which another server forwards to the leader.
pub(crate) const FORWARDED_CALLS: &[u8] = b"ncsi-forwarded-calls/1";
/// A connection of a node on which it is called, which another server forwards to the leader.
pub(super) const FORWARDED_REVERSED: &[u8] = b"ncsi-forwarded-node/1";
/// Requests of the HTTP API that another server forwards to the leader.
pub(crate) const REQUESTS: &[u8] = b"ncsi-http/1";

/// How often each end asks whether the other one is there, and how long it waits for the answer.
const PING: Duration = Duration::from_secs(5);
/// The bytes that may be on the way in one stream.
const STREAM_WINDOW: u32 = 1 << 20;
/// The bytes that may be on the way in one connection.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The most calls at the same time on a connection. The node keeps those that wait far below it, so
/// that a report never waits behind them.
const MAX_STREAMS: u32 = 2_048;

/// The bytes that may be on the way in one request of the HTTP API, or in its response.
const REQUEST_WINDOW: u32 = 256 << 10;
/// The bytes that may be on the way in all of them: a client that does not read holds no other one up.
const REQUESTS_WINDOW: u32 = MAX_STREAMS * REQUEST_WINDOW;

/// Returns the settings of the end that forwards requests of the HTTP API.
pub(super) fn forwarding() -> Endpoint {
    let endpoint = caller().initial_stream_window_size(REQUEST_WINDOW);
    endpoint.initial_connection_window_size(REQUESTS_WINDOW)
}

/// Returns the settings of the end that answers them.
pub(super) fn answering_requests() -> Server {
    let server = answering().initial_stream_window_size(REQUEST_WINDOW);
    server.initial_connection_window_size(REQUESTS_WINDOW)
}

/// Returns the settings of the end that calls. The name is for headers only: a connection is made before.
pub(super) fn caller() -> Endpoint {
    Endpoint::from_static("http://peer")
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}

/// Returns the settings of the end that answers.
pub(super) fn answering() -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PING))
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
}
