//! Checks the token's permissions before anything is changed.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::SetSelection;
use super::plan_request::PreparedPlan;
use crate::ports::ServerKind;
use crate::reconcile::permissions::{Preflight, preflight};
use nomad_csi_plan::RequiredPermissions;

/// Checks whether the token may carry out the plan. A plan without changes needs no permissions, and
/// the agent has no ACLs.
///
/// # Errors
/// If the server does not know the token, or cannot be reached.
pub(super) async fn preflight_plan(
    context: &WorkflowContext<'_>,
    prepared: &PreparedPlan,
    set: Option<&SetSelection>,
) -> Result<Preflight, WorkflowError> {
    let plan = &prepared.plan;
    if prepared.server == ServerKind::Agent || plan.counts().changes() == 0 {
        return Ok(Preflight::Granted);
    }
    let variables = set.and_then(SetSelection::variables);
    let needs = RequiredPermissions::of_plan(plan, variables.as_ref());
    let checking = preflight(context.api, &needs);
    Ok(context.unless_interrupted(checking).await??)
}

/// Checks whether the token may carry out the plan. Reports if that is unknown, and goes on.
///
/// # Errors
/// If the token lacks a permission: blocked, with the policy to add. And if the server cannot be asked.
pub(super) async fn check_permissions(
    context: &WorkflowContext<'_>,
    prepared: &PreparedPlan,
    set: Option<&SetSelection>,
) -> Result<(), WorkflowError> {
    match preflight_plan(context, prepared, set).await? {
        Preflight::Granted => Ok(()),
        Preflight::Missing(missing) => {
            Err(WorkflowError::blocked([missing.note("nothing was changed")]))
        }
        Preflight::Unknown(why) => {
            let line = format!("the token's permissions are unknown: {why}; continuing");
            context.reporter.status(&line);
            Ok(())
        }
    }
}
