//! How one volume of a plan ended.

use crate::ports::WithDocument;
use nomad_csi_model::Volume;
use nomad_csi_model::diagnostic::{Code, Diagnostic};

/// How one volume ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Status {
    /// Nothing to do.
    Unchanged,
    /// Not tried. The plan holds the reasons.
    Blocked,
    /// Done. Holds the volume as it was read back, if it could be.
    Done(Option<Box<WithDocument<Volume>>>),
    /// Removed.
    Removed,
    /// Not changed: the volume is not as the plan expects it.
    Stale(Diagnostic),
    /// Not started: a volume that it depends on failed.
    DependencyFailed(Diagnostic),
    /// Failed, or the outcome is unknown.
    Failed(Diagnostic),
    /// Not changed: the server stopped responding before the request was sent.
    ServerUnreachable(Diagnostic),
    /// Not started: the user interrupted, the set's lock was lost, or the server stopped responding.
    NotStarted,
}

impl Status {
    /// Returns whether the volume is now as planned.
    pub fn is_success(&self) -> bool {
        match self {
            Self::Unchanged | Self::Done(_) | Self::Removed => true,
            Self::Blocked
            | Self::Stale(_)
            | Self::DependencyFailed(_)
            | Self::Failed(_)
            | Self::ServerUnreachable(_)
            | Self::NotStarted => false,
        }
    }

    /// Returns whether the request was sent, and neither its reply nor the volume shows what it did.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Failed(why) if why.code == Code::ApiOutcomeUnknown)
    }

    /// The status of a volume whose request was certainly not sent.
    pub(super) fn not_sent(why: Diagnostic) -> Self {
        match why.code {
            Code::LedgerLockLost => Self::NotStarted,
            code if code.means_server_away() => Self::ServerUnreachable(why),
            _ => Self::Failed(why),
        }
    }
}

/// The outcome of one volume of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Further warnings: from the server, and from reading the volume back.
    pub warnings: Vec<Diagnostic>,
}

impl Outcome {
    /// An outcome without warnings.
    pub fn plain(status: Status) -> Self {
        Self { status, warnings: vec![] }
    }

    /// Returns whether the server stopped responding in the meantime.
    pub(super) fn met_server_away(&self) -> bool {
        let mut warnings = self.warnings.iter();
        let is_away = match &self.status {
            Status::ServerUnreachable(_) => true,
            Status::Failed(why) => why.code.means_server_away(),
            _ => false,
        };
        is_away || warnings.any(|warning| warning.code.means_server_away())
    }
}
