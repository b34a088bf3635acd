//! Requests that another server has forwarded.
//!
//! They come over a connection between servers only. The other server has checked the client: its header says whether that is
//! the operator, and replaces one that the client sent. What it forwarded is not forwarded again.

use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::HeaderValue;

use super::connection_slots::{Connection, ConnectionSlots, Peer};

/// Says whether a forwarded request is the operator's.
pub(super) const FORWARDED: &str = "x-nomad-csi-forwarded";
/// It is.
const OPERATOR: &str = "operator";
/// It is of another client.
const CLIENT: &str = "client";

/// Returns the value for a client.
pub(super) fn forwarded_for(is_operator: bool) -> HeaderValue {
    HeaderValue::from_static(if is_operator { OPERATOR } else { CLIENT })
}

/// Returns the API for a connection of another server, whose requests share these places.
pub fn forwarded_router(router: axum::Router, places: ConnectionSlots) -> axum::Router {
    router.layer(from_fn_with_state(places, with_connection))
}

async fn with_connection(
    State(places): State<ConnectionSlots>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_operator = request.headers().get(FORWARDED).is_some_and(|who| who == OPERATOR);
    let peer = if is_operator { Peer::Operator } else { Peer::Network };
    if let Some(place) = places.enter().await {
        request.extensions_mut().insert(Connection::new(peer, place).forwarded());
    }
    next.run(request).await
}
