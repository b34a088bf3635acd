//! Refused requests for variables and their locks.
//!
//! Texts are Nomad's without the prefix `RPC Error:: 400,`, which Nomad adds to some of them. Statuses
//! are Nomad's too: renewing the lock of a missing variable is 404, releasing it is 500.

use http::StatusCode;

use super::multi_error::multi_error;
use nomad_csi_model::diagnostic::Code;

/// Why a request for a variable is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableError {
    /// The URL has no path of a variable.
    MissingPath,
    /// The variable does not exist.
    NotFound,
    /// A write without items.
    MissingItems,
    /// `cas` is not a number.
    InvalidCas(String),
    /// `cas` with a lock operation.
    CasWithLock,
    /// More than one of acquire, renew and release.
    MultipleOperations,
    /// The variable or operation is invalid.
    Invalid(String),
    /// The items exceed the size limit.
    TooLarge,
    /// The TTL or delay of a lock is invalid: all reasons.
    LockTerms(Vec<String>),
    /// A renewal without a lock ID.
    MissingLockId,
    /// A renewal of a variable that does not exist.
    NothingToRenew,
    /// A renewal of a variable that has no lock.
    NotHeldToRenew,
    /// A renewal by a client that does not hold the lock, or lost it.
    NotLockHolder,
    /// A release of a variable that does not exist.
    NothingToRelease,
    /// A release of a variable that has no lock.
    NotHeldToRelease,
}

impl VariableError {
    pub(super) fn code_and_status(&self) -> (Code, StatusCode) {
        match self {
            Self::MissingPath
            | Self::MissingItems
            | Self::InvalidCas(_)
            | Self::CasWithLock
            | Self::MultipleOperations
            | Self::Invalid(_)
            | Self::LockTerms(_) => (Code::VariableInvalid, StatusCode::BAD_REQUEST),
            Self::TooLarge => (Code::VariableTooLarge, StatusCode::BAD_REQUEST),
            Self::MissingLockId => (Code::VariableInvalid, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotFound => (Code::VariableNotFound, StatusCode::NOT_FOUND),
            Self::NothingToRenew => (Code::VariableLockLost, StatusCode::NOT_FOUND),
            Self::NotHeldToRenew | Self::NotLockHolder => {
                (Code::VariableLockLost, StatusCode::CONFLICT)
            }
            Self::NothingToRelease | Self::NotHeldToRelease => {
                (Code::VariableLockLost, StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::MissingPath => "missing variable path".into(),
            Self::NotFound => "variable not found".into(),
            Self::MissingItems => "variable missing required Items object".into(),
            Self::InvalidCas(text) => {
                format!("can not parse cas: strconv.ParseUint: parsing {text:?}: invalid syntax")
            }
            Self::CasWithLock => "CAS can't be used with lock operations".into(),
            Self::MultipleOperations => "multiple lock operations".into(),
            Self::Invalid(text) => text.clone(),
            Self::TooLarge => "variables are limited to 64KiB in total size".into(),
            Self::LockTerms(problems) => multi_error(problems.iter().cloned()),
            Self::MissingLockId => multi_error(std::iter::once("missing lock ID".to_owned())),
            Self::NothingToRenew | Self::NothingToRelease => "variable doesn't exist".into(),
            Self::NotHeldToRenew | Self::NotHeldToRelease => "variable doesn't hold a lock".into(),
            Self::NotLockHolder => "attempting to modify locked variable".into(),
        }
    }

    /// The message for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::LockTerms(problems) => problems.join("; "),
            Self::MissingLockId => "missing lock ID".into(),
            Self::MissingPath
            | Self::NotFound
            | Self::MissingItems
            | Self::InvalidCas(_)
            | Self::CasWithLock
            | Self::MultipleOperations
            | Self::Invalid(_)
            | Self::TooLarge
            | Self::NothingToRenew
            | Self::NotHeldToRenew
            | Self::NotLockHolder
            | Self::NothingToRelease
            | Self::NotHeldToRelease => self.text(),
        }
    }
}
