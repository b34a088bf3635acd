//! What a failed call means: one table from (RPC, code) to [`Verdict`], with the reason per row.
//!
//! Sources: CSI sections "Error Scheme" and the table of each RPC (`csi-spec` 3.6 and 5), what
//! Nomad does (`csi-orchestration` 7.3) and what it does wrong (W05: nothing is ever repeated; W28:
//! NOT_FOUND of a delete is an error). The table decides; the loop that repeats is the caller's.
//!
//! A status that the plugin sent is told from a connection that failed: without a connection
//! nothing was sent, and of a connection that broke in the middle nobody knows the outcome.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use tonic::{Code, Status};

use crate::ports::{PluginError, Rpc, StatusCode};
use crate::retry::Verdict;

/// What kind of call it is, as far as a failure's meaning depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Asked anew with every fingerprint, and never within one (B55).
    Information,
    /// Changes nothing, but somebody waits for the answer.
    Check,
    /// Makes something.
    Make,
    /// Takes something away.
    Undo,
}

const fn kind(rpc: Rpc) -> Kind {
    match rpc {
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo => Kind::Information,
        Rpc::ValidateVolumeCapabilities => Kind::Check,
        Rpc::CreateVolume | Rpc::NodeStageVolume | Rpc::NodePublishVolume => Kind::Make,
        Rpc::DeleteVolume | Rpc::NodeUnstageVolume | Rpc::NodeUnpublishVolume => Kind::Undo,
    }
}

/// One code's verdicts, by kind of call.
struct Row {
    information: Verdict,
    check: Verdict,
    make: Verdict,
    undo: Verdict,
}

const fn row(information: Verdict, check: Verdict, make: Verdict, undo: Verdict) -> Row {
    Row {
        information,
        check,
        make,
        undo,
    }
}

/// The table. Information is never repeated within one fingerprint, so a passing failure there
/// reads `RetryLater`: the next one asks again.
const fn row_of(code: StatusCode) -> Row {
    use Verdict::{
        AlreadyDone, FailedUnknownOutcome, Permanent, Retry, RetryLater, RetryUnknownOutcome,
    };
    match code {
        // Not a failure; gRPC never gives it as one.
        StatusCode::Ok => row(Permanent, Permanent, Permanent, Permanent),
        // Somebody ended the call, perhaps the plugin as it stopped. A cancelled call undoes
        // nothing (section 3.5).
        StatusCode::Cancelled => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // Most Go plugins answer so to any error that they do not classify, wrong parameters
        // included: the operator should see it now, not at the deadline.
        StatusCode::Unknown => row(
            RetryLater,
            RetryLater,
            FailedUnknownOutcome,
            FailedUnknownOutcome,
        ),
        // The request has to change (section 3.6).
        StatusCode::InvalidArgument => row(Permanent, Permanent, Permanent, Permanent),
        // Any call may take longer than its deadline; the identical call continues it (3.5).
        StatusCode::DeadlineExceeded => {
            row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome)
        }
        // What is to be made needs something that is not there; what is to go is gone (W28, and
        // section 8.2: teardown after the volume's deletion).
        StatusCode::NotFound => row(Permanent, RetryLater, RetryLater, AlreadyDone),
        // The name or the path is taken by something else: other arguments are needed.
        StatusCode::AlreadyExists => row(Permanent, Permanent, Permanent, Permanent),
        // An administrator grants the right, then it works (section 3.6).
        StatusCode::PermissionDenied => row(RetryLater, RetryLater, RetryLater, RetryLater),
        // A quota or a full pool: only freeing something helps, so waiting here would only look
        // like hanging. Section 8.1: some plugins send INTERNAL's number for it.
        StatusCode::ResourceExhausted => row(RetryLater, RetryLater, RetryLater, RetryLater),
        // In use, or a step is missing: the caller acts first (5.3, 5.16, 5.18), or the plugin
        // lacks something of its machine (5.1).
        StatusCode::FailedPrecondition => row(RetryLater, RetryLater, RetryLater, RetryLater),
        // An operation on this volume is pending (section 3.6), and it may be our own, sent before
        // a crash or before a deadline: wait and repeat (B54).
        StatusCode::Aborted => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // The size cannot be had (5.2).
        StatusCode::OutOfRange => row(Permanent, Permanent, Permanent, Permanent),
        // The plugin does not have the RPC, and never will (section 3.6).
        StatusCode::Unimplemented => row(Permanent, Permanent, Permanent, Permanent),
        // The plugin's own failure: as with UNKNOWN, and Nomad shows it at once too.
        StatusCode::Internal => row(
            RetryLater,
            RetryLater,
            FailedUnknownOutcome,
            FailedUnknownOutcome,
        ),
        // The plugin, or the storage behind it, is not there for the moment; it may have gone in
        // the middle (B53).
        StatusCode::Unavailable => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // Something is broken for good: no repetition mends it.
        StatusCode::DataLoss => row(
            RetryLater,
            RetryLater,
            FailedUnknownOutcome,
            FailedUnknownOutcome,
        ),
        // Secrets have to be renewed first (section 3.6).
        StatusCode::Unauthenticated => row(RetryLater, RetryLater, RetryLater, RetryLater),
    }
}

