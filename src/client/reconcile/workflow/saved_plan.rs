//! Checks if a saved plan can be applied, and with which options.

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::plan_request::ChangeOptions;
use crate::reconcile::ledger::SetLedger;
use nomad_csi_model::diagnostic::{Code, Diagnostic};
use nomad_csi_model::{ServerVersion, ago};
use nomad_csi_plan::{SavedPlan, SavedPlanProblem};

/// Checks that a saved plan was made for this server, and that the set does not record it as applied.
///
/// # Errors
/// If the plan cannot be applied: blocked.
pub(super) fn check_saved_plan(
    context: &WorkflowContext<'_>,
    saved: &SavedPlan,
    set: Option<&SetLedger>,
) -> Result<(), WorkflowError> {
    let (then, now) = (&saved.origin().server, context.api.name());
    if then != now {
        let message = format!("the saved plan was made for {then}, not for {now}");
        let problem = Diagnostic::error(Code::PlanStale, message)
            .note("the plan relies on the state of that server")
            .help(format!("use {then}, or make a new plan for {now}"));
        return Err(WorkflowError::blocked([problem]));
    }
    let applied = set.and_then(|set| Some((set.set().name(), set.set().applied_plan(saved.id())?)));
    let Some((set, at)) = applied else {
        return Ok(());
    };
    let ago = ago(at, context.clock.now());
    let message = format!("the saved plan was already applied {ago}");
    let problem = Diagnostic::error(Code::PlanApplied, message)
        .note(format!("the ledger of set `{set}` records it"))
        .help(Code::PlanApplied.advice());
    Err(WorkflowError::blocked([problem]))
}

impl ChangeOptions {
    /// Returns the options of a saved plan. These options add approvals, denials and policies to them.
    ///
    /// # Errors
    /// If the saved plan holds a value that this version does not know.
    pub fn for_saved_plan(self, saved: &SavedPlan) -> Result<Self, WorkflowError> {
        let unusable = |problem: SavedPlanProblem| {
            let message = format!("the saved plan cannot be applied: {problem}");
            Diagnostic::error(Code::PlanUnusable, message)
        };
        let mut requests = saved.options().map_err(unusable)?;
        requests.deny.extend(self.plan.deny);
        requests.policies = self.plan.policies;
        requests.plugin_snapshots = self.plan.plugin_snapshots;
        requests.no_provider |= self.plan.no_provider;
        requests.share.extend(self.plan.share);
        let mut approvals = saved.approvals().map_err(unusable)?;
        approvals.max_risk = approvals.max_risk.max(self.approvals.max_risk);
        approvals.approved.extend(self.approvals.approved);
        approvals.cut_off.extend(self.approvals.cut_off);
        let version = saved.origin().server_version.as_deref();
        let version = version.map(str::parse::<ServerVersion>).transpose();
        let server_version = version.map_err(|_| {
            let problem = "its server version is not a version".to_owned();
            unusable(SavedPlanProblem::Damaged(problem))
        })?;
        Ok(Self { server_version, plan: requests, approvals, is_one_of_several: false })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nomad_csi_plan::{
        Approvals, DenyRule, ObservedState, Plan, PlanOptions, PlanOrigin, Policy,
    };

    #[test]
    fn a_saved_plan_obeys_the_policies_and_the_denials_of_both_commands() {
        let planned = PlanOptions { deny: [DenyRule::Expand].into(), ..PlanOptions::default() };
        let (plan, observed) = (Plan::default(), ObservedState::default());
        let origin = PlanOrigin::default();
        let saved = SavedPlan::of(origin, &plan, &observed, &planned, &Approvals::default());
        let policy = Policy {
            file: "ci.policy.toml".to_owned(),
            deny: [DenyRule::DeleteData].into(),
            max_risk: None,
        };
        let typed = PlanOptions {
            deny: [DenyRule::Replace].into(),
            policies: [policy].into_iter().collect(),
            ..PlanOptions::default()
        };
        let options = ChangeOptions { plan: typed.clone(), ..ChangeOptions::default() };
        let both = options.for_saved_plan(&saved).expect("a plan of this version").plan;
        assert_eq!(both.policies, typed.policies);
        assert_eq!(both.deny, [DenyRule::Expand, DenyRule::Replace].into());
    }
}
