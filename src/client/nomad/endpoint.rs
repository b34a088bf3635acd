//! Sends requests to one server and receives the responses.
//!
//! Nothing is read, resolved or opened before the first request. Settings that HTTP cannot carry,
//! such as a token with a line break, are refused before that.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use parking_lot::Mutex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::address::{Address, BasicAuth};
use super::connection_error::{connection_error, timeout_error};
use super::limits::{ResponseLimits, limit_size};
use super::request::{ApiRequest, RequestContext, limit_help};
use super::retrying::{Access, AttemptError};
use super::settings::{
    ClientSettings, RedactedString, SlowResponseObserver, TlsSettings, TokenSource,
};
use super::transport::Transport;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::{ErrorBody, TOKEN};

/// Limit until the response to a read begins.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// Limit until the response to a write begins. Nomad gives a controller two minutes, queues the
/// requests of one plugin, and tries each of its instances.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// How long a request may take before that is said.
const SLOW: Duration = Duration::from_secs(3);
/// Limit of an error body, in bytes; the rest is not read.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The characters to percent-encode in a path segment.
const PATH_SEGMENT: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The response of a server.
#[derive(Clone, Debug)]
pub(super) struct ApiResponse {
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
    has_identity: bool,
    auth: Option<BasicAuth>,
    /// The token of every request, marked as sensitive.
    token: Mutex<Option<HeaderValue>>,
    token_source: Option<Arc<dyn TokenSource>>,
    /// The other headers of every request.
    headers: HeaderMap,
    limits: ResponseLimits,
    request_timeout: Option<Duration>,
    slow_responses: Option<Arc<dyn SlowResponseObserver>>,
    /// True after a slow response was reported.
    is_reported_slow: AtomicBool,
    http: OnceCell<reqwest::Client>,
}

impl Endpoint {
    /// Checks the settings. Connects to nothing.
    pub(super) fn new(settings: &ClientSettings) -> Result<Self, ApiError> {
        let mut address = Address::parse(settings.address.expose())?;
        let non_empty = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(name) = non_empty(&settings.name) {
            address.name = name;
        }
        let http_auth = settings.http_auth.as_ref().map(RedactedString::expose);
        let http_auth = http_auth.and_then(BasicAuth::parse);
        let auth = address.auth.take().or(http_auth);
        let transport = Transport {
            address,
            host_address: settings.host_address,
            tls: TlsSettings {
                server_name: non_empty(&settings.tls.server_name),
                ..settings.tls.clone()
            },
            proxies: settings.proxies.clone(),
        };
        let token = settings.token.as_ref().map(|token| token.expose().trim());
        let token = token.filter(|token| !token.is_empty());
        let identity = settings.tls.client_certificate.as_deref();
        Ok(Self {
            url: transport.url()?,
            region: non_empty(&settings.region),
            namespace: non_empty(&settings.namespace),
            has_identity: identity.is_some_and(|path| path != Path::new("")),
            auth,
            token: Mutex::new(token.map(token_header).transpose()?),
            token_source: settings.token_source.clone(),
            headers: common_headers(transport.host_header())?,
            transport,
            limits: settings.limits.clone(),
            request_timeout: settings.request_timeout,
            slow_responses: settings.slow_responses.clone(),
            is_reported_slow: AtomicBool::new(false),
            http: OnceCell::new(),
        })
    }

    /// The server's name in messages.
    pub(super) fn name(&self) -> &str {
        &self.transport.address.name
    }

    /// Returns what the server may send.
    pub(super) fn limits(&self) -> &ResponseLimits {
        &self.limits
    }

    /// The token, to remove it from errors.
    pub(super) fn token(&self) -> Option<RedactedString> {
        let token = self.token_header()?;
        token.to_str().ok().map(RedactedString::new)
    }

    fn token_header(&self) -> Option<HeaderValue> {
        let token = self.token.lock();
        token.clone()
    }

    /// Looks the token up again, and keeps it. Returns it if it is not the refused one: another request may have been
    /// refused and have kept it first.
    async fn token_after(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let source = self.token_source.clone()?;
        let found = tokio::task::spawn_blocking(move || source.current()).await;
        let found = token_header(found.ok().flatten()?.expose()).ok()?;
        if refused == Some(&found) {
            return None;
        }
        *self.token.lock() = Some(found.clone());
        Some(found)
    }

    /// The context of a request, for its errors.
    pub(super) fn context<'a>(&'a self, action: &'a str, access: Access) -> RequestContext<'a> {
        RequestContext {
            action,
            access,
            address: &self.transport.address,
            has_identity: self.has_identity,
            has_token: self.has_token(),
        }
    }

