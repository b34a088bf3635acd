//! What a failed call means: one table from (RPC, code) to [`Verdict`], with the reason per row.
//!
//! Sources: CSI sections "Error Scheme" and the table of each RPC (`csi-spec` 3.6 and 5), what
//! Nomad does (`csi-orchestration` 7.3) and what it does wrong (W05: nothing is ever repeated; W28:
//! NOT_FOUND of a delete is an error). The table decides; the loop that repeats is the caller's.

use super::plugin::{Rpc, StatusCode};
use crate::retry::Verdict;

/// What kind of call it is, as far as a failure's meaning depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Asked anew with every fingerprint, and never within one (B55).
    Information,
    /// Changes nothing, but somebody waits for the answer.
    Check,
    /// Changes nothing, and may name a page that is no more.
    List,
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
        Rpc::ListVolumes | Rpc::ListSnapshots => Kind::List,
        Rpc::CreateVolume
        | Rpc::CreateSnapshot
        | Rpc::ControllerExpandVolume
        | Rpc::NodeStageVolume
        | Rpc::NodePublishVolume => Kind::Make,
        Rpc::DeleteVolume
        | Rpc::DeleteSnapshot
        | Rpc::NodeUnstageVolume
        | Rpc::NodeUnpublishVolume => Kind::Undo,
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
pub const fn verdict_of(rpc: Rpc, code: StatusCode) -> Verdict {
    let row = row_of(code);
    match kind(rpc) {
        Kind::Information => row.information,
        // The page is not one of the list any more: it has to be begun anew (5.7, 5.13).
        Kind::List if matches!(code, StatusCode::Aborted) => Verdict::Permanent,
        Kind::Check | Kind::List => row.check,
        Kind::Make => row.make,
        Kind::Undo => row.undo,
    }
}

/// What it means that nothing could be sent, because nobody listens on the socket.
pub const fn verdict_unsent(rpc: Rpc) -> Verdict {
    match kind(rpc) {
        Kind::Information => Verdict::RetryLater,
        Kind::Check | Kind::List | Kind::Make | Kind::Undo => Verdict::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for code in StatusCode::ALL {
                let page_is_gone = kind(rpc) == Kind::List && code == StatusCode::Aborted;
                let expected =
                    repeated.contains(&code) && kind(rpc) != Kind::Information && !page_is_gone;
                assert_eq!(
                    verdict_of(rpc, code).is_repeated(),
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
            let done = verdict_of(rpc, StatusCode::NotFound) == Verdict::AlreadyDone;
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
                let unknown = verdict_of(rpc, code).may_have_happened();
                assert_eq!(unknown, changes, "{rpc} {}", code.as_str());
            }
        }
    }
}
