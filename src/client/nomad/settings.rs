//! How to reach a server, as plain values.
//!
//! The CLI fills them from flags, environment variables and the config file. This module reads
//! nothing.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::limits::ResponseLimits;

/// A secret string that its `Debug` output does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct RedactedString(Zeroizing<String>);

impl RedactedString {
    /// Wraps a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the secret, to send it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for RedactedString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Finds the token of a server that makes a new one at each start.
pub trait TokenSource: std::fmt::Debug + Send + Sync {
    /// The token of the server that runs now. Blocks.
    fn current(&self) -> Option<RedactedString>;
}

/// Observes that a server takes long to respond.
pub trait SlowResponseObserver: std::fmt::Debug + Send + Sync {
    /// The server has not responded to a request for this time. The request goes on. `action` completes "to".
    fn no_response_yet(&self, server: &str, action: &str, after: Duration);
}

/// The settings of a client. An empty text counts as unset.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The server's name in messages; the address by default.
    pub name: Option<String>,
    /// `NOMAD_ADDR`: `http://`, `https://` or `unix://`; may contain `user:password@`.
    pub address: RedactedString,
    /// The only IP address of the host, if it has to be this one.
    pub host_address: Option<IpAddr>,
    /// `NOMAD_REGION`: sent with every request.
    pub region: Option<String>,
    /// `NOMAD_NAMESPACE`: the namespace of requests that set none.
    pub namespace: Option<String>,
    /// `NOMAD_TOKEN`.
    pub token: Option<RedactedString>,
    /// Where the token is looked up again after a refusal, if the user gave none.
    pub token_source: Option<Arc<dyn TokenSource>>,
    /// `NOMAD_HTTP_AUTH`: `user:password` or `user`; the user in the address takes precedence.
    pub http_auth: Option<RedactedString>,
    /// Certificates and server names.
    pub tls: TlsSettings,
    /// HTTP proxies.
    pub proxies: ProxySettings,
    /// The limits of the server's responses.
    pub limits: ResponseLimits,
    /// The limit until the response to a request begins; the client's own limits by default. A request that a server
    /// holds until something happens has another one.
    pub request_timeout: Option<Duration>,
    /// Observes the first request that takes long.
    pub slow_responses: Option<Arc<dyn SlowResponseObserver>>,
}

impl ClientSettings {
    /// The default address of Nomad's agent.
    pub const DEFAULT_ADDRESS: &str = "http://127.0.0.1:4646";

    /// Settings of an address, with everything else unset.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            name: None,
            address: RedactedString::new(address),
            host_address: None,
            region: None,
            namespace: None,
            token: None,
            token_source: None,
            http_auth: None,
            tls: TlsSettings::default(),
            proxies: ProxySettings::default(),
            limits: ResponseLimits::default(),
            request_timeout: None,
            slow_responses: None,
        }
    }
}

impl Default for ClientSettings {
    fn default() -> Self {
        Self::new(Self::DEFAULT_ADDRESS)
    }
}

/// Trusted authorities and the client certificate.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// `NOMAD_CACERT`: a PEM file; takes precedence over the directory. The default is the system's
    /// authorities.
    pub ca_file: Option<PathBuf>,
    /// `NOMAD_CAPATH`: a directory of PEM files.
    pub ca_directory: Option<PathBuf>,
    /// `NOMAD_CLIENT_CERT`: a PEM file; requires the key.
    pub client_certificate: Option<PathBuf>,
    /// `NOMAD_CLIENT_KEY`: an unencrypted PEM file; requires the certificate.
    pub client_key: Option<PathBuf>,
    /// `NOMAD_TLS_SERVER_NAME`: the name in the server's certificate, if not the address's host.
    pub server_name: Option<String>,
    /// `NOMAD_SKIP_VERIFY`: accept any certificate.
    pub skip_verify: bool,
}

/// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, as Go's client reads them. Requests to this machine
/// use no proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// The proxy for `http://` addresses.
    pub http: Option<RedactedString>,
    /// The proxy for `https://` addresses.
    pub https: Option<RedactedString>,
    /// Hosts to reach without a proxy, separated by commas.
    pub no_proxy: Option<String>,
}
