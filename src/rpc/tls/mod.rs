//! Owns the certificates of a cluster: who makes them, which files hold them, and what they allow.
//!
//! A role is a DNS name in a certificate, so any authority can issue it, and rustls checks it.

pub(crate) mod authority;
pub(crate) mod cluster_tls;
mod https;
pub(crate) mod peer_failure;
pub(crate) mod provider;
pub(crate) mod role;
mod tls_error;
mod validity;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;

pub use authority::{Authority, IssuedFiles};
pub use cluster_tls::{ClusterTls, ClusterTlsFiles, certified_client};
pub use https::{HttpsAcceptor, HttpsFiles};
pub use role::Role;
pub use tls_error::TlsError;
