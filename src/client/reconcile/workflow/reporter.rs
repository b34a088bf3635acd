//! How workflows talk to a person or write to a log.

use std::time::Duration;

use async_trait::async_trait;

use super::error::WorkflowError;
use crate::ports::LockHolder;
use crate::reconcile::execution::ProgressObserver;
use nomad_csi_model::SetName;
use nomad_csi_model::diagnostic::{Diagnostic, Diagnostics, SourceMap};
use nomad_csi_plan::Plan;

/// Shows what a workflow does. Implementations show control characters in lines, and do not obey them.
pub trait Reporter: Sync {
    /// Shows one line of progress.
    fn status(&self, line: &str);

    /// Shows diagnostics that may point into `sources`.
    fn diagnostics(&self, diagnostics: &Diagnostics, sources: &SourceMap);

    /// Shows a plan before it is carried out.
    fn plan(&self, plan: &Plan, server: &str);

    /// Starts to show the progress of a plan. Dropping the observer ends that.
    fn progress(&self, plan: &Plan) -> Box<dyn ProgressObserver + '_>;

    /// Reports that another command holds the lock of a set, and how long this one waits at most.
    fn waiting_for_lock(&self, set: &SetName, holder: Option<&LockHolder>, timeout: Duration);

    /// Shows one diagnostic that points into no file.
    fn diagnostic(&self, diagnostic: Diagnostic) {
        self.diagnostics(&diagnostic.into(), &SourceMap::default());
    }
}

/// Asks the person who runs a command.
#[async_trait]
pub trait ApprovalPrompt: Sync {
    /// Returns whether a person can answer.
    fn is_interactive(&self) -> bool;

    /// Asks a question and returns the answer, which is empty at the end of input. `details` stand on
    /// the line before the question.
    ///
    /// # Errors
    /// If the user interrupts, or the answer cannot be read.
    async fn ask(&self, details: Option<&str>, question: &str) -> Result<String, WorkflowError>;

    /// The command line with `--yes` added, for a help text.
    fn command_with_yes(&self) -> String;
}
