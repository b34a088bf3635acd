//! Why a journal operation failed.

use std::io;

use super::codec::CodecError;
use crate::ports::{ContainedPanic, JournalErrorKind};
use crate::private::NotPrivate;

/// The format of the tables and their keys, the highest that this program reads. Format 2 has
/// snapshots with one row per object.
pub(super) const FORMAT_VERSION: u64 = 2;

/// Why a journal operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Database(redb::Error),
    /// Another user could read or change the file.
    #[error("{0}")]
    NotPrivate(#[source] NotPrivate),
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("the file is empty or is another database")]
    Foreign,
    #[error(
        "it has format {found}, and this program reads formats up to {FORMAT_VERSION}: a later version wrote it"
    )]
    FormatTooNew { found: u64 },
    /// The changes of a snapshot need a snapshot in rows.
    #[error("a snapshot of changes needs a complete one before it")]
    NothingToChange,
    #[error("event {expected} is missing")]
    Gap { expected: u64 },
    /// The database panicked, which it does on a damaged file.
    #[error(transparent)]
    Panicked(#[from] ContainedPanic),
    /// The runtime is stopping.
    #[error("the operation was interrupted")]
    Interrupted(#[source] tokio::task::JoinError),
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        match error.into() {
            redb::Error::Io(error) => match NotPrivate::find(&error) {
                Some(refused) => Self::NotPrivate(refused.clone()),
                None => Self::Database(redb::Error::Io(error)),
            },
            other => Self::Database(other),
        }
    }
}

impl Failure {
    pub(super) fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Database(error) => database_kind(error),
            Self::Codec(CodecError::TooNew { .. }) | Self::FormatTooNew { .. } => {
                JournalErrorKind::TooNew
            }
            Self::Codec(
                CodecError::Corrupt { .. }
                | CodecError::Undecodable { .. }
                | CodecError::Incomplete { .. },
            )
            | Self::Foreign
            | Self::Panicked(_)
            | Self::NothingToChange
            | Self::Gap { .. } => JournalErrorKind::Damaged,
            Self::Interrupted(ended) if ended.is_panic() => JournalErrorKind::Damaged,
            Self::NotPrivate(_) | Self::Interrupted(_) => JournalErrorKind::Unavailable,
        }
    }
}

fn database_kind(error: &redb::Error) -> JournalErrorKind {
    use io::ErrorKind::{InvalidData, QuotaExceeded, StorageFull, UnexpectedEof};
    match error {
        redb::Error::DatabaseAlreadyOpen => JournalErrorKind::InUse,
        redb::Error::Io(error) => match error.kind() {
            StorageFull | QuotaExceeded => JournalErrorKind::DiskFull,
            InvalidData | UnexpectedEof => JournalErrorKind::Damaged,
            _ => JournalErrorKind::Unavailable,
        },
        redb::Error::Corrupted(_)
        | redb::Error::UpgradeRequired(_)
        | redb::Error::TableTypeMismatch { .. }
        | redb::Error::TableDoesNotExist(_) => JournalErrorKind::Damaged,
        _ => JournalErrorKind::Unavailable,
    }
}
