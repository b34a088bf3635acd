//! What a run remembers of its own steps, before and after each.
//!
//! Before a call that changes something the step is noted, after it what became of it. A run that is
//! cut short between the two leaves the note, so that the next one knows what was under way; it
//! reads back what is there before it repeats anything. A step that cannot be noted is not taken.

use async_trait::async_trait;

use crate::diagnostic::Diagnostic;
use crate::model::{NamespacedId, Volume, VolumeRequest};
use crate::plan::IntentStep;

/// What became of a step.
#[derive(Clone, Copy, Debug)]
pub enum Recorded<'a> {
    /// The request was carried out; the volume as it was read back, if it could be.
    Applied {
        /// What was sent.
        request: &'a VolumeRequest,
        /// What was found afterwards.
        now: Option<&'a Volume>,
    },
    /// The volume is gone.
    Removed,
    /// Nothing has changed.
    Nothing,
}

/// Keeps notes of steps.
#[async_trait]
pub trait Record: Sync {
    /// A step is about to be taken. On an error it is not.
    async fn begin(&self, volume: &NamespacedId, step: IntentStep) -> Result<(), Diagnostic>;
    /// A step has ended so. Of one whose end nobody knows nothing is said: its note stays.
    async fn end(&self, volume: &NamespacedId, what: Recorded<'_>) -> Result<(), Diagnostic>;
}

/// No notes: there is no ledger.
#[derive(Clone, Copy, Debug)]
pub struct Unrecorded;

#[async_trait]
impl Record for Unrecorded {
    async fn begin(&self, _: &NamespacedId, _: IntentStep) -> Result<(), Diagnostic> {
        Ok(())
    }

    async fn end(&self, _: &NamespacedId, _: Recorded<'_>) -> Result<(), Diagnostic> {
        Ok(())
    }
}
