//! Converts a gRPC status to a [`PluginError`].
//!
//! This module separates a status that the plugin sent from a failed connection; [`verdict_of`]
//! decides what a code means. Without a connection nothing was sent. After a lost connection the
//! outcome is unknown, whatever code the gRPC client reports.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tonic::{Code, Status};

use nomad_csi_model::retry::Verdict;
use nomad_csi_ports::{Delivery, PluginError, Rpc, StatusCode, verdict_of, verdict_unsent};

/// Converts a gRPC code.
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

/// Converts to a gRPC code.
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

/// Returns an error with the verdict for its RPC and code.
pub fn plugin_error(rpc: Rpc, code: StatusCode, message: impl Into<String>) -> PluginError {
    PluginError {
        rpc,
        code,
        verdict: verdict_of(rpc, code),
        message: message.into(),
        delivery: Delivery::Answered,
    }
}

/// Returns the error of a call to which there is no answer.
fn unanswered(rpc: Rpc, code: StatusCode, message: impl Into<String>) -> PluginError {
    PluginError { delivery: Delivery::Unanswered, ..plugin_error(rpc, code, message) }
}

/// Converts the result of a removing call: a resource that does not exist counts as removed (W28).
pub(super) fn absent_is_done<A>(response: Result<A, PluginError>) -> Result<(), PluginError> {
    match response {
        Ok(_) => Ok(()),
        Err(error) if error.verdict == Verdict::AlreadyDone => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses a request with a problem before it is sent.
pub(super) fn refuse_unsent(rpc: Rpc, problem: Option<String>) -> Result<(), PluginError> {
    match problem {
        None => Ok(()),
        Some(problem) => Err(PluginError {
            delivery: Delivery::NotSent,
            ..plugin_error(rpc, StatusCode::InvalidArgument, problem)
        }),
    }
}

/// Returns the error for a call that reached its deadline.
pub(super) fn timed_out(rpc: Rpc, deadline: Duration) -> PluginError {
    let message = format!("the plugin did not respond within {}s", deadline.as_secs());
    unanswered(rpc, StatusCode::DeadlineExceeded, message)
}

/// Returns the error for a response that breaks the specification. The outcome is unknown, and a
/// retry would get the same response.
pub(super) fn malformed(rpc: Rpc, what: &str) -> PluginError {
    let message = format!("the plugin's response violates the CSI specification: {what}");
    plugin_error(rpc, StatusCode::Internal, message)
}

/// Converts a status of the gRPC client.
pub(super) fn from_status(rpc: Rpc, socket: &Path, status: &Status) -> PluginError {
    match StatusOrigin::of(status) {
        StatusOrigin::Plugin if is_too_long(status) => malformed(rpc, status.message()),
        StatusOrigin::Plugin => plugin_error(rpc, from_tonic(status.code()), status.message()),
        StatusOrigin::NotConnected(reason) => PluginError {
            rpc,
            code: StatusCode::Unavailable,
            verdict: verdict_unsent(rpc),
            message: format!("cannot connect to `{}`: {reason}", socket.display()),
            delivery: Delivery::NotSent,
        },
        StatusOrigin::TimedOut => unanswered(rpc, StatusCode::DeadlineExceeded, status.message()),
        StatusOrigin::ConnectionLost(reason) => unanswered(
            rpc,
            StatusCode::Unavailable,
            format!(
                "the connection to `{}` was lost before the response: {reason}",
                socket.display()
            ),
        ),
    }
}

/// Returns whether the library refused to decode an answer. It reports that without a source, as if the plugin had sent it; the
/// call may have taken effect.
fn is_too_long(status: &Status) -> bool {
    status.code() == Code::OutOfRange
        && status.message().starts_with("Error, decoded message length too large")
}

/// The origin of a status.
pub(super) enum StatusOrigin {
    /// The plugin sent the status.
    Plugin,
    /// No connection, so nothing was sent.
    NotConnected(String),
    /// The client reached the deadline.
    TimedOut,
    /// The connection was lost during the call.
    ConnectionLost(String),
}

impl StatusOrigin {
    /// Only a status that the client creates has a source.
    pub(super) fn of(status: &Status) -> Self {
        let mut innermost: &(dyn Error + 'static) = match status.source() {
            None => return Self::Plugin,
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
                None => return Self::ConnectionLost(innermost.to_string()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_survive_the_conversion_to_grpc_and_back() {
        for code in StatusCode::ALL {
            assert_eq!(from_tonic(to_tonic(code)), code);
        }
    }
}
