//! Why a variable is not written, renewed or released (`nomad-neighbour-apis` 1.12).
//!
//! Texts are Nomad's, without the `RPC Error:: 400,` that it puts before some of them once or twice;
//! its clients look for the rest. Statuses are Nomad's too: a renewal of nothing is 404, a release
//! of nothing 500.

use http::StatusCode;

use super::server_error::multi_error;
use crate::diagnostic::Code;

/// Why nothing was done with a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableError {
    /// The URL names none.
    MissingPath,
    /// There is none of that name.
    NotFound,
    /// A write without items.
    MissingItems,
    /// `cas` is no number.
    Check(String),
    /// `cas` with a lock's operation.
    CheckWithLock,
    /// More than one of acquire, renew and release.
    SeveralOperations,
    /// What is asked for can never be.
    Invalid(String),
    /// It would hold more than a variable can.
    TooLarge,
    /// A lock cannot be held on these terms: all reasons.
    LockTerms(Vec<String>),
    /// A renewal that names no lock.
    MissingLockId,
    /// A renewal of a variable that is not there.
    NothingToRenew,
    /// A renewal where nothing is held.
    NotHeldToRenew,
    /// A renewal by somebody who does not hold it, or not any more.
    NotHolder,
    /// A release of a variable that is not there.
    NothingToRelease,
    /// A release where nothing is held.
    NotHeldToRelease,
}

impl VariableError {
    pub(super) fn class(&self) -> (Code, StatusCode) {
        match self {
            Self::MissingPath
            | Self::MissingItems
            | Self::Check(_)
            | Self::CheckWithLock
            | Self::SeveralOperations
            | Self::Invalid(_)
            | Self::LockTerms(_) => (Code::VariableInvalid, StatusCode::BAD_REQUEST),
            Self::TooLarge => (Code::VariableTooLarge, StatusCode::BAD_REQUEST),
            Self::MissingLockId => (Code::VariableInvalid, StatusCode::INTERNAL_SERVER_ERROR),
            Self::NotFound => (Code::VariableNotFound, StatusCode::NOT_FOUND),
            Self::NothingToRenew => (Code::VariableLockLost, StatusCode::NOT_FOUND),
            Self::NotHeldToRenew | Self::NotHolder => {
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
            Self::Check(text) => {
                format!("can not parse cas: strconv.ParseUint: parsing {text:?}: invalid syntax")
            }
            Self::CheckWithLock => "CAS can't be used with lock operations".into(),
            Self::SeveralOperations => "multiple lock operations".into(),
            Self::Invalid(text) => text.clone(),
            Self::TooLarge => "variables are limited to 64KiB in total size".into(),
            Self::LockTerms(problems) => multi_error(problems.clone()),
            Self::MissingLockId => multi_error(["missing lock ID".to_owned()]),
            Self::NothingToRenew | Self::NothingToRelease => "variable doesn't exist".into(),
            Self::NotHeldToRenew | Self::NotHeldToRelease => "variable doesn't hold a lock".into(),
            Self::NotHolder => "attempting to modify locked variable".into(),
        }
    }

    /// One sentence for people.
    pub(super) fn message(&self) -> String {
        match self {
            Self::LockTerms(problems) => problems.join("; "),
            Self::MissingLockId => "missing lock ID".into(),
            Self::MissingPath
            | Self::NotFound
            | Self::MissingItems
            | Self::Check(_)
            | Self::CheckWithLock
            | Self::SeveralOperations
            | Self::Invalid(_)
            | Self::TooLarge
            | Self::NothingToRenew
            | Self::NotHeldToRenew
            | Self::NotHolder
            | Self::NothingToRelease
            | Self::NotHeldToRelease => self.text(),
        }
    }
}
