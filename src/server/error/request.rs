//! Malformed requests, with Nomad's texts.

use http::StatusCode;

use nomad_csi_model::diagnostic::Code;

/// Why a request is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// The body is empty.
    EmptyBody,
    /// The body cannot be decoded: where and why.
    Body(String),
    /// The body did not arrive completely.
    BodyLost(String),
    /// The body did not arrive in time.
    BodyTooSlow {
        /// The time limit.
        seconds: usize,
    },
    /// The budget for bodies was used by others for too long.
    BodiesBusy {
        /// The budget in bytes.
        limit: usize,
    },
    /// Too many clients wait for changes.
    TooManyWaiting {
        /// The limit.
        limit: usize,
    },
    /// Too many clients read streams of events and logs.
    TooManyStreams {
        /// The limit.
        limit: usize,
    },
    /// Other long lists are being encoded, and take too long.
    ListsBusy,
    /// The jobs of others are being validated, and take too long.
    ValidationsBusy,
    /// Other long responses are being sent, and take too long.
    ResponsesBusy {
        /// The budget in bytes.
        limit: usize,
    },
    /// The client used a name that is not the agent's.
    ForeignHost(String),
    /// A web page of another server sent the request.
    ForeignOrigin(String),
    /// A write of a browser whose body is not declared as JSON.
    ContentType(String),
    /// The body is too large.
    BodyTooLarge {
        /// The largest allowed size in bytes.
        limit: usize,
    },
    /// The path is not UTF-8.
    Path,
    /// `index` is not a number.
    Index,
    /// A topic of an event stream is not valid.
    Topic(String),
    /// `wait` is not a duration.
    Wait,
    /// `stale` is not a boolean.
    Stale,
    /// `force` is not a boolean.
    Force,
    /// `share` is not a boolean.
    Share,
    /// `per_page` is not a number.
    PerPage,
    /// `next_token` is not a token of this list.
    NextToken,
    /// `filter` is not a filter expression: where and why.
    Filter(String),
    /// `filter` cannot be tested on an item of the list: why.
    FilterField(String),
    /// `cas` is not a number.
    Cas(String),
    /// `cas` with several volumes.
    CasOfSeveral,
    /// `cas` with a create.
    CasOfCreate,
    /// `node` is missing.
    DetachWithoutNode,
    /// The path does not support the method, and Nomad answers 400.
    Method,
    /// The search context is unknown.
    SearchContext,
    /// The client is not certainly the operator of the agent.
    NotOperator {
        /// Why not.
        why: &'static str,
        /// The settings of a command line with which the operator is admitted.
        ways: Vec<String>,
    },
}