    /// Returns whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.token_header().is_some()
    }

    /// Sends a request once and receives the response, whatever its status.
    pub(super) async fn send(
        &self,
        request: &ApiRequest<'_>,
        context: RequestContext<'_>,
    ) -> Result<ApiResponse, AttemptError> {
        let response = self.begin(request, context).await?;
        receive(response, &self.limits, context).await
    }

    /// Sends a read once and returns its response as soon as it begins, if its status is 200.
    pub(super) async fn stream(
        &self,
        request: &ApiRequest<'_>,
        context: RequestContext<'_>,
    ) -> Result<StreamedResponse, AttemptError> {
        let response = self.begin(request, context).await?;
        if response.status() != StatusCode::OK {
            let refused = receive(response, &self.limits, context).await?;
            return Ok(StreamedResponse::Refused(refused));
        }
        Ok(StreamedResponse::Open(Box::new(ResponseStream {
            response,
            limits: self.limits.clone(),
            action: context.action.to_owned(),
            address: self.transport.address.clone(),
        })))
    }

    async fn begin(
        &self,
        request: &ApiRequest<'_>,
        context: RequestContext<'_>,
    ) -> Result<reqwest::Response, AttemptError> {
        let http =
            self.http.get_or_try_init(|| self.transport.build_client()).await.map_err(|error| {
                let message = context.failed(&error.message);
                AttemptError::permanent(ApiError { message, ..error })
            })?;
        let token = self.token_header();
        let response = self.execute(http, (request, token.as_ref()), context).await?;
        // A refused request had no effect. A server that was started again has another token.
        if response.status() == StatusCode::FORBIDDEN
            && let Some(token) = self.token_after(token.as_ref()).await
        {
            return self.execute(http, (request, Some(&token)), context).await;
        }
        Ok(response)
    }

    async fn execute(
        &self,
        http: &reqwest::Client,
        (request, token): (&ApiRequest<'_>, Option<&HeaderValue>),
        context: RequestContext<'_>,
    ) -> Result<reqwest::Response, AttemptError> {
        let ready = self
            .build_request(http, request, token)
            .map_err(|error| connection_error(&error, context))?;
        let default = match context.access {
            Access::Read => READ_TIMEOUT,
            Access::Write | Access::VolumeWrite => WRITE_TIMEOUT,
        };
        let timeout = request.timeout.or(self.request_timeout).unwrap_or(default);
        tracing::debug!(method = %ready.method(), path = ready.url().path(), "request");
        let sending = tokio::time::timeout(timeout, http.execute(ready));
        let response = self
            .report_if_slow(sending, request, context)
            .await
            .map_err(|_| timeout_error(timeout, context))?
            .map_err(|error| connection_error(&error, context))?;
        tracing::debug!(status = response.status().as_u16(), "response");
        Ok(response)
    }

    /// Waits for a response, and says once if that takes long. A server holds a blocking query on purpose.
    async fn report_if_slow<T>(
        &self,
        sending: impl Future<Output = T>,
        request: &ApiRequest<'_>,
        context: RequestContext<'_>,
    ) -> T {
        let is_held = request.query.iter().any(|(key, _)| matches!(*key, "index" | "wait"));
        let Some(observer) = self.slow_responses.as_ref().filter(|_| !is_held) else {
            return sending.await;
        };
        let mut sending = std::pin::pin!(sending);
        if let Ok(ended) = tokio::time::timeout(SLOW, sending.as_mut()).await {
            return ended;
        }
        if !self.is_reported_slow.swap(true, Ordering::Relaxed) {
            observer.no_response_yet(self.name(), context.action, SLOW);
        }
        sending.await
    }

    fn build_request(
        &self,
        http: &reqwest::Client,
        request: &ApiRequest<'_>,
        token: Option<&HeaderValue>,
    ) -> Result<reqwest::Request, reqwest::Error> {
        let mut url = self.url.clone();
        let path: String = ["v1"]
            .iter()
            .chain(request.path)
            .map(|segment| format!("/{}", utf8_percent_encode(segment, PATH_SEGMENT)))
            .collect();
        url.set_path(&path);
        let mut builder = http
            .request(request.method.clone(), url)
            .query(&self.query(request))
            .headers(self.headers.clone())
            .headers(request.headers.clone());
        if let Some(token) = token {
            builder = builder.header(TOKEN, token);
        }
        if let Some(auth) = &self.auth {
            builder =
                builder.basic_auth(&auth.user, auth.password.as_ref().map(RedactedString::expose));
        }
        if let Some(body) = request.body {
            builder = builder.header(CONTENT_TYPE, "application/json").body(body.to_vec());
        }
        builder.build()
    }

    /// Returns the request's parameters and the settings', sorted as Go's client sorts them.
    fn query<'a>(&'a self, request: &ApiRequest<'a>) -> Vec<(&'static str, &'a str)> {
        let mut query = request.query.clone();
        let has_namespace = query.iter().any(|(key, _)| *key == "namespace");
        let namespace = self.namespace.as_deref().filter(|_| !has_namespace);
        query.extend(namespace.map(|namespace| ("namespace", namespace)));
        query.extend(self.region.as_deref().map(|region| ("region", region)));
        query.sort_unstable();
        query
    }
}

