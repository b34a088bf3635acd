//! Conversations with one server: a request, its repetition where that is safe, and the document in
//! its answer; lists page by page.
//!
//! What a server should have hidden and did not (1.1 and 1.2 answer a create with the secrets,
//! `nomad-http-api` 8.2) is hidden here, before anybody sees it.

use std::collections::HashSet;

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::without_texts;
use super::endpoint::{Answer, Endpoint, Request};
use super::reply::{self, Asked};
use super::retrying::{Access, attempt};
use super::settings::Settings;
use crate::diagnostic::Code;
use crate::model::MountOptions;
use crate::ports::{ApiError, Document, Written};
use crate::wire::{self, NEXT_TOKEN, WriteResponse};

/// What came of a request with a condition.
#[derive(Clone, Debug)]
pub(super) enum Conditional {
    /// It was carried out.
    Done(Answer),
    /// The condition did not hold.
    Refused,
}

/// One server, and how it is spoken to.
#[derive(Debug)]
pub(super) struct Session {
    endpoint: Endpoint,
}

impl Session {
    pub(super) fn new(settings: &Settings) -> Result<Self, ApiError> {
        Ok(Self {
            endpoint: Endpoint::new(settings)?,
        })
    }

    /// What people call the server.
    pub(super) fn name(&self) -> &str {
        self.endpoint.name()
    }

    /// The headers of an answer, whatever its status.
    pub(super) async fn headers(
        &self,
        request: &Request<'_>,
        what: &str,
    ) -> Result<HeaderMap, ApiError> {
        let send = || self.endpoint.send(request, Access::Read, what);
        Ok(attempt(Access::Read, send).await?.headers)
    }

    /// A success's answer; repeated where that is safe.
    pub(super) async fn call(
        &self,
        request: &Request<'_>,
        what: &str,
        access: Access,
    ) -> Result<Answer, ApiError> {
        let asked = self.asked(what, access);
        attempt(access, || async {
            let answer = self.endpoint.send(request, access, what).await?;
            reply::success(answer, asked)
        })
        .await
        .map_err(|error| self.without_token(error))
    }

    /// An error without the token, should a server or a proxy repeat it.
    fn without_token(&self, error: ApiError) -> ApiError {
        without_texts(error, self.endpoint.token())
    }

    /// The answer to what has a condition: a success, or 409 if the condition does not hold. Only
    /// variables have such (`nomad-neighbour-apis` 1.7 and 1.9: 200, 204 and 409).
    pub(super) async fn conditional(
        &self,
        request: &Request<'_>,
        what: &str,
    ) -> Result<Conditional, ApiError> {
        let access = Access::Write;
        let asked = self.asked(what, access);
        attempt(access, || async {
            let answer = self.endpoint.send(request, access, what).await?;
            match answer.status {
                StatusCode::CONFLICT => Ok(Conditional::Refused),
                StatusCode::NO_CONTENT => Ok(Conditional::Done(answer)),
                _ => reply::success(answer, asked).map(Conditional::Done),
            }
        })
        .await
        .map_err(|error| self.without_token(error))
    }

