//! Requests to one server: sends, repeats where that is safe, decodes, and follows pages.
//!
//! Secrets are removed from every document, because Nomad 1.1 and 1.2 return them from Create
//! Volume.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use tokio::join;
use tokio::task::yield_now;

use super::endpoint::{ApiResponse, Endpoint, ResponseStream, StreamedResponse};
use super::list_budget::ListBudget;
use super::outage::Outage;
use super::redaction::{redact_texts, redact_volume};
use super::request::{ApiRequest, RequestContext};
use super::response;
use super::retrying::{Access, AttemptError, Retrying};
use super::settings::{ClientSettings, RedactedString};
use crate::ports::{ApiError, Document, ServerWait, WriteReply};
use nomad_csi_model::diagnostic::Code;
use nomad_csi_wire::{self as wire, NEXT_TOKEN, WriteResponse};

/// The response to a conditional write.
#[derive(Clone, Debug)]
pub(super) enum ConditionalResponse {
    /// The server made the change.
    Applied(ApiResponse),
    /// The condition did not hold.
    Conflict,
}

/// Returns the token of the page that follows; `None` after the last one.
fn next_token(response: &ApiResponse) -> Option<String> {
    let next = response.headers.get(NEXT_TOKEN).map(HeaderValue::as_bytes);
    let next = next.map(|next| String::from_utf8_lossy(next).into_owned());
    next.filter(|next| !next.is_empty())
}

/// A client session with one server.
#[derive(Debug)]
pub(super) struct Session {
    endpoint: Arc<Endpoint>,
    retrying: Retrying,
}

impl Session {
    /// Returns whether requests carry a token.
    pub(super) fn has_token(&self) -> bool {
        self.endpoint.has_token()
    }

    pub(super) fn new(settings: &ClientSettings) -> Result<Self, ApiError> {
        Ok(Self { endpoint: Arc::new(Endpoint::new(settings)?), retrying: Retrying::default() })
    }

    /// Returns a session over the same connections, whose requests wait together when the server stops
    /// responding.
    pub(super) fn waiting(&self, wait: ServerWait) -> Self {
        Self {
            endpoint: Arc::clone(&self.endpoint),
            retrying: Retrying::new(Outage::waiting(self.name(), wait)),
        }
    }

    /// Returns whether the server stopped responding, and responded again.
    pub(super) fn has_recovered(&self) -> bool {
        self.retrying.has_recovered()
    }

    /// Returns whether the server responds to a light read.
    async fn responds(&self) -> bool {
        let leader = ApiRequest::new(Method::GET, &["status", "leader"]);
        let context = self.context("find out whether the server responds", Access::Read);
        let response = self.endpoint.send(&leader, context).await;
        response.is_ok_and(|response| !response.status.is_server_error())
    }

    /// Sends a request until it succeeds; repeats it where that is safe.
    async fn send_until_done<T, F>(
        &self,
        access: Access,
        send: impl FnMut() -> F + Send,
    ) -> Result<T, ApiError>
    where
        F: Future<Output = Result<T, AttemptError>> + Send,
    {
        let probe = || self.responds();
        self.retrying.send(access, send, probe).await
    }

    /// The server's name in messages.
    pub(super) fn name(&self) -> &str {
        self.endpoint.name()
    }

    fn context<'a>(&'a self, action: &'a str, access: Access) -> RequestContext<'a> {
        self.endpoint.context(action, access)
    }

    /// Sends a request once. A read waits until few others run, unless it is a blocking query.
    async fn send(
        &self,
        request: &ApiRequest<'_>,
        context: RequestContext<'_>,
    ) -> Result<ApiResponse, AttemptError> {
        let is_blocking = request.query.iter().any(|(key, _)| *key == "index");
        let _running = match request.method == Method::GET && !is_blocking {
            true => Some(self.retrying.reads.enter().await),
            false => None,
        };
        self.endpoint.send(request, context).await
    }

    /// Returns the headers of a response, whatever its status.
    pub(super) async fn headers(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
    ) -> Result<HeaderMap, ApiError> {
        let context = self.context(action, Access::Read);
        let send = || self.send(request, context);
        Ok(self.send_until_done(Access::Read, send).await?.headers)
    }

    /// Returns the response to a request that succeeds; repeats it where that is safe.
    pub(super) async fn call(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
        access: Access,
    ) -> Result<ApiResponse, ApiError> {
        let context = self.context(action, access);
        self.send_until_done(access, || async {
            let response = self.send(request, context).await?;
            response::require_success(response, context)
        })
        .await
        .map_err(|error| self.without_token(error))
    }

