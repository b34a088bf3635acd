//! A request to Nomad's API, and the checks that refuse one before it is sent.

use std::time::Duration;

use http::header::ACCEPT_ENCODING;
use http::{HeaderMap, HeaderValue, Method};

use super::address::Address;
use super::retrying::Access;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::{IdProblem, JobId, Secrets};
use nomad_csi_wire::{self as wire, SECRETS};

/// A request, without the headers and parameters that every request has.
#[derive(Clone, Debug)]
pub(super) struct ApiRequest<'a> {
    pub(super) method: Method,
    /// Path segments below `/v1`, not percent-encoded.
    pub(super) path: &'a [&'a str],
    pub(super) query: Vec<(&'static str, &'a str)>,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<&'a [u8]>,
    /// Limit until the response begins; `None` means the default of the kind of access.
    pub(super) timeout: Option<Duration>,
}

impl<'a> ApiRequest<'a> {
    pub(super) fn new(method: Method, path: &'a [&'a str]) -> Self {
        Self { method, path, query: vec![], headers: HeaderMap::new(), body: None, timeout: None }
    }

    /// Asks for a response that is not compressed. A server compresses what hardly shrinks, such as
    /// hashes, more slowly than a network carries it.
    #[must_use]
    pub(super) fn uncompressed(mut self) -> Self {
        let identity = HeaderValue::from_static("identity");
        self.headers.insert(ACCEPT_ENCODING, identity);
        self
    }
}

/// The action of a request and its server, for errors.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestContext<'a> {
    /// The action, as in "cannot create volume `db0`": verb and object.
    pub(super) action: &'a str,
    pub(super) access: Access,
    pub(super) address: &'a Address,
    /// True if the client has a certificate.
    pub(super) has_identity: bool,
    /// True if requests carry a token.
    pub(super) has_token: bool,
}

/// Says how to raise a limit.
pub(super) fn limit_help(limit: &str) -> String {
    format!("if the server is right, raise the limit with `--response-limit {limit}=VALUE`")
}

impl<'a> RequestContext<'a> {
    /// The server's name in messages.
    pub(super) fn server(self) -> &'a str {
        &self.address.name
    }

    /// The headline of a request that failed.
    pub(super) fn failed(self, reason: &str) -> String {
        format!("cannot {}: {reason}", self.action)
    }

    /// The error of a read whose response exceeds a limit: "more than 5 pages".
    pub(super) fn above_limit(self, what: &str, limit: &str) -> ApiError {
        let reason = format!("`{}` sent {what} (limit `{limit}`)", self.server());
        ApiError::new(Code::ApiTooLarge, self.failed(&reason)).status(200).help(limit_help(limit))
    }

    /// The error of a response that the request cannot have.
    pub(super) fn unexpected_response(self, reason: &str) -> ApiError {
        ApiError::new(Code::ApiNotNomad, self.failed(reason)).status(200)
    }

    /// The error of a request without a response that shows its outcome. The outcome of a write is
    /// unknown; a read failed.
    pub(super) fn no_clear_response(self, code: Code, reason: &str) -> ApiError {
        let (code, message, help) = match self.access {
            Access::Read => (code, self.failed(reason), vec![]),
            Access::Write | Access::VolumeWrite => (
                Code::ApiOutcomeUnknown,
                format!(
                    "the outcome of the request to {} is unknown: {reason}",
                    self.action
                ),
                vec![
                    "check the current state before you repeat the command: the request may have taken effect"
                        .to_owned(),
                ],
            ),
        };
        ApiError { help, ..ApiError::new(code, message) }
    }
}

/// Refuses an ID that the server would read as another path.
pub(super) fn check_addressable(id: &str, action: &str) -> Result<(), ApiError> {
    let problem = match id {
        "" => IdProblem::Empty,
        "." | ".." => IdProblem::DotSegment,
        id if id.contains('/') => IdProblem::Unaddressable('/'),
        _ => return Ok(()),
    };
    Err(unaddressable(action, &problem.to_string()))
}

fn unaddressable(action: &str, problem: &str) -> ApiError {
    ApiError::new(
        Code::VolumeUnaddressable,
        format!("cannot {action}: the ID is invalid: {problem}"),
    )
}

/// Refuses a job's ID that the server would read as another path. It may contain `/`, as those of dispatched and periodic
/// jobs do.
pub(super) fn check_addressable_job(id: &JobId, action: &str) -> Result<(), ApiError> {
    match id.path_problem() {
        None => Ok(()),
        Some(problem) => Err(unaddressable(action, &problem.to_string())),
    }
}

/// Returns the `X-Nomad-CSI-Secrets` header, or no header if `secrets` is empty.
pub(super) fn secrets_header(secrets: &Secrets, action: &str) -> Result<HeaderMap, ApiError> {
    let mut headers = HeaderMap::new();
    if !secrets.is_empty() {
        let header = wire::secrets_header(secrets)
            .map_err(|error| unsendable_request(action, &error.to_string()))?;
        let mut value = HeaderValue::from_bytes(header.as_bytes())
            .map_err(|error| unsendable_request(action, &error.to_string()))?;
        value.set_sensitive(true);
        headers.insert(SECRETS, value);
    }
    Ok(headers)
}

/// The error for a request that HTTP or JSON cannot carry.
pub(super) fn unsendable_request(action: &str, reason: &str) -> ApiError {
    ApiError::new(Code::ApiUnsendable, format!("cannot {action}: {reason}"))
}
