//! The API for tests of what the operator may do.

use super::connection_slots::{Connection, ConnectionSlots, Peer};
use super::operator::OperatorAccess;
use super::router::{HttpSettings, router};
use crate::services::Services;

/// More connections than a test has.
const MANY: usize = 4096;

/// Serves the API of these services to the operator, over one connection of this machine.
pub async fn operator_router(services: Services, settings: HttpSettings) -> axum::Router {
    let router = router(services, settings, OperatorAccess::default());
    match ConnectionSlots::new(MANY, MANY, MANY).enter().await {
        Some(place) => router.layer(axum::Extension(Connection::new(Peer::Operator, place))),
        None => router,
    }
}
