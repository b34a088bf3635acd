//! How bytes reach a server: one HTTP client per endpoint, built at the first request.
//!
//! Redirects are not followed: a repeated write is not ours to allow, and a token is not for whoever a
//! redirect names. Nothing is sent again by this layer. HTTP/1.1 only, as Nomad's own client; gzip
//! only, because Nomad's `deflate` is none (`nomad-http-api` 2.7). Proxies are those of the settings
//! and never for this machine. A server name other than the host is asked for and checked by putting it
//! into the URL and resolving it to the host's addresses; where that cannot be (a name that is an IP
//! address, a proxy that resolves for us), it is only checked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use url::Url;

use super::address::Address;
use super::connection::UnknownHost;
use super::settings::{ProxySettings, TlsSettings};
use super::tls;
use crate::diagnostic::Code;
use crate::ports::ApiError;

/// A connection, with its TLS handshake, must come about within this.
const CONNECT: Duration = Duration::from_secs(10);
/// An idle connection is not used again after this: proxies drop them, and a write on a dropped
/// connection has an unknown outcome.
const IDLE: Duration = Duration::from_secs(10);

/// What a connection needs to know.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    pub(super) address: Address,
    pub(super) tls: TlsSettings,
    pub(super) proxies: ProxySettings,
}

impl Transport {
    /// The URL that requests go to: the address's, or one with the name that the certificate must have.
    pub(super) fn url(&self) -> Result<Url, ApiError> {
        let mut url = self.address.base.clone();
        if let Some(name) = self.name_in_url() {
            url.set_host(Some(name))
                .map_err(|error| tls::unusable_name(name, &error.to_string()))?;
        }
        Ok(url)
    }

    /// The host for the `Host` header, if the URL has another.
    pub(super) fn host_header(&self) -> Option<String> {
        self.name_in_url()?;
        let host = self.address.base.host_str()?;
        Some(match self.address.base.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }

    /// The HTTP client. Certificates are read, which blocks, so this is done elsewhere.
    pub(super) async fn open(&self) -> Result<reqwest::Client, ApiError> {
        let transport = self.clone();
        let built = tokio::task::spawn_blocking(move || transport.build()).await;
        built.map_err(|error| internal(&error.to_string()))?
    }

    fn build(&self) -> Result<reqwest::Client, ApiError> {
        let resolver = HostResolver {
            instead: self.name_in_url().and_then(|_| self.bare_host()),
        };
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls_config()?)
            .user_agent(concat!("nomad-csi/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .retry(reqwest::retry::never())
            .http1_only()
            .gzip(true)
            .connect_timeout(CONNECT)
            .pool_idle_timeout(IDLE)
            .dns_resolver(Arc::new(resolver))
            .no_proxy();
        for proxy in self.proxies()? {
            builder = builder.proxy(proxy);
        }
        if let Some(socket) = &self.address.socket {
            builder = through_socket(builder, socket)?;
        }
        let built = builder.build();
        built.map_err(|error| internal(&error.to_string()))
    }

    fn tls_config(&self) -> Result<rustls::ClientConfig, ApiError> {
        if !self.address.is_https() {
            return tls::plain();
        }
        let in_url = self.name_in_url().is_some();
        let other = self.tls.server_name.as_deref().filter(|_| !in_url);
        let check = other.map_or(tls::NameCheck::Host, tls::NameCheck::Other);
        tls::secure(&self.tls, check)
    }

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
        let others = self.proxies.none_for.as_deref().unwrap_or_default();
        let direct = format!("localhost,127.0.0.0/8,::1,{others}");
        let none_for = reqwest::NoProxy::from_string(&direct);
        let http = self.proxies.http.as_ref();
        let https = self.proxies.https.as_ref();
        let http = http.map(|url| reqwest::Proxy::http(url.expose()));
        let https = https.map(|url| reqwest::Proxy::https(url.expose()));
        let invalid = |_| ApiError {
            code: Code::ApiAddress,
            status: None,
            message: "the proxy's address is not one".to_owned(),
            help: vec!["Write `http://HOST:PORT` in HTTP_PROXY or HTTPS_PROXY.".to_owned()],
            server_text: None,
        };
        http.into_iter()
            .chain(https)
            .map(|proxy| Ok(proxy.map_err(invalid)?.no_proxy(none_for.clone())))
            .collect()
    }
}

#[cfg(unix)]
fn through_socket(
    builder: reqwest::ClientBuilder,
    socket: &Path,
) -> Result<reqwest::ClientBuilder, ApiError> {
    Ok(builder.unix_socket(socket))
}

#[cfg(not(unix))]
fn through_socket(
    _builder: reqwest::ClientBuilder,
    socket: &Path,
) -> Result<reqwest::ClientBuilder, ApiError> {
    Err(ApiError {
        code: Code::ApiAddress,
        status: None,
        message: format!("unix://{} cannot be used on this system", socket.display()),
        help: vec![],
        server_text: None,
    })
}

fn internal(why: &str) -> ApiError {
    ApiError {
        code: Code::Internal,
        status: None,
        message: format!("the HTTP client could not be made: {why}"),
        help: vec![],
        server_text: None,
    }
}

/// Resolves hosts; with `instead`, that host in place of the one asked for, whose name is then only
/// for the certificate.
struct HostResolver {
    instead: Option<String>,
}

impl Resolve for HostResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = self
            .instead
            .clone()
            .unwrap_or_else(|| name.as_str().to_owned());
        Box::pin(async move {
            let found = tokio::net::lookup_host((host.as_str(), 0)).await;
            let found: Result<Vec<SocketAddr>, _> = found.map(Iterator::collect);
            let found = found.map_err(|source| UnknownHost { host, source })?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
