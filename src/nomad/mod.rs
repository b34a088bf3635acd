//! Nomad's HTTP API, client side: the only module that speaks HTTP to a server.
//!
//! [`NomadClient`] implements [`crate::ports::VolumeApi`] and the ports beside it against every Nomad
//! from 1.1 to 2.0 and our own agent, and [`NomadLedger`] keeps a ledger there. Its promise: a read answers what the server said, and a write is sent once; when it is
//! not known whether a write arrived, that is what is said.

mod access;
mod address;
mod blocking;
mod client;
mod connection;
mod endpoint;
mod error;
mod ledger;
mod provider;
mod reply;
mod retrying;
mod session;
mod settings;
mod tls;
mod transport;
mod variables;
mod version;

pub use client::NomadClient;
pub use ledger::NomadLedger;
pub use settings::{Hidden, ProxySettings, Settings, TlsSettings};
