//! Carries out a plan for a set, and records each step in the set's ledger.
//!
//! The caller holds the set's lock and has read the set under it. If the lock fails, check-and-set
//! still prevents two writers from overwriting each other. If the ledger cannot be written at the
//! start, nothing is started. Without a set, nothing is recorded.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::execute::execute;
use super::execution::Execution;
use super::ledger::SetLedger;
use super::ledger_queue::{UnwrittenResult, write_updates};
use super::ledger_writer::{LedgerWriter, unwritten_result};
use super::outcome::Outcome;
use super::recorded_scope::RecordedScope;
use crate::ports::LedgerError;
use nomad_csi_plan::{Actor, CachedMergeRules, ObservedState, Plan, record_observations};
use nomad_csi_ports::Clock;

/// The set that records a plan.
pub struct SetRecording<'a> {
    /// The set, read while its lock was held.
    pub set: &'a mut SetLedger,
    /// The author of the changes.
    pub actor: Actor,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// What the plan was made from.
    pub observed: &'a ObservedState,
    /// The plan's ID if it was saved: the set records that it was applied.
    pub saved_plan: Option<&'a str>,
    /// What the set records of each request.
    pub scope: RecordedScope,
}

/// Carries out a plan, and returns the outcomes in its order. `execution.record` is used only without
/// a set.
///
/// # Errors
/// If the changes of ownership cannot be written to the ledger. Nothing was started then.
pub async fn apply(
    execution: &Execution<'_>,
    plan: &Plan,
    recording: Option<SetRecording<'_>>,
) -> Result<Vec<Outcome>, LedgerError> {
    let Some(recording) = recording else {
        return Ok(execute(execution, plan).await);
    };
    let SetRecording { set, actor, clock, observed, saved_plan, scope } = recording;
    let now = clock.now();
    let noted_rules = set.is_on_server().then(|| CachedMergeRules::of(execution.rules));
    let assumed_secrets = execution.resolved.assumed_secrets();
    set.update(|set| {
        record_observations(set, plan, observed, assumed_secrets, now, noted_rules.as_ref());
        if let Some(id) = saved_plan {
            set.record_plan(id, now);
        }
    })
    .await?;
    let (writer, updates) =
        LedgerWriter::new(plan, execution.parallelism, execution.rules, scope, actor, clock);
    let writer = writer.under_lock(set.lock_state());
    let writer = writer.taking_notes(noted_rules);
    let executing = async move {
        let recorded = Execution { record: &writer, ..*execution };
        execute(&recorded, plan).await
    };
    let (mut outcomes, unwritten) = tokio::join!(executing, write_updates(set, updates));
    warn_of_unwritten(plan, &mut outcomes, unwritten);
    Ok(outcomes)
}

/// Adds a warning to the outcome of each volume whose result is not in the ledger.
fn warn_of_unwritten(plan: &Plan, outcomes: &mut [Outcome], unwritten: Vec<UnwrittenResult>) {
    let mut errors: BTreeMap<_, _> = unwritten.into_iter().collect();
    for (planned, outcome) in plan.volumes.iter().zip(outcomes) {
        if let Some(error) = errors.remove(&planned.key) {
            let warning = unwritten_result(&planned.key, error);
            outcome.warnings.push(warning);
        }
    }
}

#[cfg(test)]
mod tests;
