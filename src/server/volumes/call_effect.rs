//! The effect of a failed controller call, as far as the failure proves it.

use crate::error::ServerError;
use crate::forward_error::{ForwardError, ForwardOutcome};
use nomad_csi_ports::StatusCode;

/// Calls that were sent earlier under the same intent and have no answer on record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PriorCalls {
    /// No call was sent.
    None,
    /// Calls may have been sent, and may have taken effect.
    Possible,
}

/// Returns whether neither the failed call nor an earlier one can have taken effect.
pub(super) fn certainly_had_no_effect(error: &ForwardError, prior: PriorCalls) -> bool {
    match (error.outcome(), prior) {
        (ForwardOutcome::NoEffect, PriorCalls::None) => true,
        (ForwardOutcome::Unknown, _) | (_, PriorCalls::Possible) => false,
    }
}

/// Returns whether the plugin's last answer was this code.
pub(super) fn is_answered_with(error: &ServerError, code: StatusCode) -> bool {
    let ServerError::Plugin(failure) = error else {
        return false;
    };
    match &failure.error {
        ForwardError::Failed { error, .. } => error.code == code,
        ForwardError::NoController(_) | ForwardError::TimedOut { .. } => false,
    }
}

/// Returns whether the plugin refuses the call as it is. The identical call was then refused before, even if
/// that answer was lost. Other refusals may pass with time: storage is freed, a source appears.
pub(super) fn is_permanently_refused(error: &ServerError) -> bool {
    is_answered_with(error, StatusCode::InvalidArgument)
        || is_answered_with(error, StatusCode::OutOfRange)
}

/// Returns whether the plugin refuses the request for good, so that another one may have created the volume: the name
/// belongs to a volume that does not fit the request, or the request can never succeed.
pub(super) fn is_certainly_refused(error: &ServerError) -> bool {
    is_answered_with(error, StatusCode::AlreadyExists) || is_permanently_refused(error)
}
