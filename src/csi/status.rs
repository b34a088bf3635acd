//! From gRPC's status to the core's error.
//!
//! What a code means for the caller is [`verdict_of`]'s; here a status that the plugin sent is told
//! from a connection that failed. Without a connection nothing was sent, and of a connection that
//! broke in the middle nobody knows the outcome, whatever code gRPC's client makes of it.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tonic::{Code, Status};

use crate::ports::{PluginError, Rpc, StatusCode, verdict_of, verdict_unsent};
use crate::retry::Verdict;

/// gRPC's code in the core's words.
pub const fn from_tonic(code: Code) -> StatusCode {
    match code {
        Code::Ok => StatusCode::Ok,
        Code::Cancelled => StatusCode::Cancelled,
        Code::Unknown => StatusCode::Unknown,
        Code::InvalidArgument => StatusCode::InvalidArgument,
        Code::DeadlineExceeded => StatusCode::DeadlineExceeded,
        Code::NotFound => StatusCode::NotFound,
        Code::AlreadyExists => StatusCode::AlreadyExists,
        Code::PermissionDenied => StatusCode::PermissionDenied,
        Code::ResourceExhausted => StatusCode::ResourceExhausted,
        Code::FailedPrecondition => StatusCode::FailedPrecondition,
        Code::Aborted => StatusCode::Aborted,
        Code::OutOfRange => StatusCode::OutOfRange,
        Code::Unimplemented => StatusCode::Unimplemented,
        Code::Internal => StatusCode::Internal,
        Code::Unavailable => StatusCode::Unavailable,
        Code::DataLoss => StatusCode::DataLoss,
        Code::Unauthenticated => StatusCode::Unauthenticated,
    }
}

/// The core's word in gRPC's codes.
pub const fn to_tonic(code: StatusCode) -> Code {
    match code {
        StatusCode::Ok => Code::Ok,
        StatusCode::Cancelled => Code::Cancelled,
        StatusCode::Unknown => Code::Unknown,
        StatusCode::InvalidArgument => Code::InvalidArgument,
        StatusCode::DeadlineExceeded => Code::DeadlineExceeded,
        StatusCode::NotFound => Code::NotFound,
        StatusCode::AlreadyExists => Code::AlreadyExists,
        StatusCode::PermissionDenied => Code::PermissionDenied,
        StatusCode::ResourceExhausted => Code::ResourceExhausted,
        StatusCode::FailedPrecondition => Code::FailedPrecondition,
        StatusCode::Aborted => Code::Aborted,
        StatusCode::OutOfRange => Code::OutOfRange,
        StatusCode::Unimplemented => Code::Unimplemented,
        StatusCode::Internal => Code::Internal,
        StatusCode::Unavailable => Code::Unavailable,
        StatusCode::DataLoss => Code::DataLoss,
        StatusCode::Unauthenticated => Code::Unauthenticated,
    }
}

/// An error with the table's verdict.
pub fn error(rpc: Rpc, code: StatusCode, message: impl Into<String>) -> PluginError {
    PluginError {
        rpc,
        code,
        verdict: verdict_of(rpc, code),
        message: message.into(),
    }
}

/// The result of a call that takes something away: what is not there counts as done (W28).
pub(super) fn done<A>(answer: Result<A, PluginError>) -> Result<(), PluginError> {
    match answer {
        Ok(_) => Ok(()),
        Err(error) if error.verdict == Verdict::AlreadyDone => Ok(()),
        Err(error) => Err(error),
    }
}

/// No answer came within the call's deadline.
pub(super) fn late(rpc: Rpc, deadline: Duration) -> PluginError {
    let message = format!("the plugin did not answer within {} s", deadline.as_secs());
    error(rpc, StatusCode::DeadlineExceeded, message)
}

/// The plugin's answer breaks the specification: `what` says how. Nothing can be concluded from it,
/// and the same call would get the same answer.
pub(super) fn malformed(rpc: Rpc, what: &str) -> PluginError {
    let message = format!("the plugin's answer breaks the CSI specification: {what}");
    error(rpc, StatusCode::Internal, message)
}

/// What a status from the gRPC client means: the plugin's own, or the connection's failure.
pub(super) fn failure(rpc: Rpc, socket: &Path, status: &Status) -> PluginError {
    match Transport::of(status) {
        Transport::Answered => error(rpc, from_tonic(status.code()), status.message()),
        Transport::NotConnected(reason) => PluginError {
            rpc,
            code: StatusCode::Unavailable,
            verdict: verdict_unsent(rpc),
            message: format!("cannot connect to {}: {reason}", socket.display()),
        },
        Transport::TimedOut => error(rpc, StatusCode::DeadlineExceeded, status.message()),
        Transport::Broken(reason) => error(
            rpc,
            StatusCode::Unavailable,
            format!(
                "the connection to {} broke before the answer came: {reason}",
                socket.display()
            ),
        ),
    }
}

/// How far a call came.
pub(super) enum Transport {
    /// The plugin answered with the status.
    Answered,
    /// There was no connection, so nothing was sent.
    NotConnected(String),
    /// The client's own timer ended it.
    TimedOut,
    /// The connection ended while the call was under way.
    Broken(String),
}

impl Transport {
    /// A status that came over the wire has no source; those that the client makes have one.
    pub(super) fn of(status: &Status) -> Self {
        let mut innermost: &(dyn Error + 'static) = match status.source() {
            None => return Self::Answered,
            Some(source) => source,
        };
        let mut connecting = false;
        loop {
            if innermost.is::<tonic::TimeoutExpired>() {
                return Self::TimedOut;
            }
            connecting |= innermost.is::<tonic::ConnectError>();
            match innermost.source() {
                Some(source) => innermost = source,
                None if connecting => return Self::NotConnected(innermost.to_string()),
                None => return Self::Broken(innermost.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_way_to_grpc_and_back() {
        for code in StatusCode::ALL {
            assert_eq!(from_tonic(to_tonic(code)), code);
        }
    }
}
