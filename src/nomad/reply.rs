//! What an answer says: a document, nothing, or an error.
//!
//! Every success of Nomad is 200 (`nomad-http-api` 2.5); everything else is an error, and so is a
//! success that is not Nomad's. Our agent's typed error wins over the text (decision 7); of a text,
//! the table of [`super::error`] decides.

use http::StatusCode;
use http::header::{CONTENT_TYPE, LOCATION};
use serde::de::{DeserializeOwned, Error as _};

use super::endpoint::Answer;
use super::error::{self, Meaning};
use super::retrying::{Access, Failed};
use crate::diagnostic::Code;
use crate::ports::ApiError;
use crate::retry::Verdict;
use crate::wire::{DecodeError, ErrorBody, decode};

/// What was asked, for messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    /// What has not happened if it failed: "volume db0 was not created".
    pub(super) what: &'a str,
    pub(super) access: Access,
    /// The server's name.
    pub(super) server: &'a str,
    /// Whether a token went with it.
    pub(super) has_token: bool,
}

/// The answer, if it is a success; its failure otherwise.
pub(super) fn success(answer: Answer, asked: Asked<'_>) -> Result<Answer, Failed> {
    if answer.status != StatusCode::OK {
        return Err(failure(&answer, asked));
    }
    if looks_like_markup(&answer) {
        return Err(Failed::for_good(not_nomad(&answer, "a web page", asked)));
    }
    Ok(answer)
}

/// The JSON of a success that must have some; it is checked no further than `T` does.
pub(super) fn json<T: DeserializeOwned>(answer: &Answer, asked: Asked<'_>) -> Result<T, ApiError> {
    if answer.body.iter().all(u8::is_ascii_whitespace) {
        return Err(not_nomad(answer, "nothing", asked));
    }
    serde_json::from_slice(&answer.body).map_err(|error| {
        if error.is_data() {
            return other_document(&DecodeError::custom(error), asked);
        }
        if !error.is_eof() {
            return not_nomad(answer, "something that is not JSON", asked);
        }
        let why = format!("{} answered with JSON that ends too early", asked.server);
        let shown = Some(beginning(&answer.body));
        in_doubt(Code::ApiNotNomad, &why, 200, shown, asked)
    })
}

/// JSON that is not the document that was asked for.
pub(super) fn other_document(error: &DecodeError, asked: Asked<'_>) -> ApiError {
    let why = format!(
        "{} answered with JSON that is not Nomad's ({error})",
        asked.server
    );
    in_doubt(Code::ApiNotNomad, &why, 200, None, asked)
}

fn failure(answer: &Answer, asked: Asked<'_>) -> Failed {
    let status = answer.status.as_u16();
    if has_type(answer, ErrorBody::MEDIA_TYPE)
        && let Ok(body) = decode::<ErrorBody>(&answer.body)
    {
        return typed(body, status);
    }
    let text = String::from_utf8_lossy(&answer.body);
    let text = text.trim();
    if answer.status.is_redirection() {
        return Failed::for_good(redirected(answer, asked));
    }
    if matches!(status, 502..=504) {
        return gateway(answer, asked);
    }
    if answer.status.is_success() || looks_like_markup(answer) {
        let what = if looks_like_markup(answer) {
            "a web page"
        } else {
            "a status that Nomad never sends"
        };
        return Failed::for_good(not_nomad(answer, what, asked));
    }
    let lines = error::lines(text);
    let meaning = match status {
        403 => error::meaning_of_forbidden(text, asked.has_token),
        _ => error::meaning(&lines).unwrap_or_else(|| error::meaning_of_status(status)),
    };
    Failed {
        verdict: verdict(meaning.code, status),
        error: in_words(meaning, status, &lines, asked),
    }
}

fn in_words(meaning: Meaning, status: u16, lines: &[String], asked: Asked<'_>) -> ApiError {
    ApiError {
        code: meaning.code,
        status: Some(status),
        message: format!("{}: {}", asked.what, meaning.sentence),
        help: meaning.help.map(str::to_owned).into_iter().collect(),
        server_text: (!lines.is_empty()).then(|| lines.join("\n")),
    }
}

/// What the server refused before it did anything may be sent again.
fn verdict(code: Code, status: u16) -> Verdict {
    let refused = status == 429 || matches!(code, Code::ApiNoLeader | Code::ApiRateLimited);
    if refused {
        Verdict::Retry
    } else {
        Verdict::Permanent
    }
}

