//! Interprets responses: a document, nothing, or an error.
//!
//! Nomad reports every success as 200. Everything else is an error, and so is a 200 that Nomad
//! cannot have sent. The embedded agent sends 202 for claims that it goes on with, and typed errors, which
//! take precedence over the error text. The table in [`super::error_table`] interprets a text.

use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use serde_json::value::RawValue;

use super::endpoint::ApiResponse;
use super::error_table::{self, ErrorMeaning};
use super::request::RequestContext;
use super::retrying::AttemptError;
use crate::ports::ApiError;
use nomad_csi_model::diagnostic::Code;
use nomad_csi_model::retry::Verdict;
use nomad_csi_wire::{
    self as wire, AGENT, DecodeError, DecodeLimits, ElementProblem, ErrorBody, decode,
};

/// Returns a successful response, or the error of any other.
pub(super) fn require_success(
    response: ApiResponse,
    context: RequestContext<'_>,
) -> Result<ApiResponse, AttemptError> {
    if response.status != StatusCode::OK && !is_accepted_by_agent(&response) {
        return Err(failure(&response, context));
    }
    if looks_like_markup(&response) {
        return Err(AttemptError::permanent(not_nomad(&response, "a web page", context)));
    }
    Ok(response)
}

/// Returns whether the embedded agent goes on with what the request asked for. Nomad never sends this status.
fn is_accepted_by_agent(response: &ApiResponse) -> bool {
    response.status == StatusCode::ACCEPTED && response.headers.contains_key(AGENT)
}

/// Parses the JSON of a successful response, within limits.
pub(super) fn parse_json(
    response: &ApiResponse,
    limits: DecodeLimits,
    context: RequestContext<'_>,
) -> Result<Value, ApiError> {
    require_body(response, context)?;
    wire::parse_bounded(&response.body, limits).map_err(|problem| {
        if problem.is_limit {
            let content = format!("a document with more than {} JSON values", limits.json_values);
            return context.above_limit(&content, "json-values");
        }
        not_json(&problem.error, response, context)
    })
}

/// Passes on each document of a list, with its text.
pub(super) fn for_each_document<T: DeserializeOwned>(
    response: &ApiResponse,
    limits: DecodeLimits,
    context: RequestContext<'_>,
    see: impl FnMut(T, &RawValue) -> Result<(), ApiError>,
) -> Result<(), ApiError> {
    require_body(response, context)?;
    let read = wire::for_each_element(&response.body, limits, see);
    read.map_err(|problem| match problem {
        ElementProblem::Refused(error) => error,
        ElementProblem::Document(error) => unexpected_document(&error, context),
        ElementProblem::Json(error) => not_json(&error, response, context),
    })
}

fn require_body(response: &ApiResponse, context: RequestContext<'_>) -> Result<(), ApiError> {
    if response.body.iter().all(u8::is_ascii_whitespace) {
        return Err(not_nomad(response, "an empty body", context));
    }
    Ok(())
}

fn not_json(
    error: &serde_json::Error,
    response: &ApiResponse,
    context: RequestContext<'_>,
) -> ApiError {
    if error.is_data() {
        return unexpected_document(&DecodeError::custom(error), context);
    }
    if !error.is_eof() {
        return not_nomad(response, "a body that is not JSON", context);
    }
    let reason = format!("`{}` responded with truncated JSON", context.server());
    ApiError {
        status: Some(200),
        server_text: Some(body_excerpt(&response.body)),
        ..context.no_clear_response(Code::ApiNotNomad, &reason)
    }
}

/// The error of JSON that is not the requested document.
pub(super) fn unexpected_document(error: &DecodeError, context: RequestContext<'_>) -> ApiError {
    let reason = format!("`{}` responded with unexpected JSON ({error})", context.server());
    context.no_clear_response(Code::ApiNotNomad, &reason).status(200)
}

fn failure(response: &ApiResponse, context: RequestContext<'_>) -> AttemptError {
    let status = response.status.as_u16();
    if has_type(response, ErrorBody::MEDIA_TYPE)
        && let Ok(body) = decode::<ErrorBody>(&response.body)
    {
        return agent_error(body, status);
    }
    let text = String::from_utf8_lossy(&response.body);
    let text = text.trim();
    if response.status.is_redirection() {
        return AttemptError::permanent(redirect_error(response, context));
    }
    if matches!(status, 502..=504) {
        return gateway_error(response, context);
    }
    if response.status.is_success() || looks_like_markup(response) {
        let got = if looks_like_markup(response) {
            "a web page"
        } else {
            "a status that Nomad never sends"
        };
        return AttemptError::permanent(not_nomad(response, got, context));
    }
    let lines = error_table::lines(text);
    let meaning = match status {
        403 => error_table::meaning_of_forbidden(text, context.has_token),
        _ => error_table::meaning(&lines).unwrap_or_else(|| error_table::meaning_of_status(status)),
    };
    AttemptError {
        verdict: verdict(meaning.code, status),
        error: text_error(meaning, status, &lines, context),
    }
}

