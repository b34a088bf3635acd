//! [`Credentials`]: who sends a request.

use http::HeaderMap;

use super::operator::{Shown, shown};
use crate::acl::{Bearer, Rights, SecretHash};
use crate::error::{AclError, RequestError};
use crate::services::Services;

/// What a request shows of its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Credentials {
    /// The operator of the machine.
    Operator,
    /// One token, by its hash.
    Token(SecretHash),
    /// No token.
    None,
    /// Several tokens, of which none counts.
    Several,
}

impl Credentials {
    /// Reads those of a request.
    pub(super) fn of(headers: &HeaderMap, operator: &Result<(), RequestError>) -> Self {
        if operator.is_ok() {
            return Self::Operator;
        }
        match shown(headers) {
            Shown::None => Self::None,
            Shown::One(secret) => Self::Token(SecretHash::of(secret)),
            Shown::Several => Self::Several,
        }
    }

    /// Returns whether a token is shown.
    pub(super) fn has_token(&self) -> bool {
        match self {
            Self::Operator | Self::Token(_) | Self::Several => true,
            Self::None => false,
        }
    }

    /// Returns who sends the request.
    ///
    /// # Errors
    /// If that is not known.
    pub(super) fn bearer(&self, services: &Services) -> Result<Bearer, AclError> {
        match self {
            Self::Operator => Ok(Bearer::Operator),
            Self::Token(secret) => services.acl.bearer(Some(secret)),
            Self::None => services.acl.bearer(None),
            Self::Several => Err(AclError::SeveralTokens),
        }
    }

    /// Returns what its sender may do now. Without an ACL the endpoints say who may use them.
    ///
    /// # Errors
    /// If it is not known who sends it.
    pub(super) fn rights(&self, services: &Services) -> Result<Rights, AclError> {
        match services.acl.is_enabled() {
            true => Ok(services.acl.rights(&self.bearer(services)?)),
            false => Ok(Rights::Everything),
        }
    }
}
