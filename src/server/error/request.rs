//! What is wrong with a request's form (`nomad-http-api` 2.3, 2.6).

use http::StatusCode;

use crate::diagnostic::Code;

/// What is wrong with a request's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// There is no body.
    EmptyBody,
    /// The body is not what it should be: where and why.
    Body(String),
    /// The body did not arrive.
    BodyLost(String),
    /// The body is too large.
    BodyTooLarge {
        /// How large it may be, in bytes.
        limit: usize,
    },
    /// The path is not text.
    Path,
    /// `index` is no number.
    Index,
    /// `wait` is no duration.
    Wait,
    /// `stale` is no truth value.
    Stale,
    /// `force` is no truth value.
    Force,
    /// `per_page` is no number.
    PerPage,
    /// `next_token` is none of ours.
    NextToken,
    /// `filter` is not supported.
    Filter,
    /// `node` is missing.
    DetachWithoutNode,
    /// Not with that method, where Nomad calls that a bad request.
    Method,
    /// A search for something that cannot be searched.
    SearchContext,
}

impl RequestError {
    pub(super) fn class(&self) -> (Code, StatusCode) {
        let status = match self {
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SearchContext => StatusCode::INTERNAL_SERVER_ERROR,
            Self::EmptyBody
            | Self::Body(_)
            | Self::BodyLost(_)
            | Self::Path
            | Self::Index
            | Self::Wait
            | Self::Stale
            | Self::Force
            | Self::PerPage
            | Self::NextToken
            | Self::Filter
            | Self::Method
            | Self::DetachWithoutNode => StatusCode::BAD_REQUEST,
        };
        (Code::ApiBadRequest, status)
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::EmptyBody => "Request body is empty".into(),
            Self::Body(why) => why.clone(),
            Self::BodyLost(why) => format!("the request body did not arrive: {why}"),
            Self::BodyTooLarge { limit } => {
                format!("the request body is larger than {} MiB", limit >> 20)
            }
            Self::Path => "the path is not percent-encoded UTF-8".into(),
            Self::Index => "Invalid index".into(),
            Self::Wait => "Invalid wait time".into(),
            Self::Stale => "Expect `true` or `false` for `stale` query string parameter".into(),
            Self::Force => "invalid force value".into(),
            Self::PerPage => "Expect a number for `per_page` query string parameter".into(),
            Self::NextToken => {
                "failed to create result paginator: the next_token is not one of this list".into()
            }
            Self::Filter => "failed to create result paginator: failed to read filter expression: this agent has no filter expressions".into(),
            Self::DetachWithoutNode => "detach requires node ID".into(),
            Self::Method => "Invalid method".into(),
            Self::SearchContext => {
                "context must be one of volumes, host_volumes, plugins, nodes, namespaces, vars or all".into()
            }
        }
    }
}
