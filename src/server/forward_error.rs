//! The failure of a controller call, and its known effect.

use std::time::Duration;

use super::candidates::NoController;
use nomad_csi_ports::{PluginError, Rpc};

/// The known effect of a failed call, from the answers to all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardOutcome {
    /// It had no effect and will have none.
    NoEffect,
    /// It may have taken effect, or may still do so.
    Unknown,
}

/// A controller call failed, and this request does not retry it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// No controller can be called.
    #[error("no controller can be called")]
    NoController(#[from] NoController),
    /// The plugin gave a final answer.
    #[error("{} was refused", error.rpc)]
    Failed {
        /// The answer.
        #[source]
        error: PluginError,
        /// The known effect.
        outcome: ForwardOutcome,
    },
    /// The deadline passed.
    #[error("{rpc} was not answered within {} s", after.as_secs())]
    TimedOut {
        /// The call.
        rpc: Rpc,
        /// The time that it was tried.
        after: Duration,
        /// The last answer, if any.
        last: Option<PluginError>,
        /// The known effect.
        outcome: ForwardOutcome,
    },
}

impl ForwardError {
    /// Returns the known effect of the call.
    pub fn outcome(&self) -> ForwardOutcome {
        match self {
            Self::NoController(_) => ForwardOutcome::NoEffect,
            Self::Failed { outcome, .. } | Self::TimedOut { outcome, .. } => *outcome,
        }
    }
}
