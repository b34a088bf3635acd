//! Why a journal operation failed, and when a failed database is opened again.

use std::time::Duration;

use tokio::time::Instant;

use super::codec::CodecError;
use crate::journal::JournalErrorKind;
use nomad_csi_database::{ContainedPanic, FailureKind};
use nomad_csi_model::private::NotPrivate;

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
    /// The disk is full, and its last space is for what must be recorded.
    #[error("the disk is full, and its last space is kept for releases and results")]
    Kept,
    /// The database panicked, which it does on a damaged file.
    #[error(transparent)]
    Panicked(ContainedPanic),
    /// The database failed again and again, and is not opened again yet.
    #[error(
        "the journal has failed {failed} times and is tried again in a moment; the last time: {reason}"
    )]
    Paused { failed: u32, kind: JournalErrorKind, reason: String },
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
            Self::Kept => JournalErrorKind::DiskFull,
            Self::Paused { kind, .. } => *kind,
            Self::Interrupted(ended) if ended.is_panic() => JournalErrorKind::Damaged,
            Self::NotPrivate(_) | Self::Interrupted(_) => JournalErrorKind::Unavailable,
        }
    }
}

fn database_kind(error: &redb::Error) -> JournalErrorKind {
    match FailureKind::of(error) {
        FailureKind::InUse => JournalErrorKind::InUse,
        FailureKind::Full => JournalErrorKind::DiskFull,
        FailureKind::Damaged => JournalErrorKind::Damaged,
        FailureKind::Closed | FailureKind::Unavailable => JournalErrorKind::Unavailable,
    }
}

/// When a database that failed is opened again. Opening it verifies every page, so a disk that goes on
/// failing is tried less and less often; a short failure costs no time.
#[derive(Debug, Default)]
pub(super) struct ReopenPause(Option<Failures>);

/// Failures without a successful write in between.
#[derive(Debug)]
struct Failures {
    count: u32,
    kind: JournalErrorKind,
    reason: String,
    until: Instant,
}

impl ReopenPause {
    /// How many failures in a row are not followed by a pause.
    const FREE: u32 = 4;
    const FIRST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(5);

    /// Fails while the database must not be opened again.
    pub(super) fn check(&self, now: Instant) -> Result<(), Failure> {
        match &self.0 {
            Some(failures) if failures.until > now => Err(Failure::Paused {
                failed: failures.count,
                kind: failures.kind,
                reason: failures.reason.clone(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Notes a failure after which the database is closed.
    pub(super) fn failed(&mut self, failure: &Failure, now: Instant) {
        let count = self.0.as_ref().map_or(0, |failures| failures.count) + 1;
        let pause = match count.checked_sub(Self::FREE + 1) {
            Some(doublings) => Self::FIRST * 2_u32.pow(doublings.min(16)),
            None => Duration::ZERO,
        };
        self.0 = Some(Failures {
            count,
            kind: failure.kind(),
            reason: failure.to_string(),
            until: now + pause.min(Self::LONGEST),
        });
    }

    /// Notes a successful write.
    pub(super) fn ended(&mut self) {
        self.0 = None;
    }
}
