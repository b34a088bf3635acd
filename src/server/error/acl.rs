//! Why the ACL refuses a request.

use http::StatusCode;

use nomad_csi_model::diagnostic::Code;

/// Why a request about the ACL, or a request that needs a right, fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AclError {
    /// The server has no ACL.
    Disabled,
    /// The token is not known.
    UnknownToken,
    /// The token has ended.
    ExpiredToken,
    /// The request has several tokens.
    SeveralTokens,
    /// The token does not grant what the request needs.
    Denied {
        /// What it needs: `csi-write-volume in namespace prod`.
        needs: String,
        /// Whether the request has a token.
        has_token: bool,
    },
    /// The first token was made already.
    AlreadyBootstrapped {
        /// The index at which it was made.
        reset_index: u64,
    },
    /// The request is not valid.
    Invalid(String),
    /// No policy has the name.
    NoPolicy(String),
    /// No token has the accessor ID.
    NoToken(String),
    /// It changed during every attempt.
    Busy(String),
}

impl AclError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        match self {
            Self::Disabled => (Code::ApiAclDisabled, StatusCode::BAD_REQUEST),
            Self::UnknownToken | Self::ExpiredToken => {
                (Code::ApiUnknownToken, StatusCode::FORBIDDEN)
            }
            Self::SeveralTokens | Self::Denied { .. } => {
                (Code::ApiForbidden, StatusCode::FORBIDDEN)
            }
            Self::AlreadyBootstrapped { .. } | Self::Invalid(_) => {
                (Code::ApiBadRequest, StatusCode::BAD_REQUEST)
            }
            Self::NoPolicy(_) => (Code::AclPolicyNotFound, StatusCode::NOT_FOUND),
            Self::NoToken(_) => (Code::AclTokenNotFound, StatusCode::NOT_FOUND),
            Self::Busy(_) => (Code::ServerBusy, StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Returns Nomad's exact text where Nomad has one, else the message.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Disabled => "ACL support disabled".to_owned(),
            Self::UnknownToken | Self::NoToken(_) => "ACL token not found".to_owned(),
            Self::ExpiredToken => "ACL token expired".to_owned(),
            Self::SeveralTokens | Self::Denied { .. } => "Permission denied".to_owned(),
            Self::AlreadyBootstrapped { reset_index } => {
                format!("ACL bootstrap already done (reset index: {reset_index})")
            }
            Self::NoPolicy(_) => "ACL policy not found".to_owned(),
            Self::Invalid(_) | Self::Busy(_) => self.message(),
        }
    }

    /// Returns the message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::Disabled => {
                "this server has no ACL: its configuration does not enable one".to_owned()
            }
            Self::UnknownToken => "the server does not know the token".to_owned(),
            Self::ExpiredToken => "the token has expired".to_owned(),
            Self::SeveralTokens => "the request has several tokens".to_owned(),
            Self::Denied { needs, has_token: true } => {
                format!("the token does not grant {needs}")
            }
            Self::Denied { needs, has_token: false } => {
                format!("the request has no token, and needs {needs}")
            }
            Self::AlreadyBootstrapped { .. } => {
                "the first token of this cluster was made before".to_owned()
            }
            Self::Invalid(why) => why.clone(),
            Self::NoPolicy(name) => format!("no policy has the name `{name}`"),
            Self::NoToken(accessor) => format!("no token has the accessor ID `{accessor}`"),
            Self::Busy(what) => format!("{what} was not changed: it changed during every attempt"),
        }
    }

    /// Returns what to do.
    pub(super) fn help(&self) -> Vec<String> {
        match self {
            Self::Disabled => vec![
                "set `enabled = true` in the section `acl` of the configuration of all servers".to_owned(),
            ],
            Self::UnknownToken | Self::ExpiredToken => {
                vec!["set `NOMAD_TOKEN` to the secret ID of a token of this cluster".to_owned()]
            }
            Self::SeveralTokens => vec!["send one token".to_owned()],
            Self::Denied { has_token: true, .. } => vec![
                "use a token with such a policy; `nomad-csi auth check` shows what this one may do".to_owned(),
            ],
            Self::Denied { has_token: false, .. } => {
                vec!["set `NOMAD_TOKEN` to the secret ID of a token".to_owned()]
            }
            Self::AlreadyBootstrapped { .. } => vec![
                "if no management token is left, the operator of a server makes one with `nomad-csi acl token create --type management`".to_owned(),
            ],
            Self::Invalid(_) | Self::NoPolicy(_) | Self::NoToken(_) | Self::Busy(_) => vec![],
        }
    }
}
