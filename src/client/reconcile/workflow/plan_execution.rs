//! Carries out a prepared plan, and records it in the set that owns the volumes.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_checks::check_plan;
use super::plan_request::PreparedPlan;
use crate::reconcile::apply::{SetRecording, apply};
use crate::reconcile::execution::Execution;
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::reconnect::Reconnect;
use crate::reconcile::record::Unrecorded;
use crate::reconcile::recorded_scope::RecordedScope;
use crate::reconcile::resolve::Resolved;
use nomad_csi_model::NamespacedId;
use nomad_csi_plan::{LedgerSet, OwnershipChange, ownership_changes};

/// A prepared plan, ready to be carried out.
pub(super) struct ExecutionRequest<'a> {
    /// The plan.
    pub(super) prepared: &'a PreparedPlan,
    /// The requests with their secrets.
    pub(super) resolved: &'a Resolved,
    /// The set that owns the volumes, with its lock held; `None` if no set does.
    pub(super) set: Option<&'a mut SetLedger>,
    /// The ID of the saved plan, if it is one.
    pub(super) saved_plan: Option<&'a str>,
    /// What the set records of each request.
    pub(super) scope: RecordedScope,
    /// Nothing new begins once this is cancelled.
    pub(super) stop: &'a CancellationToken,
}

/// Carries out the plan and shows its progress. Returns one outcome per volume, in the plan's order.
///
/// # Errors
/// If the ledger cannot be written, or an allocation without a claim may still write to data that would be removed or
/// registered. Nothing was changed then.
pub(super) async fn execute_plan(
    context: &WorkflowContext<'_>,
    request: ExecutionRequest<'_>,
) -> Result<Vec<Outcome>, WorkflowError> {
    let prepared = request.prepared;
    let plan = &prepared.plan;
    let observed = &prepared.observation.observed.volumes;
    let checking = check_plan(context, plan, observed, &prepared.cut_off);
    let existing = context.unless_interrupted(checking).await??;
    let reporter = context.reporter;
    let progress = reporter.progress(plan);
    let reconnect = Reconnect::waiting(context.server_wait);
    let execution = Execution {
        api: context.api,
        snapshots: context.api,
        registered: &prepared.observation.observed.registered,
        existing: &existing,
        rules: prepared.rules,
        resolved: request.resolved,
        parallelism: context.parallelism,
        stop: request.stop,
        progress: &*progress,
        record: &Unrecorded,
        reconnect: &reconnect,
    };
    let changes = request.set.as_ref().map(|set| {
        let set = set.set();
        let taken = request.resolved.assumed_secrets();
        let mut lines = describe_changes(set, &ownership_changes(plan, set));
        lines.extend(describe_taken_secrets(set, taken.keys()));
        lines
    });
    let recording = request.set.map(|set| SetRecording {
        set,
        actor: context.actor.clone(),
        clock: context.clock.clone(),
        observed: &prepared.observation.observed,
        saved_plan: request.saved_plan,
        scope: request.scope,
    });
    let outcomes = apply(&execution, plan, recording).await?;
    drop(progress);
    for line in changes.unwrap_or_default() {
        reporter.status(&line);
    }
    Ok(outcomes)
}

/// Returns a line about the volumes whose secrets the set takes as they are in the files.
fn describe_taken_secrets<'k>(
    set: &LedgerSet,
    mut volumes: impl ExactSizeIterator<Item = &'k NamespacedId>,
) -> Option<String> {
    let of = match volumes.len() {
        1 => format!("volume {}", volumes.next()?),
        0 => return None,
        several => format!("{several} volumes"),
    };
    Some(format!(
        "{of}: the server does not show secrets, so set {} assumes those of the file and sends a later change",
        set.name()
    ))
}

/// Up to this number, each change of ownership has a line.
const FEW: usize = 10;

/// Returns a line for each change of ownership and protection, or one for many of a kind.
fn describe_changes(set: &LedgerSet, changes: &[(NamespacedId, OwnershipChange)]) -> Vec<String> {
    let name = set.name();
    let words = |change: &OwnershipChange| match change {
        OwnershipChange::Adopted => format!("now owned by set {name}"),
        OwnershipChange::Gone => format!("does not exist, no longer owned by set {name}"),
        OwnershipChange::Protected => format!("now protected by set {name}"),
        OwnershipChange::Unprotected => format!("no longer protected by set {name}"),
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (_, change) in changes {
        *counts.entry(words(change)).or_default() += 1;
    }
    let few = changes.iter().filter_map(|(key, change)| {
        let words = words(change);
        (counts[&words] <= FEW).then(|| format!("volume {key}: {words}"))
    });
    let many = counts.iter().filter(|(_, count)| **count > FEW);
    let many = many.map(|(words, count)| format!("{count} volumes: {words}"));
    few.chain(many).collect()
}
