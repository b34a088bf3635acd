//! The effect of a failed controller call, as far as the failure proves it.

use crate::error::ServerError;
use crate::forward_error::{ForwardError, ForwardOutcome};
use nomad_csi_claims::state::{EarlierControllers, IntentController};
use nomad_csi_ports::StatusCode;

/// Calls that were sent earlier under the same intent, and may have taken effect. Another instance gets one when those before it
/// are gone. The same one may still work on a call that it did not answer, and what it answers says something of that call only if
/// both sent the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PriorCalls {
    /// No call was sent.
    None,
    /// Some were sent: the same request to the instance that gets the next one, or any to others that are gone.
    Ended,
    /// It is not known who got one, or the instance that gets the next one got another request.
    Unknown,
}

impl PriorCalls {
    /// Returns the earlier calls of an intent that was on record before this request, with its controller now.
    pub(super) fn of(controller: Option<&IntentController>) -> Self {
        let sent_the_same = controller.filter(|controller| controller.request.is_some());
        match sent_the_same.map(|controller| controller.earlier) {
            Some(EarlierControllers::None | EarlierControllers::Ended) => Self::Ended,
            Some(EarlierControllers::Unknown) | None => Self::Unknown,
        }
    }

    /// Returns whether the answer of the last call is one to all of them, or those that it is none to have ended.
    pub(super) fn have_ended(self) -> bool {
        match self {
            Self::None | Self::Ended => true,
            Self::Unknown => false,
        }
    }
}

/// Returns whether neither the failed call nor an earlier one can have taken effect.
pub(super) fn certainly_had_no_effect(error: &ForwardError, prior: PriorCalls) -> bool {
    match (error.outcome(), prior) {
        (ForwardOutcome::NoEffect, PriorCalls::None) => true,
        (ForwardOutcome::Unknown, _) | (_, PriorCalls::Ended | PriorCalls::Unknown) => false,
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

/// Returns whether the plugin refuses the call as it is. The same program has then refused the identical call before, even
/// if that answer was lost; another one, as of an earlier version of the plugin, may have carried it out. Other
/// refusals may pass with time: storage is freed, a source appears.
pub(super) fn is_permanently_refused(error: &ServerError) -> bool {
    is_answered_with(error, StatusCode::InvalidArgument)
        || is_answered_with(error, StatusCode::OutOfRange)
}

/// Returns whether the plugin refuses the request for good, so that another one may have created the volume: the name
/// belongs to a volume that does not fit the request, or the request can never succeed.
pub(super) fn is_certainly_refused(error: &ServerError) -> bool {
    is_answered_with(error, StatusCode::AlreadyExists) || is_permanently_refused(error)
}
