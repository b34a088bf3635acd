//! The meaning of a failed call: one table from (RPC, code) to [`Verdict`], with a reason per row.
//!
//! The rules come from CSI 1.13, section "Error Scheme" and the error table of each RPC. Nomad
//! never retries a plugin call (W05) and treats NOT_FOUND on a delete as an error (W28). This table
//! does neither. The caller runs the retry loop.

use super::plugin::{Rpc, StatusCode};
use nomad_csi_model::retry::Verdict;

/// The kind of an RPC, as far as it changes the meaning of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RpcKind {
    /// Sent once per fingerprint; the next fingerprint sends it again.
    Fingerprint,
    /// Changes nothing, and a caller waits for the answer.
    Validate,
    /// Changes nothing, and may name an expired page.
    List,
    /// Creates, expands, attaches, stages or publishes.
    Setup,
    /// Deletes, detaches, unstages or unpublishes.
    Teardown,
}

const fn kind(rpc: Rpc) -> RpcKind {
    match rpc {
        Rpc::GetPluginInfo
        | Rpc::GetPluginCapabilities
        | Rpc::Probe
        | Rpc::ControllerGetCapabilities
        | Rpc::NodeGetCapabilities
        | Rpc::NodeGetInfo
        | Rpc::NodeGetStorageHealth => RpcKind::Fingerprint,
        Rpc::ValidateVolumeCapabilities
        | Rpc::GetCapacity
        | Rpc::ControllerGetVolumeHealth
        | Rpc::NodeGetVolumeStats
        | Rpc::NodeGetVolumeHealth => RpcKind::Validate,
        Rpc::ListVolumes | Rpc::ListSnapshots | Rpc::ControllerListVolumeHealth => RpcKind::List,
        Rpc::CreateVolume
        | Rpc::CreateSnapshot
        | Rpc::ControllerExpandVolume
        | Rpc::ControllerModifyVolume
        | Rpc::ControllerPublishVolume
        | Rpc::NodeStageVolume
        | Rpc::NodePublishVolume
        | Rpc::NodeExpandVolume => RpcKind::Setup,
        Rpc::DeleteVolume
        | Rpc::DeleteSnapshot
        | Rpc::ControllerUnpublishVolume
        | Rpc::NodeUnstageVolume
        | Rpc::NodeUnpublishVolume => RpcKind::Teardown,
    }
}

/// The verdicts of one code, by kind of RPC.
struct Verdicts {
    fingerprint: Verdict,
    validate: Verdict,
    setup: Verdict,
    teardown: Verdict,
}

const fn row(
    fingerprint: Verdict,
    validate: Verdict,
    setup: Verdict,
    teardown: Verdict,
) -> Verdicts {
    Verdicts { fingerprint, validate, setup, teardown }
}

/// The table. A fingerprint sends each RPC once, so a temporary failure there is `RetryLater`: the
/// next fingerprint sends it again.
const fn verdicts_of(code: StatusCode) -> Verdicts {
    use Verdict::{
        AlreadyDone, FailedUnknownOutcome, Permanent, Retry, RetryBriefly, RetryLater,
        RetryUnknownOutcome,
    };
    match code {
        // Not a failure; gRPC never returns it as one.
        StatusCode::Ok => row(Permanent, Permanent, Permanent, Permanent),
        // The call was cancelled, perhaps by a plugin that stops. Cancelling undoes nothing.
        StatusCode::Cancelled => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // Most Go plugins return this for errors that they do not classify, such as wrong
        // parameters. Show it now instead of at the deadline.
        StatusCode::Unknown => {
            row(RetryLater, RetryLater, FailedUnknownOutcome, FailedUnknownOutcome)
        }
        // The request must change (CSI, "Error Scheme").
        StatusCode::InvalidArgument => row(Permanent, Permanent, Permanent, Permanent),
        // Any call may exceed its deadline; the identical call continues it (CSI, "Timeouts").
        StatusCode::DeadlineExceeded => {
            row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome)
        }
        // Setup depends on an object that does not exist. For teardown the object is already gone,
        // also when the volume was deleted first.
        StatusCode::NotFound => row(Permanent, RetryLater, RetryLater, AlreadyDone),
        // The name or the path belongs to another volume: the arguments must change.
        StatusCode::AlreadyExists => row(Permanent, Permanent, Permanent, Permanent),
        // The call works after an administrator grants the permission (CSI, "Error Scheme").
        StatusCode::PermissionDenied => row(RetryLater, RetryLater, RetryLater, RetryLater),
        // A limit of rate, which passes, or a quota or a full pool, which waiting does not free (W05).
        StatusCode::ResourceExhausted => row(RetryLater, RetryBriefly, RetryBriefly, RetryBriefly),
        // The volume is in use, a step is missing, or the plugin lacks something on its machine:
        // the caller acts first.
        StatusCode::FailedPrecondition => row(RetryLater, RetryLater, RetryLater, RetryLater),
        // An operation on this volume is pending (CSI, "Error Scheme"). It may be this program's from before
        // a crash or a deadline, so wait and repeat.
        StatusCode::Aborted => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // The size is not available (CSI, "CreateVolume").
        StatusCode::OutOfRange => row(Permanent, Permanent, Permanent, Permanent),
        // The plugin does not support the RPC (CSI, "Error Scheme").
        StatusCode::Unimplemented => row(Permanent, Permanent, Permanent, Permanent),
        // An error inside the plugin: as UNKNOWN. Nomad reports it immediately too.
        StatusCode::Internal => {
            row(RetryLater, RetryLater, FailedUnknownOutcome, FailedUnknownOutcome)
        }
        // The plugin or its storage is temporarily unavailable. The failure may have happened during
        // the operation.
        StatusCode::Unavailable => row(RetryLater, Retry, RetryUnknownOutcome, RetryUnknownOutcome),
        // Permanent damage: a retry does not repair it.
        StatusCode::DataLoss => {
            row(RetryLater, RetryLater, FailedUnknownOutcome, FailedUnknownOutcome)
        }
        // The secrets must be renewed first (CSI, "Error Scheme").
        StatusCode::Unauthenticated => row(RetryLater, RetryLater, RetryLater, RetryLater),
    }
}