/// The words of our own agent; a code of a later one is unknown here and the text decides.
fn typed(body: ErrorBody, status: u16) -> Failed {
    let lines = error::lines(&body.text);
    let code = Code::parse(&body.code)
        .or_else(|| error::meaning(&lines).map(|meaning| meaning.code))
        .unwrap_or(Code::ApiServerError);
    let mut help = body.help;
    if !body.holders.is_empty() {
        help.push(format!(
            "Held by the allocations {}.",
            body.holders.join(", ")
        ));
    }
    let error = ApiError {
        code,
        status: Some(status),
        message: body.message,
        help,
        server_text: (!body.text.is_empty()).then_some(body.text),
    };
    Failed {
        verdict: verdict(code, status),
        error,
    }
}

/// A proxy before the server got no good answer from it: a write may have arrived.
fn gateway(answer: &Answer, asked: Asked<'_>) -> Failed {
    let why = format!(
        "{} is a proxy that got no answer ({})",
        asked.server, answer.status
    );
    let shown = Some(beginning(&answer.body)).filter(|text| !text.is_empty());
    let status = answer.status.as_u16();
    Failed {
        error: in_doubt(Code::ApiConnectionLost, &why, status, shown, asked),
        verdict: Verdict::RetryUnknownOutcome,
    }
}

/// An answer that does not say whether a write was carried out; of a read, it is only no answer.
fn in_doubt(
    code: Code,
    why: &str,
    status: u16,
    server_text: Option<String>,
    asked: Asked<'_>,
) -> ApiError {
    let (code, what, help) = match asked.access {
        Access::Read => (code, asked.what.to_owned(), vec![]),
        Access::Write => {
            let what = asked.what.replacen(" was not ", " was perhaps not ", 1);
            let help = "It may have been carried out all the same: look before you run it again.";
            (Code::ApiOutcomeUnknown, what, vec![help.to_owned()])
        }
    };
    ApiError {
        code,
        status: Some(status),
        message: format!("{what}: {why}"),
        help,
        server_text,
    }
}

fn redirected(answer: &Answer, asked: Asked<'_>) -> ApiError {
    let to = answer
        .headers
        .get(LOCATION)
        .map(|to| String::from_utf8_lossy(to.as_bytes()));
    let Asked { what, server, .. } = asked;
    ApiError {
        code: Code::ApiNotNomad,
        status: Some(answer.status.as_u16()),
        message: format!(
            "{what}: {server} answered with a redirect to {}, which is not followed",
            to.as_deref().unwrap_or("nowhere")
        ),
        help: vec![
            "If that is your Nomad server, use its address; if it is a login page, go around it."
                .to_owned(),
        ],
        server_text: None,
    }
}

/// Answers that no Nomad gives, shown from their beginning.
fn not_nomad(answer: &Answer, got: &str, asked: Asked<'_>) -> ApiError {
    let Asked { what, server, .. } = asked;
    let shown = beginning(&answer.body);
    ApiError {
        code: Code::ApiNotNomad,
        status: Some(answer.status.as_u16()),
        message: format!("{what}: {server} answered with {got} ({})", answer.status),
        help: vec!["Is the address that of a Nomad server?".to_owned()],
        server_text: (!shown.is_empty()).then_some(shown),
    }
}

fn has_type(answer: &Answer, media_type: &str) -> bool {
    let value = answer.headers.get(CONTENT_TYPE);
    let value = value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let value = value.split(';').next().unwrap_or_default().trim();
    value.eq_ignore_ascii_case(media_type)
}

fn looks_like_markup(answer: &Answer) -> bool {
    has_type(answer, "text/html") || answer.body.trim_ascii_start().starts_with(b"<")
}

/// The first characters of a body on one line, without control characters.
fn beginning(body: &[u8]) -> String {
    const SHOWN: usize = 100;
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * SHOWN)]);
    let words: Vec<&str> = text.split_whitespace().collect();
    let line: Vec<char> = words
        .join(" ")
        .chars()
        .filter(|c| !c.is_control())
        .collect();
    let mut shown: String = line.iter().take(SHOWN).collect();
    if line.len() > SHOWN || body.len() > 4 * SHOWN {
        shown.push('…');
    }
    shown
}