/// What the plugin's answer `code` to `rpc` means.
pub const fn verdict(rpc: Rpc, code: StatusCode) -> Verdict {
    let row = row_of(code);
    match kind(rpc) {
        Kind::Information => row.information,
        Kind::Check => row.check,
        Kind::Make => row.make,
        Kind::Undo => row.undo,
    }
}

/// What it means that nothing could be sent, because nobody listens on the socket.
const fn verdict_unsent(rpc: Rpc) -> Verdict {
    match kind(rpc) {
        Kind::Information => Verdict::RetryLater,
        Kind::Check | Kind::Make | Kind::Undo => Verdict::Retry,
    }
}

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
        verdict: verdict(rpc, code),
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
enum Transport {
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
    fn of(status: &Status) -> Self {
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

    const CODES: [StatusCode; 17] = [
        StatusCode::Ok,
        StatusCode::Cancelled,
        StatusCode::Unknown,
        StatusCode::InvalidArgument,
        StatusCode::DeadlineExceeded,
        StatusCode::NotFound,
        StatusCode::AlreadyExists,
        StatusCode::PermissionDenied,
        StatusCode::ResourceExhausted,
        StatusCode::FailedPrecondition,
        StatusCode::Aborted,
        StatusCode::OutOfRange,
        StatusCode::Unimplemented,
        StatusCode::Internal,
        StatusCode::Unavailable,
        StatusCode::DataLoss,
        StatusCode::Unauthenticated,
    ];

    /// B53, B54, W05: what is repeated within one request, and that nothing else is.
    #[test]
    fn only_passing_failures_are_repeated_before_the_deadline() {
        let repeated = [
            StatusCode::Cancelled,
            StatusCode::DeadlineExceeded,
            StatusCode::Aborted,
            StatusCode::Unavailable,
        ];
        for rpc in Rpc::ALL {
            for code in CODES {
                let expected = repeated.contains(&code) && kind(rpc) != Kind::Information;
                assert_eq!(
                    verdict(rpc, code).is_repeated(),
                    expected,
                    "{rpc} {}",
                    code.as_str()
                );
            }
        }
    }

    /// B55: a fingerprint asks each question once.
    #[test]
    fn information_is_asked_once_whatever_fails() {
        for rpc in Rpc::ALL {
            assert_eq!(
                verdict_unsent(rpc).is_repeated(),
                kind(rpc) != Kind::Information,
                "{rpc}"
            );
        }
    }

    /// W28, and section 8.2 of `csi-spec`.
    #[test]
    fn what_is_not_found_is_gone_only_where_it_should_go() {
        for rpc in Rpc::ALL {
            let done = verdict(rpc, StatusCode::NotFound) == Verdict::AlreadyDone;
            assert_eq!(done, kind(rpc) == Kind::Undo, "{rpc}");
        }
    }

    /// A call that makes or undoes something is never called untouched after a failure that says
    /// nothing of how far it came.
    #[test]
    fn an_unknown_outcome_is_never_taken_for_nothing() {
        for rpc in Rpc::ALL {
            for code in [
                StatusCode::Cancelled,
                StatusCode::Unknown,
                StatusCode::DeadlineExceeded,
                StatusCode::Aborted,
                StatusCode::Internal,
                StatusCode::Unavailable,
                StatusCode::DataLoss,
            ] {
                let changes = matches!(kind(rpc), Kind::Make | Kind::Undo);
                let unknown = verdict(rpc, code).may_have_happened();
                assert_eq!(unknown, changes, "{rpc} {}", code.as_str());
            }
        }
    }

    #[test]
    fn codes_survive_the_way_to_grpc_and_back() {
        for code in CODES {
            assert_eq!(from_tonic(to_tonic(code)), code);
        }
    }
}
