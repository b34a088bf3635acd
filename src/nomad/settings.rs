//! How to reach a server, as plain values: who fills them (flags, environment, a file) is not known
//! here, and nothing here is read from anywhere (`nomad-http-api` 2.2).

use std::path::PathBuf;

use zeroize::Zeroizing;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(Zeroizing<String>);

impl Hidden {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[hidden]")
    }
}

/// Everything that a client needs to know of a server. Empty texts count as not given.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What people call the server, if not by its address.
    pub name: Option<String>,
    /// `NOMAD_ADDR`: `http://`, `https://` or `unix://`; may hold `user:password@`.
    pub address: Hidden,
    /// `NOMAD_REGION`: sent with every request.
    pub region: Option<String>,
    /// `NOMAD_NAMESPACE`: for requests that name none of their own.
    pub namespace: Option<String>,
    /// `NOMAD_TOKEN`.
    pub token: Option<Hidden>,
    /// `NOMAD_HTTP_AUTH`: `user:password` or `user`; the address's own wins.
    pub http_auth: Option<Hidden>,
    /// Certificates and names.
    pub tls: TlsSettings,
    /// Proxies on the way.
    pub proxies: ProxySettings,
}

impl Settings {
    /// Where Nomad's agent listens unless it was configured otherwise.
    pub const DEFAULT_ADDRESS: &str = "http://127.0.0.1:4646";

    /// Settings of an address, with nothing else given.
    pub fn new(address: impl Into<String>) -> Self {
        Self {
            name: None,
            address: Hidden::new(address),
            region: None,
            namespace: None,
            token: None,
            http_auth: None,
            tls: TlsSettings::default(),
            proxies: ProxySettings::default(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(Self::DEFAULT_ADDRESS)
    }
}

/// Whom to trust, and who to be.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// `NOMAD_CACERT`: PEM; wins over the directory. Without either, the system's are trusted.
    pub ca_file: Option<PathBuf>,
    /// `NOMAD_CAPATH`: a directory of PEM files.
    pub ca_directory: Option<PathBuf>,
    /// `NOMAD_CLIENT_CERT`: PEM; needs the key.
    pub client_certificate: Option<PathBuf>,
    /// `NOMAD_CLIENT_KEY`: PEM, unencrypted; needs the certificate.
    pub client_key: Option<PathBuf>,
    /// `NOMAD_TLS_SERVER_NAME`: the name that the certificate must have, if not the address's host.
    pub server_name: Option<String>,
    /// `NOMAD_SKIP_VERIFY`: believe any certificate.
    pub skip_verify: bool,
}

/// `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, which Go's client follows; never for this machine.
#[derive(Clone, Debug, Default)]
pub struct ProxySettings {
    /// For `http://` addresses.
    pub http: Option<Hidden>,
    /// For `https://` addresses.
    pub https: Option<Hidden>,
    /// Hosts that are reached directly, separated by commas.
    pub none_for: Option<String>,
}
