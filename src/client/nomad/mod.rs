//! The client of Nomad's HTTP API, and the only module that sends HTTP requests to a server.
//!
//! [`NomadClient`] implements [`crate::ports::VolumeApi`] and related ports against Nomad 1.1 to
//! 2.0 and the embedded agent. [`NomadLedger`] keeps a ledger in Nomad variables. A write is sent
//! once. If the outcome of a write is unknown, the error reports that.

mod acl;
mod acl_api;
mod address;
mod allocations;
mod blocking_query;
mod claims;
mod client;
mod cluster_api;
mod connection_error;
mod endpoint;
mod error_table;
mod jobs;
mod ledger;
mod limits;
mod list_budget;
mod loopback;
mod outage;
mod provider;
mod read_gate;
mod redaction;
mod request;
mod response;
mod retrying;
mod session;
mod settings;
mod tls;
mod transport;
mod variables;

pub use client::NomadClient;
pub use ledger::NomadLedger;
pub use limits::{RESPONSE_LIMITS, ResponseLimits};
pub use loopback::loopback_addresses;
pub use settings::{
    ClientSettings, ProxySettings, RedactedString, SlowResponseObserver, TlsSettings, TokenSource,
};
