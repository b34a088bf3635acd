//! [`Role`]: what the owner of a certificate may do.
//!
//! A role is a DNS name of the certificate, with the region in it. rustls compares it; no parser of certificates is here.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// What the owner of a certificate may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// It answers nodes and calls them.
    Server,
    /// It runs allocations.
    Node,
    /// It sends requests of users.
    Client,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Server, Self::Node, Self::Client];

    /// Returns the word for it in names and commands.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Node => "node",
            Self::Client => "client",
        }
    }

    /// Returns the DNS name that a certificate of this role has.
    pub fn dns_name(self, region: &str) -> String {
        format!("{}.{region}.nomad-csi", self.as_str())
    }

    /// Returns the same name for rustls; `None` if the region cannot be a part of a DNS name.
    pub(crate) fn server_name(self, region: &str) -> Option<ServerName<'static>> {
        let is_label = !region.is_empty() && !region.contains(['.', '*']);
        ServerName::try_from(self.dns_name(region)).ok().filter(|_| is_label)
    }

    /// Returns whether a certificate has this role. Its issuer was checked before.
    pub(crate) fn is_in(self, region: &str, certificate: &CertificateDer<'_>) -> bool {
        let parsed = ParsedCertificate::try_from(certificate).ok();
        let name = self.server_name(region);
        parsed.zip(name).is_some_and(|(parsed, name)| verify_server_name(&parsed, &name).is_ok())
    }
}