/// Returns the meaning of status `code` from `rpc`.
pub const fn verdict_of(rpc: Rpc, code: StatusCode) -> Verdict {
    let row = verdicts_of(code);
    match kind(rpc) {
        RpcKind::Fingerprint => row.fingerprint,
        // The page token has expired: the caller restarts the list (CSI, "ListVolumes").
        RpcKind::List if matches!(code, StatusCode::Aborted) => Verdict::Permanent,
        // The node has as many volumes as it can attach: only a detach makes room (CSI,
        // "ControllerPublishVolume").
        RpcKind::Setup if is_node_full(rpc, code) => Verdict::RetryLater,
        RpcKind::Validate | RpcKind::List => row.validate,
        RpcKind::Setup => row.setup,
        RpcKind::Teardown => row.teardown,
    }
}

const fn is_node_full(rpc: Rpc, code: StatusCode) -> bool {
    matches!((rpc, code), (Rpc::ControllerPublishVolume, StatusCode::ResourceExhausted))
}

/// Returns the meaning of a failure to connect: nothing was sent.
pub const fn verdict_unsent(rpc: Rpc) -> Verdict {
    match kind(rpc) {
        RpcKind::Fingerprint => Verdict::RetryLater,
        RpcKind::Validate | RpcKind::List | RpcKind::Setup | RpcKind::Teardown => Verdict::Retry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// W05, B53: exactly the temporary failures are retried within one request, and a plugin without room among
    /// them, unless a node is full.
    #[test]
    fn only_temporary_failures_are_retried_before_the_deadline() {
        let repeated = [
            StatusCode::Cancelled,
            StatusCode::DeadlineExceeded,
            StatusCode::Aborted,
            StatusCode::Unavailable,
            StatusCode::ResourceExhausted,
        ];
        for rpc in Rpc::ALL {
            for code in StatusCode::ALL {
                let page_expired = kind(rpc) == RpcKind::List && code == StatusCode::Aborted;
                let is_exception = page_expired || is_node_full(rpc, code);
                let is_asked = kind(rpc) != RpcKind::Fingerprint;
                let expected = repeated.contains(&code) && is_asked && !is_exception;
                assert_eq!(verdict_of(rpc, code).is_retried(), expected, "{rpc} {}", code.as_str());
            }
        }
    }

    /// A fingerprint sends each RPC once.
    #[test]
    fn fingerprint_rpcs_are_never_retried() {
        for rpc in Rpc::ALL {
            assert_eq!(
                verdict_unsent(rpc).is_retried(),
                kind(rpc) != RpcKind::Fingerprint,
                "{rpc}"
            );
        }
    }

    /// A teardown of an object that does not exist is done (W28); other calls fail.
    #[test]
    fn not_found_means_done_only_for_teardown() {
        for rpc in Rpc::ALL {
            let done = verdict_of(rpc, StatusCode::NotFound) == Verdict::AlreadyDone;
            assert_eq!(done, kind(rpc) == RpcKind::Teardown, "{rpc}");
        }
    }

    /// A failed setup or teardown may have taken effect, unless the code excludes it.
    #[test]
    fn unclear_failures_may_have_taken_effect() {
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
                let changes = matches!(kind(rpc), RpcKind::Setup | RpcKind::Teardown);
                let unknown = verdict_of(rpc, code).may_have_taken_effect();
                assert_eq!(unknown, changes, "{rpc} {}", code.as_str());
            }
        }
    }
}