impl RequestError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        let status = match self {
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodiesBusy { .. }
            | Self::TooManyWaiting { .. }
            | Self::TooManyStreams { .. }
            | Self::ListsBusy
            | Self::ValidationsBusy
            | Self::ResponsesBusy { .. } => {
                return (Code::ServerBusy, StatusCode::TOO_MANY_REQUESTS);
            }
            Self::ForeignHost(_) | Self::ForeignOrigin(_) => {
                return (Code::ApiForeignRequest, StatusCode::FORBIDDEN);
            }
            Self::NotOperator { .. } => {
                return (Code::ApiOperatorOnly, StatusCode::FORBIDDEN);
            }
            Self::ContentType(_) => {
                return (Code::ApiForeignRequest, StatusCode::UNSUPPORTED_MEDIA_TYPE);
            }
            Self::SearchContext => StatusCode::INTERNAL_SERVER_ERROR,
            Self::EmptyBody
            | Self::Body(_)
            | Self::BodyLost(_)
            | Self::Path
            | Self::Index
            | Self::Topic(_)
            | Self::Wait
            | Self::Stale
            | Self::Force
            | Self::Share
            | Self::PerPage
            | Self::NextToken
            | Self::Filter(_)
            | Self::FilterField(_)
            | Self::Cas(_)
            | Self::CasOfSeveral
            | Self::CasOfCreate
            | Self::Method
            | Self::DetachWithoutNode => StatusCode::BAD_REQUEST,
        };
        (Code::ApiBadRequest, status)
    }

    /// Describes the problem. The text of most requests is short enough for it.
    pub(super) fn message(&self) -> String {
        match self {
            Self::NotOperator { why, .. } => {
                format!("permission denied: only the operator of the agent may do this, and {why}")
            }
            other => other.text(),
        }
    }

    /// Returns what to do.
    pub(super) fn help(&self) -> Vec<String> {
        match self {
            Self::NotOperator { ways, .. } if !ways.is_empty() => {
                vec![format!("as the user of the agent or root, set {}", ways.join(" or "))]
            }
            other => vec![other.code_and_status().0.advice()],
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::EmptyBody => "Request body is empty".into(),
            Self::Body(why) => why.clone(),
            Self::BodyLost(why) => format!("the request body did not arrive: {why}"),
            Self::BodyTooLarge { limit } => {
                format!(
                    "the request body is larger than {} (limit `body-bytes`)",
                    size(*limit)
                )
            }
            Self::BodyTooSlow { seconds } => format!(
                "the request body did not arrive: not within {seconds} s (limit `body-seconds`)"
            ),
            Self::BodiesBusy { limit } => format!(
                "the bodies of other requests use all of {} (limit `total-body-bytes`); send the request again later",
                size(*limit)
            ),
            Self::TooManyWaiting { limit } => format!(
                "{limit} blocking queries wait already (limit `waiting-queries`); send the request again later"
            ),
            Self::TooManyStreams { limit } => format!(
                "{limit} streams of events and logs are open already (limit `streams`); send the request again later"
            ),
            Self::ValidationsBusy => "the jobs of others are still being validated; send the request again later".into(),
            Self::ListsBusy => "other long lists are still being encoded (limit `long-lists`); send the request again later".into(),
            Self::ResponsesBusy { limit } => format!(
                "other responses use all of {} (limit `total-response-bytes`); send the request again later",
                size(*limit)
            ),
            Self::ForeignHost(host) => format!(
                "`{host}` is not a name of this agent; use its address or `localhost`, or start the agent with `--allow-host` and this name"
            ),
            Self::ForeignOrigin(origin) => format!(
                "the request comes from the web page `{origin}`, which may not use this agent; start the agent with `--allow-host` and the name of the page to allow it"
            ),
            Self::ContentType(found) => format!(
                "the content type `{found}` is not accepted from a browser: send `Content-Type: application/json` or none"
            ),
            Self::NotOperator { .. } => format!("{}; {}", self.message(), self.help().join("; ")),
            Self::Path => "the path is not percent-encoded UTF-8".into(),
            Self::Index => "Invalid index".into(),
            Self::Topic(text) => text.clone(),
            Self::Wait => "Invalid wait time".into(),
            Self::Stale => "Expect `true` or `false` for `stale` query string parameter".into(),
            Self::Force => "invalid force value".into(),
            Self::Share => "Expect `true` or `false` for `share` query string parameter".into(),
            Self::PerPage => "Expect a number for `per_page` query string parameter".into(),
            Self::NextToken => {
                "failed to create result paginator: the next_token is not from this list".into()
            }
            Self::Filter(why) => {
                format!("failed to create result paginator: failed to read filter expression: {why}")
            }
            Self::FilterField(why) => format!("failed to read result page: {why}"),
            Self::Cas(text) => {
                format!("can not parse cas: strconv.ParseUint: parsing {text:?}: invalid syntax")
            }
            Self::CasOfSeveral => {
                "`cas` is the index of one volume, and the request has several".into()
            }
            Self::CasOfCreate => {
                "a create does not support `cas`; register the volume instead".into()
            }
            Self::DetachWithoutNode => "detach requires node ID".into(),
            Self::Method => "Invalid method".into(),
            Self::SearchContext => {
                "context must be one of volumes, host_volumes, plugins, nodes, namespaces, vars or all".into()
            }
        }
    }
}

/// Writes a size in the largest unit that needs no fraction.
fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
}
