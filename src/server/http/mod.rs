//! Nomad's HTTP API for volumes, plugins and variables, and what official clients ask besides
//! (`nomad-http-api` 1 to 4, `nomad-neighbour-apis` 0 and 4).
//!
//! A request is taken apart here and nowhere else: its path becomes a `Route`, its query
//! `Parameters`, its body a document of `wire`. Handlers decode, call, encode; what they do stands
//! in `server::volumes` and `state`. No handler looks at headers that say what the body is, because
//! Go's client sends none.

mod blocking;
mod neighbours;
mod parameters;
mod plugins;
mod provider;
mod reply;
mod route;
mod router;
mod variables;
mod volumes;

pub use router::{MAX_BODY, router};

#[cfg(test)]
mod tests;
