//! `volume wait`: waits until a volume meets a condition.

use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::time::{Instant, sleep};

use super::claim_explanation::{explained, stuck_claims};
use super::context::WorkflowContext;
use super::dropped_claims::CountedClaims;
use super::error::{FailureKind, WorkflowError};
use super::find_volume::{VolumeLookup, ambiguous_volume, look_up_volume, volume_not_found};
use crate::ports::ApiError;
use crate::reconcile::wait::{WaitOutcome, WaitRequest, is_temporary, wait_for_volume};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{Namespace, NamespacedId, VolumeId};
use nomad_csi_plan::{ClaimingAlloc, UNKNOWN_CLAIM_HELP, WaitCondition};

/// The pause between two looks at the allocations of a server that has dropped claims: nothing says when they end.
const PAUSE: Duration = Duration::from_secs(2);

/// Waits until a volume meets a condition, and reports why it does not. `timeout_text` is the timeout
/// as the user wrote it.
///
/// # Errors
/// If the volume does not exist, the timeout passes, the server cannot be asked, or the user interrupts.
pub async fn wait_for_condition(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &str,
    condition: WaitCondition,
    (timeout, timeout_text): (Duration, &str),
) -> Result<(), WorkflowError> {
    let waiting = async {
        let Some(volume) = find_namespace(context, scope, id, condition).await? else {
            report_met(context, id, condition);
            return Ok(());
        };
        let (shown, quoted) = (volume.to_string(), volume.quoted());
        let end = Instant::now() + timeout;
        let mut request = WaitRequest { volume, condition, timeout };
        let mut reported = String::new();
        let mut report = |why: &str| {
            if why != reported {
                let line = format!("volume {shown}: {}: {why}", condition.unmet());
                context.reporter.status(&line);
                why.clone_into(&mut reported);
            }
        };
        let why = loop {
            match wait_for_volume(context.api, &request, &mut report).await? {
                WaitOutcome::Met => {}
                WaitOutcome::VolumeNotFound => {
                    return Err(volume_not_found(context.api, scope, id).await.into());
                }
                WaitOutcome::TimedOut(why) => break why,
            }
            let Some(why) = user_without_claim(context, &request).await? else {
                report_met(context, &shown, condition);
                return Ok(());
            };
            report(&why);
            request.timeout = end.saturating_duration_since(Instant::now());
            if request.timeout.is_zero() {
                break why;
            }
            sleep(PAUSE.min(request.timeout)).await;
        };
        let problem = timed_out(&quoted, (condition, timeout_text), &why);
        let problem = with_help(context, &request, problem).await;
        Err(WorkflowError::blocked([problem]))
    };
    context.unless_interrupted(waiting).await?
}

/// Returns why a volume that no allocation claims is in use all the same, if the wait is for its release: the server has
/// dropped the claim of an allocation that may still write.
async fn user_without_claim(
    context: &WorkflowContext<'_>,
    request: &WaitRequest,
) -> Result<Option<String>, WorkflowError> {
    if request.condition != WaitCondition::Unclaimed {
        return Ok(None);
    }
    let away = |error: &ApiError| format!("the server cannot be reached: {}", error.message);
    let reading = match context.api.read_volume(&request.volume).await {
        Ok(Some(reading)) => reading,
        Ok(None) => return Ok(None),
        Err(error) if is_temporary(&error) => return Ok(Some(away(&error))),
        Err(error) => return Err(error.into()),
    };
    let counted = CountedClaims::of(context, &[reading.value]).await?;
    if let Some(error) = counted.unread_for_now() {
        return Ok(Some(away(error)));
    }
    if let Some(problem) = counted.unread(Diagnostic::error, "used again") {
        return Err(WorkflowError::blocked([problem]));
    }
    let users = counted.volumes.iter().flat_map(ClaimingAlloc::of);
    let mut users = users.map(|user| format!("it has no claim, and may be written: {user}"));
    Ok(users.next())
}

fn report_met(context: &WorkflowContext<'_>, volume: &str, condition: WaitCondition) {
    let line = format!("volume {volume}: {condition}");
    context.reporter.status(&line);
}

/// Returns the volume in its namespace. `None` if no namespace has it and the condition is its absence.
async fn find_namespace(
    context: &WorkflowContext<'_>,
    scope: &Namespace,
    id: &str,
    condition: WaitCondition,
) -> Result<Option<NamespacedId>, WorkflowError> {
    if scope.as_str() != Namespace::ALL {
        return Ok(Some(NamespacedId::new(scope.clone(), VolumeId::new(id))));
    }
    match look_up_volume(context.api, scope, id).await? {
        VolumeLookup::Found(volume) => Ok(Some(volume.key())),
        VolumeLookup::NotFound if condition == WaitCondition::Absent => Ok(None),
        VolumeLookup::NotFound => Err(volume_not_found(context.api, scope, id).await.into()),
        VolumeLookup::Ambiguous(namespaces) => Err(ambiguous_volume(id, &namespaces).into()),
    }
}

fn timed_out(volume: &str, (condition, timeout): (WaitCondition, &str), why: &str) -> Diagnostic {
    let message = format!("timed out after {timeout}: volume {volume} is {}", condition.unmet());
    Diagnostic::error(Code::VolumeNotYet, message).note(why)
}

/// Adds what helps, by what is known of the volume's claims if the wait is for their release.
async fn with_help(
    context: &WorkflowContext<'_>,
    request: &WaitRequest,
    problem: Diagnostic,
) -> Diagnostic {
    let condition = request.condition;
    if condition != WaitCondition::Schedulable
        && let Ok(Some(reading)) = context.api.read_volume(&request.volume).await
    {
        let volume = &reading.value;
        let findings = stuck_claims(context.api, volume, context.clock.now()).await;
        if !findings.is_empty() {
            return explained(problem, &findings);
        }
        let claims = ClaimingAlloc::of(volume);
        if !claims.is_empty() && claims.iter().all(|claim| claim.alloc.is_none()) {
            return problem.help(UNKNOWN_CLAIM_HELP);
        }
    }
    problem.help(match condition {
        WaitCondition::Schedulable => {
            "run `nomad-csi plugin status` to check the plugin, or wait longer with `--timeout`"
        }
        WaitCondition::Unclaimed => {
            "stop the jobs that use the volume; `nomad-csi volume status` lists them"
        }
        WaitCondition::Absent => {
            "run `nomad-csi volume delete` or `nomad-csi volume deregister` to remove the volume"
        }
    })
}

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
