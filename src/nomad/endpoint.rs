//! One server: what every request to it has, and what comes back (`nomad-http-api` 2.1 to 2.3).
//!
//! Nothing is read, resolved or opened before the first request; what cannot be sent as it is meant (a
//! token with a line break, a server name that is none) is refused before that.

use std::path::Path;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::OnceCell;
use url::Url;

use super::address::{Address, BasicAuth};
use super::connection::{Context, explain, explain_late};
use super::retrying::{Access, Failed};
use super::settings::{Hidden, Settings, TlsSettings};
use super::transport::Transport;
use crate::diagnostic::Code;
use crate::ports::ApiError;
use crate::wire::{ErrorBody, TOKEN};

/// The answer to a read must begin within this.
const READ: Duration = Duration::from_secs(60);
/// The answer to a write must begin within this: a controller has two minutes, calls of one plugin
/// queue behind each other, and each instance is tried (`nomad-http-api` 2.8).
const WRITE: Duration = Duration::from_secs(15 * 60);
/// An answer that has begun must go on within this.
const PAUSE: Duration = Duration::from_secs(60);
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
    /// The answer must begin within this; `None`: within what holds for its kind of access.
    pub(super) patience: Option<Duration>,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self {
            method,
            path,
            query: vec![],
            headers: HeaderMap::new(),
            body: None,
            patience: None,
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
    transport: Transport,
    url: Url,
    region: Option<String>,
    namespace: Option<String>,
    has_token: bool,
    has_identity: bool,
    auth: Option<BasicAuth>,
    /// On every request; the token is in it, marked as not to be shown.
    headers: HeaderMap,
    http: OnceCell<reqwest::Client>,
}

impl Endpoint {
    /// Settings, looked at but not acted upon.
    pub(super) fn new(settings: &Settings) -> Result<Self, ApiError> {
        let mut address = Address::parse(settings.address.expose())?;
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(name) = given(&settings.name) {
            address.name = name;
        }
        let http_auth = settings.http_auth.as_ref().map(Hidden::expose);
        let http_auth = http_auth.and_then(BasicAuth::parse);
        let auth = address.auth.take().or(http_auth);
        let transport = Transport {
            address,
            tls: TlsSettings {
                server_name: given(&settings.tls.server_name),
                ..settings.tls.clone()
            },
            proxies: settings.proxies.clone(),
        };
        let token = settings.token.as_ref().map(|token| token.expose().trim());
        let token = token.filter(|token| !token.is_empty());
        let identity = settings.tls.client_certificate.as_deref();
        Ok(Self {
            url: transport.url()?,
            region: given(&settings.region),
            namespace: given(&settings.namespace),
            has_token: token.is_some(),
            has_identity: identity.is_some_and(|path| path != Path::new("")),
            auth,
            headers: common_headers(token, transport.host_header())?,
            transport,
            http: OnceCell::new(),
        })
    }

    /// What people call it.
    pub(super) fn name(&self) -> &str {
        &self.transport.address.name
    }

    /// The token, to take it out of what is shown.
    pub(super) fn token(&self) -> Option<&str> {
        self.headers.get(TOKEN)?.to_str().ok()
    }

    /// Whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.has_token
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
            address: &self.transport.address,
            has_identity: self.has_identity,
        };
        let http = self
            .http
            .get_or_try_init(|| self.transport.open())
            .await
            .map_err(|error| {
                let message = format!("{what}: {}", error.message);
                Failed::for_good(ApiError { message, ..error })
            })?;
        let ready = self
            .request(http, request)
            .map_err(|error| explain(&error, context))?;
        let usual = match access {
            Access::Read => READ,
            Access::Write => WRITE,
        };
        let patience = request.patience.unwrap_or(usual);
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
        let mut url = self.url.clone();
        let path: String = ["v1"]
            .iter()
            .chain(request.path)
            .map(|segment| format!("/{}", utf8_percent_encode(segment, SEGMENT)))
            .collect();
        url.set_path(&path);
        let mut builder = http
            .request(request.method.clone(), url)
            .query(&self.query(request))
            .headers(self.headers.clone())
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

    /// The request's own parameters, then the settings', sorted as Go's client sorts them.
    fn query<'a>(&'a self, request: &Request<'a>) -> Vec<(&'static str, &'a str)> {
        let mut query = request.query.clone();
        let names_one = query.iter().any(|(key, _)| *key == "namespace");
        let namespace = self.namespace.as_deref().filter(|_| !names_one);
        query.extend(namespace.map(|namespace| ("namespace", namespace)));
        query.extend(self.region.as_deref().map(|region| ("region", region)));
        query.sort_unstable();
        query
    }
}

fn common_headers(token: Option<&str>, host: Option<String>) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    let accept = format!("application/json, {}", ErrorBody::MEDIA_TYPE);
    let unsendable = |what: &str| ApiError {
        code: Code::ApiUnsendable,
        status: None,
        message: format!("{what} has a character that no HTTP header can carry"),
        help: vec![],
        server_text: None,
    };
    let accept = HeaderValue::try_from(accept).map_err(|_| unsendable("the media type"))?;
    headers.insert(ACCEPT, accept);
    if let Some(token) = token {
        let value = HeaderValue::from_bytes(token.as_bytes());
        let mut value = value.map_err(|_| unsendable("the token"))?;
        value.set_sensitive(true);
        headers.insert(TOKEN, value);
    }
    if let Some(host) = host {
        let value = HeaderValue::try_from(host).map_err(|_| unsendable("the host"))?;
        headers.insert(HOST, value);
    }
    Ok(headers)
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