fn unsendable(name: &str) -> ApiError {
    ApiError::new(
        Code::ApiUnsendable,
        format!("{name} contains a character that an HTTP header cannot carry"),
    )
}

fn token_header(token: &str) -> Result<HeaderValue, ApiError> {
    let value = HeaderValue::from_bytes(token.as_bytes());
    let mut value = value.map_err(|_| unsendable("the token"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn common_headers(host: Option<String>) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    let accept = format!("application/json, {}", ErrorBody::MEDIA_TYPE);
    let accept = HeaderValue::try_from(accept).map_err(|_| unsendable("the media type"))?;
    headers.insert(ACCEPT, accept);
    if let Some(host) = host {
        let value = HeaderValue::try_from(host).map_err(|_| unsendable("the host"))?;
        headers.insert(HOST, value);
    }
    Ok(headers)
}

async fn receive(
    mut response: reqwest::Response,
    limits: &ResponseLimits,
    context: RequestContext<'_>,
) -> Result<ApiResponse, AttemptError> {
    let status = response.status();
    let headers = response.headers().clone();
    let until = Instant::now() + limits.response_time();
    let mut body = vec![];
    loop {
        let chunk = next_chunk(&mut response, until, limits, context).await?;
        let chunk = match chunk {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // The status of a refusal is enough.
            Err(_) if !status.is_success() => break,
            Err(error) => return Err(connection_error(&error, context)),
        };
        if !status.is_success() {
            let room = MAX_ERROR_BODY - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == MAX_ERROR_BODY {
                break;
            }
        } else if body.len() + chunk.len() > limits.response_bytes {
            return Err(too_large(status, limits, context));
        } else {
            body.extend_from_slice(&chunk);
        }
    }
    Ok(ApiResponse { status, headers, body })
}

/// The response to a read whose body is read piece by piece.
pub(super) enum StreamedResponse {
    /// The server sends the body.
    Open(Box<ResponseStream>),
    /// The server refused.
    Refused(ApiResponse),
}

/// The body of a response that is read piece by piece.
pub(super) struct ResponseStream {
    response: reqwest::Response,
    limits: ResponseLimits,
    action: String,
    address: Address,
}

impl ResponseStream {
    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            action: &self.action,
            access: Access::Read,
            address: &self.address,
            has_identity: false,
            has_token: false,
        }
    }

    /// Waits for the next piece; `None` at the end. The pause before it is limited.
    pub(super) async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, ApiError> {
        let silence = self.limits.silence();
        let chunk = tokio::time::timeout(silence, self.response.chunk()).await;
        let context = self.context();
        match chunk {
            Ok(Ok(chunk)) => Ok(chunk.map(|chunk| chunk.to_vec())),
            Ok(Err(error)) => Err(connection_error(&error, context).error),
            Err(_) => {
                let what = format!("sent nothing for {}s", self.limits.silence_seconds);
                Err(too_slow(&what, "silence-seconds", context).error)
            }
        }
    }

    /// The error of a body that is not as expected.
    pub(super) fn unexpected(&self, reason: &str) -> ApiError {
        self.context().unexpected_response(reason)
    }
}

/// Waits for the next part of a response: neither a pause nor the whole response may take too long.
async fn next_chunk(
    response: &mut reqwest::Response,
    until: Instant,
    limits: &ResponseLimits,
    context: RequestContext<'_>,
) -> Result<reqwest::Result<Option<hyper::body::Bytes>>, AttemptError> {
    let silence = Instant::now() + limits.silence();
    match timeout_at(silence.min(until), response.chunk()).await {
        Ok(chunk) => Ok(chunk),
        Err(_) if silence <= until => Err(too_slow(
            &format!("sent nothing for {}s", limits.silence_seconds),
            "silence-seconds",
            context,
        )),
        Err(_) => Err(too_slow(
            &format!("did not complete its response within {}s", limits.response_seconds),
            "response-seconds",
            context,
        )),
    }
}

fn too_slow(what: &str, limit: &str, context: RequestContext<'_>) -> AttemptError {
    let reason = format!("`{}` {what} (limit `{limit}`)", context.server());
    let mut error = context.no_clear_response(Code::ApiTimeout, &reason);
    error.help.push(limit_help(limit));
    AttemptError::permanent(error)
}

fn too_large(
    status: StatusCode,
    limits: &ResponseLimits,
    context: RequestContext<'_>,
) -> AttemptError {
    let limit = "response-bytes";
    let reason = format!(
        "the response of `{}` is larger than {} (limit `{limit}`)",
        context.server(),
        limit_size(limits.response_bytes)
    );
    AttemptError::permanent(
        ApiError::new(Code::ApiTooLarge, context.failed(&reason))
            .status(status.as_u16())
            .help(limit_help(limit)),
    )
}
