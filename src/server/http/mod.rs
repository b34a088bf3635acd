//! Nomad's HTTP API for volumes, plugins and variables, and the endpoints that Nomad's clients also
//! need.
//!
//! Only this module decodes requests: the path becomes a `Route`, the query `Parameters`, the body a
//! document of `wire`. Handlers decode, call and encode; the work is done in `server::volumes`,
//! `server::variables` and `claims::state`. Before all of them `guard` refuses what a web page makes a browser
//! send, `operator` refuses every client that is not the operator what `endpoints` lets only the operator do, and
//! `limits` bounds what a client can use. A server that does not lead answers reads of the state itself and forwards the rest
//! to the leader (`standby`), where it arrives checked (`forwarded`).

mod accepted_encoding;
mod access;
mod acl;
mod alloc_access;
mod allocs;
mod blocking;
mod body;
mod capabilities;
mod claims;
mod cluster;
mod compressed_list;
mod connection_slots;
mod creations;
mod credentials;
mod endpoints;
mod event_payload;
mod events;
mod filtering;
mod forwarded;
mod guard;
mod job_documents;
mod job_scale;
mod jobs;
mod kept_lists;
mod kept_stubs;
mod known_paths;
mod limits;
mod logs;
mod long_body;
mod namespaces;
mod node_pools;
mod nodes;
mod operator;
#[cfg(any(test, feature = "testing"))]
mod operator_router;
mod parameters;
mod parse_job;
mod placement_document;
mod plugins;
mod provider;
mod reply;
mod request;
mod request_id;
mod required_rights;
mod route;
mod router;
mod standby;
mod variables;
mod volume_documents;
mod volumes;

pub use connection_slots::{Connection, ConnectionSlot, ConnectionSlots, Peer};
pub use forwarded::forwarded_router;
pub use guard::AllowedHosts;
pub use limits::{FREE_BODY, LIMITS, LimitField, Limits};
pub use operator::{OperatorAccess, OperatorToken};
#[cfg(any(test, feature = "testing"))]
pub use operator_router::operator_router;
pub use router::{HttpSettings, router, router_of};
pub use standby::{LeaderLink, NotForwarded, ServerRole, Standby};

#[cfg(test)]
mod tests;
