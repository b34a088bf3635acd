//! The HTTP client of one server, built with the first request.
//!
//! The client follows no redirects: they could repeat a write, or send the token to another host.
//! It repeats no request. It uses HTTP/1.1, as Nomad's own client does, and gzip only, because
//! Nomad's `deflate` is malformed. Requests to this machine use no proxy. To check a server name
//! other than the host, the URL contains that name and resolves it to the host's addresses. An IP
//! address and a proxy make that impossible; then the name is only checked.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::Url;

use super::address::Address;
use super::connection_error::UnknownHost;
use super::settings::{ProxySettings, TlsSettings};
use super::tls;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;

/// Limit to connect, including the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of an idle connection: proxies drop them, and a write on a dropped connection has an
/// unknown outcome.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// The settings of a connection.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    pub(super) address: Address,
    /// The only IP address of the host, if it has to be this one.
    pub(super) host_address: Option<IpAddr>,
    pub(super) tls: TlsSettings,
    pub(super) proxies: ProxySettings,
}

impl Transport {
    /// Returns the URL of requests: the address, or a URL with the name in the certificate.
    pub(super) fn url(&self) -> Result<Url, ApiError> {
        let mut url = self.address.base.clone();
        if let Some(name) = self.name_in_url() {
            url.set_host(Some(name))
                .map_err(|error| tls::unusable_name(name, &error.to_string()))?;
        }
        Ok(url)
    }

    /// Returns the `Host` header if the URL contains another name.
    pub(super) fn host_header(&self) -> Option<String> {
        self.name_in_url()?;
        let host = self.address.base.host_str()?;
        Some(match self.address.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }

    /// Builds the HTTP client on a blocking thread, because it reads certificates.
    pub(super) async fn build_client(&self) -> Result<reqwest::Client, ApiError> {
        let transport = self.clone();
        let built = tokio::task::spawn_blocking(move || transport.build_blocking()).await;
        built.map_err(|error| internal(&error.to_string()))?
    }

    fn build_blocking(&self) -> Result<reqwest::Client, ApiError> {
        let resolver = HostResolver {
            override_host: match self.host_address {
                Some(address) => Some(address.to_string()),
                None => self.name_in_url().and_then(|_| self.bare_host()),
            },
        };
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls_config()?)
            .user_agent(concat!("nomad-csi/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .gzip(true)
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .dns_resolver(Arc::new(resolver))
            .no_proxy();
        for proxy in self.proxies()? {
            builder = builder.proxy(proxy);
        }
        if let Some(socket) = &self.address.socket {
            builder = with_unix_socket(builder, socket)?;
        }
        let built = builder.build();
        built.map_err(|error| internal(&error.to_string()))
    }

    fn tls_config(&self) -> Result<rustls::ClientConfig, ApiError> {
        if !self.address.is_https() {
            return tls::client_config_without_tls();
        }
        let in_url = self.name_in_url().is_some();
        let server_name = self.tls.server_name.as_deref().filter(|_| !in_url);
        tls::client_config(&self.tls, server_name)
    }

    /// Returns the server name if the URL contains it instead of the host.
    fn name_in_url(&self) -> Option<&str> {
        let name = self.tls.server_name.as_deref()?;
        let direct = self.proxies.https.is_none();
        (self.address.is_https() && direct && !tls::is_ip(name)).then_some(name)
    }

    fn bare_host(&self) -> Option<String> {
        let host = self.address.base.host_str()?;
        Some(host.trim_matches(['[', ']']).to_owned())
    }

    fn proxies(&self) -> Result<Vec<reqwest::Proxy>, ApiError> {
        let others = self.proxies.no_proxy.as_deref().unwrap_or_default();
        let direct = format!("localhost,127.0.0.0/8,::1,{others}");
        let no_proxy = reqwest::NoProxy::from_string(&direct);
        let http = self.proxies.http.as_ref();
        let https = self.proxies.https.as_ref();
        let http = http.map(|url| reqwest::Proxy::http(url.expose()));
        let https = https.map(|url| reqwest::Proxy::https(url.expose()));
        let invalid = |_| {
            ApiError::new(Code::ApiAddress, "the address of the proxy is invalid")
                .help("set HTTP_PROXY or HTTPS_PROXY to `http://HOST:PORT`")
        };
        http.into_iter()
            .chain(https)
            .map(|proxy| Ok(proxy.map_err(invalid)?.no_proxy(no_proxy.clone())))
            .collect()
    }
}

#[cfg(unix)]
fn with_unix_socket(
    builder: reqwest::ClientBuilder,
    socket: &Path,
) -> Result<reqwest::ClientBuilder, ApiError> {
    Ok(builder.unix_socket(socket))
}

#[cfg(not(unix))]
fn with_unix_socket(
    _builder: reqwest::ClientBuilder,
    socket: &Path,
) -> Result<reqwest::ClientBuilder, ApiError> {
    Err(ApiError::new(
        Code::ApiAddress,
        format!("cannot use `unix://{}`: this system has no Unix sockets", socket.display()),
    ))
}

fn internal(why: &str) -> ApiError {
    ApiError::new(Code::Internal, format!("cannot build the HTTP client: {why}"))
}

/// Resolves hosts. With `override_host`, every name resolves to the addresses of that host.
struct HostResolver {
    override_host: Option<String>,
}

impl Resolve for HostResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = self.override_host.clone().unwrap_or_else(|| name.as_str().to_owned());
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found: Result<Vec<SocketAddr>, _> = found.map(Iterator::collect);
            let found = found.map_err(|source| UnknownHost { host, source })?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