    /// Opens a response whose body is read piece by piece. The read is not limited by other reads.
    pub(super) async fn stream(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
    ) -> Result<ResponseStream, ApiError> {
        let context = self.context(action, Access::Read);
        self.send_until_done(Access::Read, || async {
            match self.endpoint.stream(request, context).await? {
                StreamedResponse::Open(stream) => Ok(*stream),
                StreamedResponse::Refused(response) => {
                    let refused = response::require_success(response, context).err();
                    Err(refused.unwrap_or_else(|| {
                        AttemptError::permanent(context.unexpected_response("no body was sent"))
                    }))
                }
            }
        })
        .await
        .map_err(|error| self.without_token(error))
    }

    /// Removes the token from an error, in case a server or a proxy repeats it.
    fn without_token(&self, error: ApiError) -> ApiError {
        let token = self.endpoint.token();
        redact_texts(error, token.as_ref().map(RedactedString::expose))
    }

    /// Sends a conditional write. Only Nomad's variables API has them, and it responds with 200,
    /// 204 or 409.
    pub(super) async fn write_if(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
    ) -> Result<ConditionalResponse, ApiError> {
        let access = Access::Write;
        let context = self.context(action, access);
        self.send_until_done(access, || async {
            let response = self.send(request, context).await?;
            match response.status {
                StatusCode::CONFLICT => Ok(ConditionalResponse::Conflict),
                StatusCode::NO_CONTENT => Ok(ConditionalResponse::Applied(response)),
                _ => response::require_success(response, context).map(ConditionalResponse::Applied),
            }
        })
        .await
        .map_err(|error| self.without_token(error))
    }

    /// Decodes the document in the response to a write.
    pub(super) fn document<T: DeserializeOwned>(
        &self,
        response: &ApiResponse,
        action: &str,
    ) -> Result<T, ApiError> {
        let context = self.context(action, Access::Write);
        let limits = self.endpoint.limits().document();
        let json = response::parse_json(response, limits, context)?;
        wire::decode_value(&json).map_err(|error| response::unexpected_document(&error, context))
    }

    /// Decodes a part of a document that was read.
    pub(super) fn part<T: DeserializeOwned>(
        &self,
        json: &serde_json::Value,
        action: &str,
    ) -> Result<T, ApiError> {
        let context = self.context(action, Access::Read);
        wire::decode_value(json).map_err(|error| response::unexpected_document(&error, context))
    }

