//! Nomad's HTTP API, client side: the only module that speaks HTTP to a server.
//!
//! [`NomadClient`] implements [`crate::ports::VolumeApi`] against every Nomad from 1.1 to 2.0 and our
//! own agent. Its promise: a read answers what the server said, and a write is sent once; when it is
//! not known whether a write arrived, that is what is said.

mod address;
mod client;
mod connection;
mod endpoint;
mod error;
mod reply;
mod retrying;
mod session;
mod settings;
mod tls;
mod transport;
mod version;

pub use client::NomadClient;
pub use settings::{Hidden, ProxySettings, Settings, TlsSettings};
