//! Checks that a plan does nothing unsafe while an allocation may still write without a claim: right before it is carried out, and as a
//! warning where it is only shown.

use std::collections::BTreeMap;

use super::context::WorkflowContext;
use super::dropped_claims::removal_problems;
use super::error::WorkflowError;
use super::plan_request::PreparedPlan;
use super::taken_data::TakenData;
use nomad_csi_model::diagnostic::{Diagnostic, Severity};
use nomad_csi_model::{NamespacedId, Volume};
use nomad_csi_plan::{CutOffs, DataIdentity, Plan};

/// Refuses a plan that would delete, deregister or register data to which an allocation without a claim may still
/// write. Returns the data that the providers have and that no creation may be answered with.
///
/// # Errors
/// Every such volume. Nothing was changed then.
pub(super) async fn check_plan(
    context: &WorkflowContext<'_>,
    plan: &Plan,
    observed: &BTreeMap<NamespacedId, Volume>,
    cut_off: &CutOffs,
) -> Result<Vec<DataIdentity>, WorkflowError> {
    let (problems, existing) = plan_problems(context, plan, observed, cut_off).await?;
    WorkflowError::refused(problems)?;
    Ok(existing)
}

/// Warns of the changes that would be refused now, because an allocation without a claim may still write.
///
/// # Errors
/// If the server cannot be reached, or the user interrupts.
pub async fn warn_of_dropped_claims(
    context: &WorkflowContext<'_>,
    prepared: &mut PreparedPlan,
) -> Result<(), WorkflowError> {
    let observed = &prepared.observation.observed.volumes;
    let reading = plan_problems(context, &prepared.plan, observed, &prepared.cut_off);
    let (problems, _) = context.unless_interrupted(reading).await??;
    let warnings = problems.into_iter().map(|problem| {
        let warning = Diagnostic { severity: Severity::Warning, ..problem };
        warning.note("`apply` refuses the plan as long as this is so")
    });
    prepared.plan.remarks.extend(warnings);
    Ok(())
}

async fn plan_problems(
    context: &WorkflowContext<'_>,
    plan: &Plan,
    observed: &BTreeMap<NamespacedId, Volume>,
    cut_off: &CutOffs,
) -> Result<(Vec<Diagnostic>, Vec<DataIdentity>), WorkflowError> {
    let removed = plan.volumes.iter().filter(|entry| entry.action.removes());
    let removed: Vec<Volume> =
        removed.filter_map(|entry| observed.get(&entry.key).cloned()).collect();
    let mut problems = removal_problems(context, &removed).await?;
    let taken = TakenData::of(context, plan, observed, cut_off).await?;
    problems.extend(taken.problems);
    Ok((problems, taken.existing))
}
