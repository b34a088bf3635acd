//! Carries out a plan for a set, and records each step in the set's ledger.
//!
//! The caller holds the set's lock and has read the set under it. If the lock fails, check-and-set
//! still prevents two writers from overwriting each other. If the ledger cannot be written at the
//! start ([`super::ledger_writer`]), nothing is started. Without a set, nothing is recorded.

use std::collections::BTreeMap;

use super::execute::execute;
use super::execution::Execution;
use super::ledger::SetLedger;
use super::ledger_queue::{QueuedUpdates, UnwrittenResult, write_updates};
use super::ledger_writer::unwritten_result;
use super::outcome::Outcome;
use nomad_csi_plan::Plan;

/// Carries out a plan, whose record is the writer that queues these updates of the set. Returns the outcomes in the
/// plan's order.
pub(super) async fn apply_for_set(
    execution: Execution<'_>,
    plan: &Plan,
    set: &mut SetLedger,
    updates: QueuedUpdates,
) -> Vec<Outcome> {
    // The updates end when the execution, which owns the writer, is dropped.
    let executing = async move { execute(&execution, plan).await };
    let (mut outcomes, unwritten) = tokio::join!(executing, write_updates(set, updates));
    warn_of_unwritten(plan, &mut outcomes, unwritten);
    outcomes
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
