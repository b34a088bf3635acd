//! Nomad's HTTP API for volumes, plugins and variables, and the endpoints that Nomad's clients also
//! need.
//!
//! Only this module decodes requests: the path becomes a `Route`, the query `Parameters`, the body a
//! document of `wire`. Handlers decode, call and encode; the work is done in `server::volumes`,
//! `server::variables` and `state`. Handlers ignore `Content-Type`, because Go's client sends none.

mod blocking;
mod cluster;
mod parameters;
mod plugins;
mod provider;
mod reply;
mod request;
mod route;
mod router;
mod variables;
mod volumes;

pub use request::MAX_BODY;
pub use router::router;

#[cfg(test)]
mod tests;
