//! Carries out a prepared plan, and records it in the set that owns the volumes.

use std::collections::BTreeMap;

use tokio_util::sync::CancellationToken;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_checks::check_plan;
use super::plan_request::PreparedPlan;
use crate::reconcile::apply::apply_for_set;
use crate::reconcile::execute::execute;
use crate::reconcile::execution::{Execution, StepWait};
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::ledger_writer::{LedgerWriter, RecordedScope};
use crate::reconcile::outcome::Outcome;
use crate::reconcile::reconnect::Reconnect;
use crate::reconcile::record::Unrecorded;
use crate::reconcile::resolve::Resolved;
use nomad_csi_model::NamespacedId;
use nomad_csi_plan::{LedgerSet, OwnershipChange, ownership_changes};

/// Carries out the plan, whose requests are `resolved`, and shows its progress. Returns one outcome per volume, in the plan's
/// order.
///
/// The caller holds the lock of the `set` that owns the volumes. The set records the part of each request that `scope`
/// names, and the ID of a plan that was saved. Nothing new begins once `stop` is cancelled.
///
/// # Errors
/// If the ledger cannot be written, or an allocation without a claim may still write to data that would be removed or
/// registered. Nothing was changed then.
pub(super) async fn execute_plan(
    context: &WorkflowContext<'_>,
    prepared: &PreparedPlan,
    resolved: &Resolved,
    set: Option<&mut SetLedger>,
    saved_plan: Option<&str>,
    scope: RecordedScope,
    stop: &CancellationToken,
) -> Result<Vec<Outcome>, WorkflowError> {
    let PreparedPlan { plan, rules, .. } = prepared;
    let observed = &prepared.observation.observed;
    let checking = check_plan(context, plan, &observed.volumes, &prepared.cut_off);
    let existing = context.unless_interrupted(checking).await??;
    let reporter = context.reporter;
    let progress = reporter.progress(plan);
    let reconnect = Reconnect::waiting(context.server_wait);
    let execution = |record| Execution {
        api: context.api,
        snapshots: context.api,
        registered: &observed.registered,
        existing: &existing,
        rules: *rules,
        resolved,
        parallelism: context.parallelism,
        record,
        wait: StepWait { reconnect: &reconnect, progress: &*progress, stop },
    };
    let Some(set) = set else {
        return Ok(execute(&execution(Box::new(Unrecorded)), plan).await);
    };
    let mut changes = describe_changes(set.set(), &ownership_changes(plan, set.set()));
    changes.extend(describe_taken_secrets(set.set(), resolved.assumed_secrets().keys()));
    let (actor, clock) = (context.actor.clone(), context.clock.clone());
    let (writer, updates) =
        LedgerWriter::new(plan, context.parallelism, *rules, scope, actor, clock);
    let writer = writer.begin(set, plan, observed, resolved, saved_plan).await?;
    let outcomes = apply_for_set(execution(Box::new(writer)), plan, set, updates).await;
    drop(progress);
    for line in changes {
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
