//! One server: how requests to it look, and how they get there (`nomad-http-api` 2.1 to 2.3).
//!
//! Nothing is read, resolved or opened before the first request. Redirects are not followed: a
//! repeated write is not ours to allow, and a token is not for whoever a redirect names. Proxies are
//! those of the settings. HTTP/1.1 only, gzip only, TLS 1.2 and later.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use tokio::sync::OnceCell;

use super::address::{Address, BasicAuth};
use super::connection::{Context, UnknownHost, explain, explain_late};
use super::retrying::{Access, Failed};
use super::settings::{Hidden, ProxySettings, Settings, TlsSettings};
use super::tls;
use crate::diagnostic::Code;
use crate::ports::ApiError;
use crate::wire::{ErrorBody, TOKEN};

/// A connection, with its TLS handshake, must come about within this.
const CONNECT: Duration = Duration::from_secs(10);
/// The answer to a read must begin within this.
const READ: Duration = Duration::from_secs(60);
/// The answer to a write must begin within this: a controller has two minutes, calls of one plugin
/// queue behind each other, and each instance is tried (`nomad-http-api` 2.8).
const WRITE: Duration = Duration::from_secs(15 * 60);
/// An answer that has begun must go on within this.
const PAUSE: Duration = Duration::from_secs(60);
/// An idle connection is not used again after this: proxies drop them, and a write on a dropped
/// connection has an unknown outcome.
const IDLE: Duration = Duration::from_secs(10);
/// No answer is larger.
const LARGEST: usize = 64 << 20;
/// More of an error is not read.
const LARGEST_ERROR: usize = 64 << 10;

/// Characters that stand for themselves in a path.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A request, without what every request has.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    pub(super) method: Method,
    /// Segments below `/v1`, not encoded.
    pub(super) path: &'a [&'a str],
    pub(super) query: Vec<(&'static str, &'a str)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: vec![],
            headers: HeaderMap::new(),
            body: None,
        }
    }
}

/// What a server answered.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// One server.
#[derive(Debug)]
pub(super) struct Endpoint {
    address: Address,
    region: Option<String>,
    namespace: Option<String>,
    token: Option<Hidden>,
    auth: Option<BasicAuth>,
    tls: TlsSettings,
    proxies: ProxySettings,
    http: OnceCell<reqwest::Client>,
}

impl Endpoint {
    /// Settings, looked at but not acted upon.
    pub(super) fn new(settings: &Settings) -> Result<Self, ApiError> {
        let mut address = Address::parse(settings.address.expose())?;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let http_auth = settings.http_auth.as_ref().map(Hidden::expose);
        let auth = address
            .auth
            .take()
            .or_else(|| http_auth.and_then(BasicAuth::parse));
        let token = settings.token.as_ref().map(|token| token.expose().trim());
        Ok(Self {
            address,
            region: given(&settings.region),
            namespace: given(&settings.namespace),
            token: token.filter(|token| !token.is_empty()).map(Hidden::new),
            auth,
            tls: TlsSettings {
                server_name: given(&settings.tls.server_name),
                ..settings.tls.clone()
            },
            proxies: settings.proxies.clone(),
            http: OnceCell::new(),
        })
    }

    /// What people call it.
    pub(super) fn name(&self) -> &str {
        &self.address.name
    }

    /// Whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// Sends a request once and reads its answer, whatever its status.
    ///
    /// `what` is what has not happened if this fails: "volume db0 was not created".
    pub(super) async fn send(
        &self,
        request: &Request<'_>,
        access: Access,
        what: &str,
    ) -> Result<Answer, Failed> {
        let context = Context {
            what,
            access,
            address: &self.address,
            has_identity: self.tls.client_certificate.is_some(),
        };
        let http = self.http().await.map_err(|error| {
            let message = format!("{what}: {}", error.message);
            Failed::for_good(ApiError { message, ..error })
        })?;
        let ready = self
            .request(http, request)
            .map_err(|error| explain(&error, context))?;
        let patience = match access {
            Access::Read => READ,
            Access::Write => WRITE,
        };
        tracing::debug!(method = %ready.method(), path = ready.url().path(), "request");
        let response = tokio::time::timeout(patience, http.execute(ready))
            .await
            .map_err(|_| explain_late(patience, context))?
            .map_err(|error| explain(&error, context))?;
        tracing::debug!(status = response.status().as_u16(), "answer");
        receive(response, context).await
    }