fn text_error(
    meaning: ErrorMeaning,
    status: u16,
    lines: &[String],
    context: RequestContext<'_>,
) -> ApiError {
    let error = ApiError::new(meaning.code, context.failed(meaning.reason)).status(status);
    ApiError {
        help: meaning.help.map(str::to_owned).into_iter().collect(),
        ..error.server_text(lines.join("\n"))
    }
}

/// Returns the verdict on a failed request: it is repeated only if the server refused it before acting on it.
fn verdict(code: Code, status: u16) -> Verdict {
    let was_refused = status == 429 || matches!(code, Code::ApiNoLeader | Code::ApiRateLimited);
    if was_refused { Verdict::Retry } else { Verdict::Permanent }
}

/// The typed error of the embedded agent. The text decides if a later agent sends an unknown code.
fn agent_error(body: ErrorBody, status: u16) -> AttemptError {
    let lines = error_table::lines(&body.text);
    let code = Code::parse(&body.code)
        .or_else(|| error_table::meaning(&lines).map(|meaning| meaning.code))
        .unwrap_or(Code::ApiServerError);
    let mut help = body.help;
    if !body.claiming_allocs.is_empty() {
        help.push(format!(
            "stop the allocations that claim it: {}",
            body.claiming_allocs.join(", ")
        ));
    }
    // A text that Nomad does not have repeats the message and the notes.
    let has_text = !body.text.is_empty() && !body.text.starts_with(&body.message);
    let error = ApiError {
        help,
        notes: body.notes,
        server_text: has_text.then_some(body.text),
        ..ApiError::new(code, body.message).status(status)
    };
    AttemptError { verdict: verdict(code, status), error }
}

/// The error of a proxy that got no valid response: the server may have received a write.
fn gateway_error(response: &ApiResponse, context: RequestContext<'_>) -> AttemptError {
    let reason = format!(
        "the proxy `{}` got no response from the server ({})",
        context.server(),
        response.status
    );
    let error = context.no_clear_response(Code::ApiConnectionLost, &reason);
    AttemptError {
        error: error.status(response.status.as_u16()).server_text(body_excerpt(&response.body)),
        verdict: Verdict::RetryUnknownOutcome,
    }
}

fn redirect_error(response: &ApiResponse, context: RequestContext<'_>) -> ApiError {
    let server = context.server();
    let reason = match response.headers.get(LOCATION) {
        Some(target) => format!(
            "`{server}` redirects to `{}`, and redirects are not followed",
            String::from_utf8_lossy(target.as_bytes())
        ),
        None => format!("`{server}` responded with a redirect without a target"),
    };
    let help = "set the address to the redirect's target if that is the Nomad server, or bypass the login page";
    ApiError::new(Code::ApiNotNomad, context.failed(&reason))
        .status(response.status.as_u16())
        .help(help)
}

/// The error of a response that Nomad cannot have sent.
fn not_nomad(response: &ApiResponse, got: &str, context: RequestContext<'_>) -> ApiError {
    let excerpt = body_excerpt(&response.body);
    let reason = format!("`{}` responded with {got} ({})", context.server(), response.status);
    ApiError::new(Code::ApiNotNomad, context.failed(&reason))
        .status(response.status.as_u16())
        .help("check that the address is that of a Nomad server")
        .server_text(excerpt)
}

fn has_type(response: &ApiResponse, media_type: &str) -> bool {
    let value = response.headers.get(CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let value = value.split(';').next().unwrap_or_default().trim();
    value.eq_ignore_ascii_case(media_type)
}

fn looks_like_markup(response: &ApiResponse) -> bool {
    has_type(response, "text/html") || response.body.trim_ascii_start().starts_with(b"<")
}

/// Returns the first characters of a body in one line, without control characters.
fn body_excerpt(body: &[u8]) -> String {
    const LENGTH: usize = 100;
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * LENGTH)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: Vec<char> = words.join(" ").chars().filter(|c| !c.is_control()).collect();
    let mut excerpt: String = line.iter().take(LENGTH).collect();
    if line.len() > LENGTH || body.len() > 4 * LENGTH {
        excerpt.push('…');
    }
    excerpt
}
