//! What a failed request to etcd says about itself.
//!
//! A failure is certain if etcd refused the request before it proposed it. Everything that is not in the table of
//! [`EtcdErrorKind::of`] is unknown: the request may have been carried out, or may be later.

use tonic::Code;

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EtcdErrorKind {
    /// The database is at its quota.
    NoSpace,
    /// The request is larger than etcd takes, or the answer larger than this program takes.
    TooLarge,
    /// The revision was compacted.
    Compacted,
    /// There is no such lease, or not any more.
    NoLease,
    /// The user may not do this, or is not known.
    Denied,
    /// Whether the request was carried out is unknown.
    Unknown,
}

impl EtcdErrorKind {
    /// Returns the kind of an answer with this code and text.
    pub(crate) fn of(code: Code, text: &str) -> Self {
        match code {
            Code::ResourceExhausted if text.contains("database space exceeded") => Self::NoSpace,
            Code::InvalidArgument
                if text.contains("request is too large")
                    || text.contains("too many operations") =>
            {
                Self::TooLarge
            }
            Code::OutOfRange if text.contains("revision has been compacted") => Self::Compacted,
            Code::OutOfRange if text.contains("decoded message length too large") => Self::TooLarge,
            Code::NotFound if text.contains("requested lease not found") => Self::NoLease,
            Code::PermissionDenied | Code::Unauthenticated => Self::Denied,
            _ => Self::Unknown,
        }
    }
}

/// A request to etcd failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("etcd at {member}: {reason}")]
pub struct EtcdError {
    /// What is known about it.
    pub kind: EtcdErrorKind,
    /// The address of the member, or of all.
    pub member: String,
    /// Why, in etcd's words or those of the connection.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_before_the_proposal_are_certain() {
        for (code, text, kind) in [
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                EtcdErrorKind::NoSpace,
            ),
            (
                Code::ResourceExhausted,
                "trying to send message larger than max",
                EtcdErrorKind::Unknown,
            ),
            (Code::InvalidArgument, "etcdserver: request is too large", EtcdErrorKind::TooLarge),
            (
                Code::InvalidArgument,
                "etcdserver: too many operations in txn request",
                EtcdErrorKind::TooLarge,
            ),
            (
                Code::OutOfRange,
                "etcdserver: mvcc: required revision has been compacted",
                EtcdErrorKind::Compacted,
            ),
            (Code::NotFound, "etcdserver: requested lease not found", EtcdErrorKind::NoLease),
            (Code::PermissionDenied, "etcdserver: permission denied", EtcdErrorKind::Denied),
            (Code::Unavailable, "etcdserver: request timed out", EtcdErrorKind::Unknown),
            (Code::Unavailable, "etcdserver: leader changed", EtcdErrorKind::Unknown),
            (Code::DeadlineExceeded, "context deadline exceeded", EtcdErrorKind::Unknown),
            (Code::Unknown, "database space exceeded", EtcdErrorKind::Unknown),
        ] {
            assert_eq!(EtcdErrorKind::of(code, text), kind, "{code} {text}");
        }
    }
}