    /// Reads a document and its JSON.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
    ) -> Result<(T, Document), ApiError> {
        let response = self.call(request, action, Access::Read).await?;
        self.decode_document(response, self.context(action, Access::Read))
    }

    /// Reads a document, or returns `None` if the server reports the code `missing`.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
        missing: Code,
    ) -> Result<Option<(T, Document)>, ApiError> {
        match self.read(request, action).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == missing && error.status == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a document as [`Self::find`] does, and the headers of the response.
    pub(super) async fn find_with_headers<T: DeserializeOwned>(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
        missing: Code,
    ) -> Result<(Option<(T, Document)>, HeaderMap), ApiError> {
        let context = self.context(action, Access::Read);
        let (response, headers) = self
            .send_until_done(Access::Read, || async {
                let response = self.send(request, context).await?;
                let headers = response.headers.clone();
                match response::require_success(response, context) {
                    Ok(response) => Ok((Some(response), headers)),
                    Err(failed)
                        if failed.error.code == missing && failed.error.status == Some(404) =>
                    {
                        Ok((None, headers))
                    }
                    Err(failed) => Err(failed),
                }
            })
            .await?;
        match response {
            Some(response) => Ok((Some(self.decode_document(response, context)?), headers)),
            None => Ok((None, headers)),
        }
    }

    /// Sends a write and decodes the response. Nomad before 1.10.5 responds to Register Volume with
    /// an empty body.
    pub(super) async fn write(
        &self,
        put: &ApiRequest<'_>,
        action: &str,
    ) -> Result<WriteReply, ApiError> {
        let response = self.call(put, action, Access::VolumeWrite).await?;
        if response.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(WriteReply::default());
        }
        let context = self.context(action, Access::Write);
        let limits = self.endpoint.limits().document();
        let mut json = response::parse_json(&response, limits, context)?;
        let mut document = json.get_mut("Volumes").and_then(|volumes| volumes.get_mut(0));
        if let Some(volume) = &mut document {
            redact_volume(volume);
        }
        let document = document.map(|volume| Document::of(volume));
        let body: WriteResponse = wire::decode_value(&json)
            .map_err(|error| response::unexpected_document(&error, context))?;
        let warnings = body.warnings.lines().map(str::trim);
        Ok(WriteReply {
            document,
            warnings: warnings.filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        })
    }

    /// The budget of one list.
    pub(super) fn list_budget(&self) -> ListBudget<'_> {
        ListBudget::new(self.endpoint.limits())
    }

    /// Reads a list without pages, and returns the headers of the response.
    pub(super) async fn list_once<T: DeserializeOwned>(
        &self,
        request: &ApiRequest<'_>,
        action: &str,
        mut add: impl FnMut(T, Document) + Send,
    ) -> Result<HeaderMap, ApiError> {
        let response = self.call(request, action, Access::Read).await?;
        let mut budget = self.list_budget();
        budget.page(response.body.len(), self.context(action, Access::Read))?;
        self.add_entries(&response, action, &mut budget, &mut add)?;
        Ok(response.headers)
    }

    /// Reads all pages of a list, and passes on each entry with its JSON.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        action: &str,
        add: impl FnMut(T, Document) + Send,
    ) -> Result<(), ApiError> {
        let listed = self.list_at_most(path, query, action, usize::MAX, add);
        listed.await.map(drop)
    }

    /// Reads the pages of a list until they have more than `limit` entries, and passes on each entry with its
    /// JSON. Returns whether it read the whole list. The server makes a page while the one before it is decoded.
    pub(super) async fn list_at_most<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        action: &str,
        limit: usize,
        mut add: impl FnMut(T, Document) + Send,
    ) -> Result<bool, ApiError> {
        let mut budget = self.list_budget();
        let context = self.context(action, Access::Read);
        let page = |token: Option<String>| async move {
            let mut page =
                ApiRequest { query: query.to_vec(), ..ApiRequest::new(Method::GET, path) };
            page.query.extend(token.as_deref().map(|token| ("next_token", token)));
            self.call(&page, action, Access::Read).await
        };
        let mut response = page(None).await?;
        loop {
            budget.page(response.body.len(), context)?;
            let Some(next) = next_token(&response) else {
                self.add_entries(&response, action, &mut budget, &mut add)?;
                return Ok(true);
            };
            budget.next(&next, context)?;
            // The request goes out first.
            let adding = async {
                yield_now().await;
                self.add_entries(&response, action, &mut budget, &mut add)
            };
            let (following, added) = join!(page(Some(next)), adding);
            added?;
            if budget.items() > limit {
                return Ok(false);
            }
            response = following?;
        }
    }

    fn add_entries<T: DeserializeOwned>(
        &self,
        response: &ApiResponse,
        action: &str,
        budget: &mut ListBudget<'_>,
        add: &mut impl FnMut(T, Document),
    ) -> Result<(), ApiError> {
        let context = self.context(action, Access::Read);
        let limits = self.endpoint.limits().document();
        response::for_each_document(response, limits, context, |entry, text| {
            budget.item(context)?;
            add(entry, Document::new(text.get()));
            Ok(())
        })
    }

    /// The context of a read, for its errors.
    pub(super) fn reading<'a>(&'a self, action: &'a str) -> RequestContext<'a> {
        self.context(action, Access::Read)
    }

    /// Decodes a response to a document and its JSON, without secrets.
    fn decode_document<T: DeserializeOwned>(
        &self,
        response: ApiResponse,
        context: RequestContext<'_>,
    ) -> Result<(T, Document), ApiError> {
        let mut json = response::parse_json(&response, self.endpoint.limits().document(), context)?;
        let has_secrets = redact_volume(&mut json);
        let read = wire::decode_value(&json)
            .map_err(|error| response::unexpected_document(&error, context))?;
        let document = match String::from_utf8(response.body) {
            Ok(text) if !has_secrets => Document::new(text),
            Ok(_) | Err(_) => Document::of(&json),
        };
        Ok((read, document))
    }

    /// The error of a response about another object than the requested one.
    pub(super) fn unexpected_object(&self, action: &str, id: &str) -> ApiError {
        let context = self.context(action, Access::Read);
        let reason = format!("`{}` responded with `{id}`", context.server());
        context.unexpected_response(&reason)
    }
}
