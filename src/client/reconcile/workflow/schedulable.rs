//! Waits until applied volumes are schedulable.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::context::WorkflowContext;
use super::error::{FailureKind, WorkflowError};
use crate::reconcile::wait::{WaitOutcome, WaitRequest, wait_for_volume};
use nomad_csi_model::NamespacedId;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_plan::WaitCondition;

/// How long each volume is waited for.
const SCHEDULABLE_TIMEOUT: Duration = Duration::from_secs(300);

/// Waits until the volumes are schedulable. Reports why they are not, each time the reason changes.
///
/// # Errors
/// If a volume is not schedulable in time: blocked, and reported. And if the server cannot be asked.
pub(super) async fn wait_until_schedulable(
    context: &WorkflowContext<'_>,
    volumes: Vec<NamespacedId>,
) -> Result<(), WorkflowError> {
    let waits = volumes.into_iter().map(async |volume| {
        let shown = volume.to_string();
        let request = WaitRequest {
            volume,
            condition: WaitCondition::Schedulable,
            timeout: SCHEDULABLE_TIMEOUT,
        };
        let mut report = |why: &str| {
            let line = format!("volume {shown}: not schedulable yet: {why}");
            context.reporter.status(&line);
        };
        let why = match wait_for_volume(context.api, &request, &mut report).await? {
            WaitOutcome::Met => return Ok(None),
            WaitOutcome::VolumeNotFound => "the volume does not exist".to_owned(),
            WaitOutcome::TimedOut(why) => why,
        };
        let message = format!("volume `{shown}` was applied, but is not schedulable");
        let problem = Diagnostic::error(Code::VolumeNotYet, message).note(why);
        Ok::<_, WorkflowError>(Some(problem.help(Code::VolumeNotYet.advice())))
    });
    let waiting = stream::iter(waits).buffered(context.parallelism).try_collect::<Vec<_>>();
    let problems = context.unless_interrupted(waiting).await??;
    let problems: Diagnostics = problems.into_iter().flatten().collect();
    if problems.is_empty() {
        return Ok(());
    }
    let reporter = context.reporter;
    reporter.diagnostics(&problems, &SourceMap::default());
    Err(WorkflowError::reported(FailureKind::Blocked))
}
