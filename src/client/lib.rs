//! Owns the way from specifications to a server: reads them ([`files`]), resolves their secrets ([`secrets`]), observes and
//! changes a server ([`reconcile`]) through its HTTP API ([`nomad`]).

pub mod files;
pub mod nomad;
pub mod ports;
pub mod reconcile;
pub mod secrets;
