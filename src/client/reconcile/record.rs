//! The record of a run's steps.
//!
//! A step is recorded before its call, and its result after it. A run that ends in between leaves the
//! record, so the next run knows which step was interrupted. A step that cannot be recorded is not taken.

use async_trait::async_trait;

use nomad_csi_model::diagnostic::Diagnostic;
use nomad_csi_model::{NamespacedId, Volume, VolumeRequest};
use nomad_csi_plan::IntentStep;

/// The result of a step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Recorded<'a> {
    /// The request was carried out.
    Applied {
        /// The request.
        request: &'a VolumeRequest,
        /// The volume as it was read back, if it could be.
        now: Option<&'a Volume>,
    },
    /// The volume was removed.
    Removed,
    /// Nothing changed.
    Nothing,
}

/// Records steps.
#[async_trait]
pub(super) trait Record: Sync {
    /// Returns a volume's place among those that can start; volumes of one place start in the order of
    /// the plan.
    fn order(&self, _volume: &NamespacedId) -> u64 {
        0
    }

    /// Records that a step starts. On an error, the step is not taken.
    async fn begin(&self, volume: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic>;
    /// Records the result of a step, at the latest before the next step that [`Self::begin`] records. A
    /// step with an unknown result keeps its record.
    async fn end(&self, volume: &NamespacedId, what: Recorded<'_>) -> Result<(), Diagnostic>;
}

/// Records nothing: no ledger is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unrecorded;

#[async_trait]
impl Record for Unrecorded {
    async fn begin(&self, _: &NamespacedId, _: IntentStep) -> Result<(), Diagnostic> {
        Ok(())
    }

    async fn end(&self, _: &NamespacedId, _: Recorded<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
