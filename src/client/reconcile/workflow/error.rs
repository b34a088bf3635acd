//! Why a workflow ended without finishing its work.

use crate::ports::{ApiError, LedgerError, LedgerFailure};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};

/// How a workflow failed. Of several failures the worst counts: the last in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// Approval is required, and was not given.
    ApprovalRequired,
    /// The server or the plugin would refuse, something must end first, or the plan is stale.
    Blocked,
    /// A call or the input failed.
    Failed,
    /// The user interrupted.
    Interrupted,
}

/// A workflow ended without finishing its work.
#[derive(Debug)]
pub struct WorkflowError {
    /// How it failed.
    pub kind: FailureKind,
    /// Why. Empty if a [`super::Reporter`] has shown the reasons already.
    pub diagnostics: Diagnostics,
}

impl WorkflowError {
    /// A failure that a [`super::Reporter`] has shown already.
    pub fn reported(kind: FailureKind) -> Self {
        Self { kind, diagnostics: Diagnostics::default() }
    }

    /// The user interrupted.
    pub fn interrupted() -> Self {
        Self::reported(FailureKind::Interrupted)
    }

    /// Blocked for these reasons.
    pub fn blocked(reasons: impl IntoIterator<Item = Diagnostic>) -> Self {
        Self { kind: FailureKind::Blocked, diagnostics: reasons.into_iter().collect() }
    }

    /// Returns the failure of what has problems; approvals are missing if a person can approve each.
    ///
    /// # Errors
    /// Those problems.
    pub fn refused(problems: Vec<Diagnostic>) -> Result<(), Self> {
        let is_approvable = |problem: &Diagnostic| problem.code == Code::CliApprovalNeeded;
        match problems.iter().all(is_approvable) {
            true if problems.is_empty() => Ok(()),
            true => Err(Self::approval_required(problems)),
            false => Err(Self::blocked(problems)),
        }
    }

    /// Approval is required for these reasons.
    pub fn approval_required(reasons: impl IntoIterator<Item = Diagnostic>) -> Self {
        Self { kind: FailureKind::ApprovalRequired, diagnostics: reasons.into_iter().collect() }
    }
}

impl From<Diagnostics> for WorkflowError {
    fn from(diagnostics: Diagnostics) -> Self {
        Self { kind: FailureKind::Failed, diagnostics }
    }
}

impl From<Diagnostic> for WorkflowError {
    fn from(diagnostic: Diagnostic) -> Self {
        Diagnostics::from(diagnostic).into()
    }
}

impl From<ApiError> for WorkflowError {
    fn from(error: ApiError) -> Self {
        error.diagnostic().into()
    }
}

impl From<LedgerError> for WorkflowError {
    /// A set that another command has locked blocks. It is not a failure.
    fn from(error: LedgerError) -> Self {
        let kind = match error.failure {
            LedgerFailure::Locked(_) => FailureKind::Blocked,
            LedgerFailure::Conflict
            | LedgerFailure::LockLost
            | LedgerFailure::Unsupported
            | LedgerFailure::Forbidden
            | LedgerFailure::Unusable(_)
            | LedgerFailure::Unavailable
            | LedgerFailure::OutcomeUnknown => FailureKind::Failed,
        };
        Self { kind, diagnostics: error.diagnostic().into() }
    }
}

/// The failures of a workflow that goes on after each: the worst counts.
#[derive(Debug, Default)]
pub(super) struct Failures(Option<FailureKind>);

impl Failures {
    /// Counts a failure that has been reported.
    pub(super) fn add(&mut self, kind: FailureKind) {
        self.0 = self.0.max(Some(kind));
    }

    /// Counts the failure of a step that has reported it.
    ///
    /// # Errors
    /// Failures that were not reported.
    pub(super) fn add_reported(
        &mut self,
        step: Result<(), WorkflowError>,
    ) -> Result<(), WorkflowError> {
        match step {
            Err(error) if error.diagnostics.is_empty() && error.kind == FailureKind::Blocked => {
                self.add(error.kind);
                Ok(())
            }
            step => step,
        }
    }

    /// Returns the worst failure, if there was one.
    pub(super) fn into_result(self) -> Result<(), WorkflowError> {
        match self.0 {
            None => Ok(()),
            Some(kind) => Err(WorkflowError::reported(kind)),
        }
    }
}
