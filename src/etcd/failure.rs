//! [`Failure`]: why the journal in etcd could not be read or written.

use std::sync::Arc;

use crate::batch::BatchError;
use crate::error::{EtcdError, EtcdErrorKind};
use crate::snapshot_set::SetError;
use nomad_csi_server::{JournalError, JournalErrorKind};

/// Why an operation on the journal failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Etcd(#[from] EtcdError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(transparent)]
    Set(#[from] SetError),
    #[error("etcd uses more than 80 % of its quota: what grows the state is refused")]
    NearlyFull,
    #[error("another server leads")]
    NotLeader,
    #[error("the leadership ended before the change was confirmed")]
    OutcomeUnknown,
    #[error("after event {last} of the log, event {first} was to be written")]
    Gap { last: u64, first: u64 },
    #[error("the content of its key `{0}` is damaged")]
    Key(&'static str),
    #[error("there is a snapshot, and the key `head` with the end of the log is missing")]
    NoHead,
    #[error("the log ends with event {found}, and its key `head` says {head}")]
    Short { found: u64, head: u64 },
    #[error("the snapshot has changes, and there is none before it")]
    NothingToChange,
    #[error("it is not empty: its log ends with event {0}")]
    NotEmpty(u64),
    #[error("the layout of the keys has number {0}, and this program reads number {FORMAT}")]
    Format(String),
    #[error("a thread ended: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

/// The number of the layout of the keys.
pub(crate) const FORMAT: &str = "1";

impl Failure {
    pub(crate) fn kind(&self) -> JournalErrorKind {
        match self {
            Self::Etcd(error) => match error.kind {
                EtcdErrorKind::NoSpace => JournalErrorKind::EtcdFull,
                EtcdErrorKind::TooLarge
                | EtcdErrorKind::Compacted
                | EtcdErrorKind::NoLease
                | EtcdErrorKind::Denied
                | EtcdErrorKind::Unknown => JournalErrorKind::Unavailable,
            },
            Self::Batch(error) => error.kind(),
            Self::Set(error) => error.kind(),
            Self::NearlyFull => JournalErrorKind::EtcdFull,
            Self::NotLeader => JournalErrorKind::NotLeader,
            Self::OutcomeUnknown => JournalErrorKind::OutcomeUnknown,
            Self::Gap { .. } | Self::Key(_) | Self::NoHead | Self::Short { .. } => {
                JournalErrorKind::Damaged
            }
            Self::Format(_) => JournalErrorKind::TooNew,
            Self::NothingToChange | Self::NotEmpty(_) | Self::Interrupted(_) => {
                JournalErrorKind::Unavailable
            }
        }
    }

    /// Returns the error of an operation on the journal at a place.
    pub(crate) fn described(self, operation: &'static str, place: String) -> JournalError {
        JournalError { kind: self.kind(), operation, place, source: Arc::new(self) }
    }
}