    /// The document in an answer to a write.
    pub(super) fn document<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        what: &str,
    ) -> Result<T, ApiError> {
        let asked = self.asked(what, Access::Write);
        let json: Value = reply::json(answer, asked)?;
        wire::decode_value(&json).map_err(|error| reply::other_document(&error, asked))
    }

    fn asked<'a>(&'a self, what: &'a str, access: Access) -> Asked<'a> {
        Asked {
            what,
            access,
            server: self.endpoint.name(),
            has_token: self.endpoint.has_token(),
        }
    }

    /// Reads a document and keeps its JSON.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
    ) -> Result<(T, Document), ApiError> {
        let answer = self.call(request, what, Access::Read).await?;
        kept(answer, self.asked(what, Access::Read))
    }

    /// Reads a document that may be missing.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
        missing: Code,
    ) -> Result<Option<(T, Document)>, ApiError> {
        match self.read(request, what).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.code == missing && error.status == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a document that may be missing, and the headers of the answer, whichever it is.
    pub(super) async fn find_with_headers<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
        missing: Code,
    ) -> Result<(Option<(T, Document)>, HeaderMap), ApiError> {
        let asked = self.asked(what, Access::Read);
        let (answer, headers) = attempt(Access::Read, || async {
            let answer = self.endpoint.send(request, Access::Read, what).await?;
            let headers = answer.headers.clone();
            match reply::success(answer, asked) {
                Ok(answer) => Ok((Some(answer), headers)),
                Err(failed) if failed.error.code == missing && failed.error.status == Some(404) => {
                    Ok((None, headers))
                }
                Err(failed) => Err(failed),
            }
        })
        .await?;
        match answer {
            Some(answer) => Ok((Some(kept(answer, asked)?), headers)),
            None => Ok((None, headers)),
        }
    }

    /// Sends a write and reads what it answers; servers before 1.10.5 answer a register with nothing.
    pub(super) async fn write(&self, put: &Request<'_>, what: &str) -> Result<Written, ApiError> {
        let answer = self.call(put, what, Access::Write).await?;
        if answer.body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Written::default());
        }
        let asked = self.asked(what, Access::Write);
        let mut json: Value = reply::json(&answer, asked)?;
        let mut document = json
            .get_mut("Volumes")
            .and_then(|volumes| volumes.get_mut(0));
        if let Some(volume) = &mut document {
            hide_what_is_secret(volume);
        }
        let document = document.map(|volume| Document::of(volume));
        let response: WriteResponse =
            wire::decode_value(&json).map_err(|error| reply::other_document(&error, asked))?;
        let warnings = response.warnings.lines().map(str::trim);
        Ok(Written {
            document,
            warnings: warnings
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
        })
    }

    /// A list that comes in one piece, and the headers of the answer.
    pub(super) async fn list_once<T: DeserializeOwned>(
        &self,
        request: &Request<'_>,
        what: &str,
    ) -> Result<(Vec<(T, Document)>, HeaderMap), ApiError> {
        let answer = self.call(request, what, Access::Read).await?;
        let mut all = vec![];
        self.add_page(&answer, what, &mut all)?;
        Ok((all, answer.headers))
    }

    /// All pages of a list.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&'static str, &str)],
        what: &str,
    ) -> Result<Vec<(T, Document)>, ApiError> {
        let mut all = vec![];
        let mut tokens = HashSet::new();
        let mut token: Option<String> = None;
        loop {
            let mut page = Request {
                query: query.to_vec(),
                ..Request::new(Method::GET, path)
            };
            page.query
                .extend(token.as_deref().map(|token| ("next_token", token)));
            let answer = self.call(&page, what, Access::Read).await?;
            self.add_page(&answer, what, &mut all)?;
            let next = answer.headers.get(NEXT_TOKEN).map(HeaderValue::as_bytes);
            let next = next.map(|next| String::from_utf8_lossy(next).into_owned());
            match next.filter(|next| !next.is_empty()) {
                None => return Ok(all),
                Some(next) if tokens.insert(next.clone()) => token = Some(next),
                Some(_) => return Err(self.endless(what)),
            }
        }
    }

    fn add_page<T: DeserializeOwned>(
        &self,
        answer: &Answer,
        what: &str,
        all: &mut Vec<(T, Document)>,
    ) -> Result<(), ApiError> {
        let asked = self.asked(what, Access::Read);
        let page: Option<Vec<Box<RawValue>>> = reply::json(answer, asked)?;
        let stubs = wire::decode_list(page.unwrap_or_default())
            .map_err(|error| reply::other_document(&error, asked))?;
        all.extend(
            stubs
                .into_iter()
                .map(|(stub, text)| (stub, Document::new(text))),
        );
        Ok(())
    }

    /// A list that goes round in a circle.
    pub(super) fn endless(&self, what: &str) -> ApiError {
        ApiError {
            code: Code::ApiNotNomad,
            status: Some(200),
            message: format!("{what}: {} gives the same page again", self.endpoint.name()),
            help: vec![],
            server_text: None,
        }
    }

    /// An answer about something else: no Nomad gives one.
    pub(super) fn another(&self, what: &str, id: &str) -> ApiError {
        ApiError {
            code: Code::ApiNotNomad,
            status: Some(200),
            message: format!("{what}: {} answered with `{id}`", self.endpoint.name()),
            help: vec![],
            server_text: None,
        }
    }
}

/// The document of an answer, and its JSON without secrets.
fn kept<T: DeserializeOwned>(answer: Answer, asked: Asked<'_>) -> Result<(T, Document), ApiError> {
    let mut json: Value = reply::json(&answer, asked)?;
    let has_secrets = hide_what_is_secret(&mut json);
    let read = wire::decode_value(&json).map_err(|error| reply::other_document(&error, asked))?;
    let document = match String::from_utf8(answer.body) {
        Ok(text) if !has_secrets => Document::new(text),
        Ok(_) | Err(_) => Document::of(&json),
    };
    Ok((read, document))
}

/// Hides, in a volume's JSON, what Nomad before 1.3 shows; says whether there was any.
fn hide_what_is_secret(volume: &mut Value) -> bool {
    let mut hidden = false;
    let secrets = volume.get_mut("Secrets");
    if let Some(secrets) = secrets.filter(|secrets| !secrets.is_null()) {
        *secrets = Value::Null;
        hidden = true;
    }
    let flags = volume.pointer_mut("/MountOptions/MountFlags");
    if let Some(Value::Array(flags)) = flags
        && !flags.is_empty()
    {
        *flags = vec![Value::from(MountOptions::REDACTED)];
        hidden = true;
    }
    hidden
}