    fn request(
        &self,
        http: &reqwest::Client,
        request: &Request<'_>,
    ) -> Result<reqwest::Request, reqwest::Error> {
        let mut url = self.address.base.clone();
        if let Some(name) = self.name_to_send() {
            // Resolved to the real host's addresses, see `HostResolver`.
            let _ = url.set_host(Some(name));
        }
        let path: String = ["v1"]
            .iter()
            .chain(request.path)
            .map(|segment| format!("/{}", utf8_percent_encode(segment, SEGMENT)))
            .collect();
        url.set_path(&path);
        let names_one = request.query.iter().any(|(key, _)| *key == "namespace");
        let namespace = self.namespace.as_deref().filter(|_| !names_one);
        let common = [("namespace", namespace), ("region", self.region.as_deref())];
        let mut query = request.query.clone();
        query.extend(
            common
                .iter()
                .filter_map(|(key, value)| value.map(|value| (*key, value))),
        );
        query.sort_unstable();
        let mut builder = http
            .request(request.method.clone(), url)
            .query(&query)
            .headers(self.headers())
            .headers(request.headers.clone());
        if let Some(auth) = &self.auth {
            builder = builder.basic_auth(&auth.user, auth.password.as_ref().map(Hidden::expose));
        }
        if let Some(body) = request.body {
            builder = builder
                .header(CONTENT_TYPE, "application/json")
                .body(body.to_vec());
        }
        builder.build()
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let accept = format!("application/json, {}", ErrorBody::MEDIA_TYPE);
        if let Ok(accept) = HeaderValue::try_from(accept) {
            headers.insert(ACCEPT, accept);
        }
        if let Some(token) = &self.token
            && let Ok(mut value) = HeaderValue::from_bytes(token.expose().as_bytes())
        {
            value.set_sensitive(true);
            headers.insert(TOKEN, value);
        }
        if self.name_to_send().is_some() {
            let host = self.address.base.host_str().unwrap_or_default();
            let host = match self.address.base.port() {
                Some(port) => format!("{host}:{port}"),
                None => host.to_owned(),
            };
            if let Ok(host) = HeaderValue::try_from(host) {
                headers.insert(HOST, host);
            }
        }
        headers
    }

    /// The name that is both asked for and checked in place of the host.
    fn name_to_send(&self) -> Option<&str> {
        let name = self.tls.server_name.as_deref()?;
        let direct = self.proxies.https.is_none();
        (self.address.is_https() && direct && !tls::is_ip(name)).then_some(name)
    }

    async fn http(&self) -> Result<&reqwest::Client, ApiError> {
        let build = || async {
            let config = self.tls_config().await?;
            self.build(config)
        };
        self.http.get_or_try_init(build).await
    }

    /// Reads certificates, which blocks.
    async fn tls_config(&self) -> Result<rustls::ClientConfig, ApiError> {
        if !self.address.is_https() {
            return tls::plain();
        }
        let settings = self.tls.clone();
        let by_url = self.name_to_send().is_some();
        let read = move || {
            let other = settings.server_name.as_deref().filter(|_| !by_url);
            let check = other.map_or(tls::NameCheck::Host, tls::NameCheck::Other);
            tls::secure(&settings, check)
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.map_err(|error| internal(&error.to_string()))?
    }

    fn build(&self, config: rustls::ClientConfig) -> Result<reqwest::Client, ApiError> {
        let resolver = HostResolver {
            instead: self.name_to_send().and_then(|_| self.host()),
        };
        let mut builder = reqwest::Client::builder()
            .tls_backend_preconfigured(config)
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
        builder
            .build()
            .map_err(|error| internal(&error.to_string()))
    }

    fn host(&self) -> Option<String> {
        let host = self.address.base.host_str()?;
        Some(host.trim_matches(['[', ']']).to_owned())
    }

    fn proxies(&self) -> Result<Vec<reqwest::Proxy>, ApiError> {
        let others = self.proxies.none_for.as_deref().unwrap_or_default();
        let direct = format!("localhost,127.0.0.0/8,::1,{others}");
        let none_for = reqwest::NoProxy::from_string(&direct);
        let http = self
            .proxies
            .http
            .as_ref()
            .map(|url| reqwest::Proxy::http(url.expose()));
        let https = self
            .proxies
            .https
            .as_ref()
            .map(|url| reqwest::Proxy::https(url.expose()));
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

async fn receive(mut response: reqwest::Response, context: Context<'_>) -> Result<Answer, Failed> {
    let status = response.status();
    let headers = response.headers().clone();
    let mut body = vec![];
    loop {
        let chunk = tokio::time::timeout(PAUSE, response.chunk())
            .await
            .map_err(|_| explain_late(PAUSE, context))?;
        let chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // Of a refusal, the status says enough.
            Err(_) if !status.is_success() => break,
            Err(error) => return Err(explain(&error, context)),
        };
        if !status.is_success() {
            let room = LARGEST_ERROR - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == LARGEST_ERROR {
                break;
            }
        } else if body.len() + chunk.len() > LARGEST {
            return Err(too_large(status, context));
        } else {
            body.extend_from_slice(&chunk);
        }
    }
    Ok(Answer {
        status,
        headers,
        body,
    })
}

fn too_large(status: StatusCode, context: Context<'_>) -> Failed {
    Failed::for_good(ApiError {
        code: Code::ApiTooLarge,
        status: Some(status.as_u16()),
        message: format!(
            "{}: {} answered with more than {} MiB",
            context.what,
            context.address.name,
            LARGEST >> 20
        ),
        help: vec![],
        server_text: None,
    })
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
