//! `apply`, `volume create` and `volume register`: read, plan, ask, change.
//!
//! If a part of the plan is blocked, nothing is changed unless the request says to keep going. `apply`
//! shows the plan and asks. `create` and `register` do not ask, and they send a volume again that is
//! already as desired, because that renews its secrets.

use tokio_util::sync::CancellationToken;

use super::approval::{Answer, Approval, NamedApproval, require_approval, require_named_approvals};
use super::context::WorkflowContext;
use super::error::{FailureKind, Failures, WorkflowError};
use super::ledger_access::{LedgerAccess, SetSelection};
use super::other_owners::check_owners;
use super::outcome_report::report_outcomes;
use super::plan_execution::execute_plan;
use super::plan_request::{ChangeOptions, PlanRequest, PreparedPlan, ProviderCheck, Reading};
use super::plugin_health::prepare_plan_when_healthy;
use super::preflight::check_permissions;
use super::prepare::prepare_plan;
use super::reporter::ApprovalPrompt;
use super::saved_plan::check_saved_plan;
use super::secret_lookup::look_up_secrets;
use super::set_lock::with_set_lock;
use super::specifications::Specifications;
use super::wait::wait_until_schedulable;
use crate::ports::WithDocument;
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::ledger_writer::RecordedScope;
use crate::reconcile::outcome::{Outcome, Status};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics};
use nomad_csi_model::{NamespacedId, Volume, shell_quoted};
use nomad_csi_plan::{Action, Approvals, LedgerSet, Plan, PlannedVolume, SavedPlan, Unapproved};
use nomad_csi_spec::Purpose;

/// Specifications to apply.
pub struct ApplyRequest<'a> {
    /// The specifications.
    pub specifications: &'a Specifications,
    /// Which command applies them.
    pub mode: ApplyMode,
    /// The set that owns the volumes; `None` if no set does.
    pub set: Option<&'a SetSelection>,
    /// The ledger whose sets may own the volumes; `None` if the command uses none.
    pub ledger: Option<&'a LedgerAccess>,
    /// The options besides the specifications.
    pub options: ChangeOptions,
    /// The saved plan to apply, if it is one.
    pub saved_plan: Option<&'a SavedPlan>,
    /// True if the workflow waits until the volumes are schedulable.
    pub waits_until_schedulable: bool,
}

/// Which command applies specifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApplyMode {
    /// `volume create`.
    Create,
    /// `volume register`.
    Register,
    /// `apply`.
    Apply {
        /// True if the plan is approved without a question.
        is_approved: bool,
        /// True if what can be changed is changed while something else is blocked.
        keep_going: bool,
        /// True if the workflow waits for unhealthy plugins.
        waits_for_plugins: bool,
    },
}

impl ApplyMode {
    /// Returns the rules that the specifications must meet.
    pub fn purpose(self) -> Purpose {
        match self {
            Self::Create => Purpose::Create,
            Self::Register => Purpose::Register,
            Self::Apply { .. } => Purpose::ByExternalId,
        }
    }

    fn is_apply(self) -> bool {
        matches!(self, Self::Apply { .. })
    }

    fn keeps_going(self) -> bool {
        matches!(self, Self::Apply { keep_going, .. } if keep_going)
    }
}

/// A plan that was applied.
#[derive(Debug)]
pub struct ApplyResult {
    prepared: PreparedPlan,
    outcomes: Vec<Outcome>,
    /// The result of the apply. Failures have been reported.
    pub result: Result<(), WorkflowError>,
}

impl ApplyResult {
    /// Returns the entries of the plan with their outcomes.
    pub fn outcomes(&self) -> impl Iterator<Item = (&PlannedVolume, &Outcome)> {
        self.prepared.plan.volumes.iter().zip(&self.outcomes)
    }

    /// Returns the volumes as they are now, in the order of their specifications.
    pub fn volumes(&self) -> Vec<WithDocument<Volume>> {
        let observation = &self.prepared.observation;
        let unchanged = |key: &NamespacedId| {
            Some(WithDocument {
                value: observation.observed.volumes.get(key)?.clone(),
                document: observation.documents.get(key)?.clone(),
            })
        };
        let volumes = self.prepared.plan.volumes.iter().zip(&self.outcomes);
        volumes
            .filter_map(|(planned, outcome)| match &outcome.status {
                Status::Done(Some(reading)) => Some((**reading).clone()),
                Status::Unchanged => unchanged(&planned.key),
                Status::Done(None)
                | Status::Blocked
                | Status::Removed
                | Status::Stale(_)
                | Status::DependencyFailed(_)
                | Status::Failed(_)
                | Status::ServerUnreachable(_)
                | Status::NotStarted => None,
            })
            .collect()
    }
}

/// Applies specifications.
///
/// # Errors
/// If the plan is blocked or not approved, or the server or the ledger cannot be used.
pub async fn apply_specifications(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &ApplyRequest<'_>,
) -> Result<ApplyResult, WorkflowError> {
    let Some(set) = request.set else {
        return apply_in_set(context, prompt, request, None, context.interrupt).await;
    };
    with_set_lock(context, set, async |set, stop| {
        apply_in_set(context, prompt, request, Some(set), stop).await
    })
    .await
}

async fn apply_in_set(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &ApplyRequest<'_>,
    set: Option<&mut SetLedger>,
    stop: &CancellationToken,
) -> Result<ApplyResult, WorkflowError> {
    let specifications = request.specifications;
    if let Some(saved) = request.saved_plan {
        check_saved_plan(context, saved, set.as_deref())?;
    }
    let prepared = prepare(context, request, set.as_deref()).await?;
    let plan = &prepared.plan;
    if request.mode.is_apply() {
        context.reporter.plan(plan, context.api.name());
    }
    let diagnostics = prepared.diagnostics();
    context.reporter.diagnostics(&diagnostics, &specifications.sources);
    stop_if_blocked(context, request.mode, plan)?;
    refuse_unused_approvals(&prepared, &request.options, set.as_deref().map(SetLedger::set))?;
    if plan.counts().changes() > 0 {
        approve_plan(context, prompt, request, &prepared).await?;
    }
    if request.mode == ApplyMode::Create {
        report_existing(context, plan);
    }
    let owner = set.as_deref().map(SetLedger::set);
    let resolved = look_up_secrets(context, specifications, plan, owner).await?;
    let saved_plan = request.saved_plan.map(SavedPlan::id);
    let scope = RecordedScope::WholeRequest;
    let mut outcomes =
        execute_plan(context, &prepared, &resolved, set, saved_plan, scope, stop).await?;
    let mut failures = Failures::default();
    report_outcomes(context, specifications, plan, &mut outcomes, &mut failures);
    if request.mode.is_apply() && plan.counts().without_data > 0 {
        report_without_data(context, plan.counts().without_data);
        failures.add(FailureKind::Blocked);
    }
    if request.waits_until_schedulable {
        let waiting = wait_until_schedulable(context, applied_volumes(plan, &outcomes));
        failures.add_reported(waiting.await)?;
    }
    Ok(ApplyResult { prepared, outcomes, result: failures.into_result() })
}

/// Makes the plan as the request says: after plugins are healthy, and compared with a saved plan.
async fn prepare(
    context: &WorkflowContext<'_>,
    request: &ApplyRequest<'_>,
    set: Option<&SetLedger>,
) -> Result<PreparedPlan, WorkflowError> {
    let plan_request = PlanRequest {
        specifications: request.specifications,
        purpose: request.mode.purpose(),
        options: request.options.clone(),
        keeps_documents: true,
        reads_whole_set: false,
        provider_check: match request.mode {
            ApplyMode::Apply { .. } => ProviderCheck::Always,
            ApplyMode::Create | ApplyMode::Register => ProviderCheck::WhenRequired,
        },
        set: set.map(SetLedger::set),
        reading: Reading::Everything,
    };
    let mut prepared = match request.mode {
        ApplyMode::Apply { waits_for_plugins: true, keep_going, .. } => {
            prepare_plan_when_healthy(context, &plan_request, keep_going).await?
        }
        ApplyMode::Apply { .. } | ApplyMode::Create | ApplyMode::Register => {
            prepare_plan(context, &plan_request).await?
        }
    };
    if let Some(access) = request.ledger {
        check_owners(context, &mut prepared, set.map(SetLedger::set), access).await?;
    }
    if let Some(saved) = request.saved_plan {
        let observed = &prepared.observation.observed;
        saved.block_changed_entries(&mut prepared.plan, observed);
    }
    Ok(prepared)
}

/// Ends the workflow if a part of the plan is blocked, unless the rest may be done.
fn stop_if_blocked(
    context: &WorkflowContext<'_>,
    mode: ApplyMode,
    plan: &Plan,
) -> Result<(), WorkflowError> {
    let counts = plan.counts();
    if counts.blocked_or_waiting() == 0 || (mode.keeps_going() && counts.changes() > 0) {
        return Ok(());
    }
    let reporter = context.reporter;
    reporter.status("nothing was changed: a part of the plan is blocked");
    if mode.is_apply() && counts.changes() > 0 {
        reporter.status("use `--keep-going` to apply the rest");
    }
    Err(WorkflowError::reported(FailureKind::Blocked))
}

/// Refuses approvals of changes that the plan does not make. An earlier run may have removed a volume that
/// the set released or that is named as data to delete.
///
/// # Errors
/// If there is one.
pub fn refuse_unused_approvals(
    prepared: &PreparedPlan,
    options: &ChangeOptions,
    set: Option<&LedgerSet>,
) -> Result<(), WorkflowError> {
    if options.is_one_of_several {
        return Ok(());
    }
    let observed = &prepared.observation.observed;
    let may_be_removed = |key: &NamespacedId| {
        options.plan.delete_data.contains(key) || set.is_some_and(|set| set.has_released(key))
    };
    let unused = options.approvals.unused(&prepared.plan, observed, may_be_removed);
    let unused: Diagnostics = unused.into_iter().collect();
    if unused.is_empty() {
        return Ok(());
    }
    Err(unused.into())
}

/// Checks permissions and asks for approval.
async fn approve_plan(
    context: &WorkflowContext<'_>,
    prompt: &dyn ApprovalPrompt,
    request: &ApplyRequest<'_>,
    prepared: &PreparedPlan,
) -> Result<(), WorkflowError> {
    let plan = &prepared.plan;
    if request.mode.is_apply() {
        check_permissions(context, prepared, request.set).await?;
    }
    approve_risks(prompt, plan, &request.options.approvals).await?;
    if let ApplyMode::Apply { is_approved: false, .. } = request.mode {
        let action = match plan.counts().changes() {
            1 => "change 1 volume".to_owned(),
            count => format!("change {count} volumes"),
        };
        let question =
            format!("{} at {}? [y/N] ", action.replacen('c', "C", 1), context.api.name());
        let approval =
            Approval { action: &action, details: None, question: &question, answer: Answer::Yes };
        require_approval(prompt, approval).await?;
    }
    Ok(())
}

/// Asks for approval of the risks that no flag approves. `--yes` does not approve them.
async fn approve_risks(
    prompt: &dyn ApprovalPrompt,
    plan: &Plan,
    approvals: &Approvals,
) -> Result<(), WorkflowError> {
    let missing = approvals.missing(plan);
    require_named_approvals(prompt, missing.iter().map(risk_approval)).await
}

fn risk_approval(unapproved: &Unapproved) -> NamedApproval<'_> {
    let Unapproved { key, risk, is_own, .. } = unapproved;
    let message = format!("cannot change volume {}: risk `{risk}` is not approved", key.quoted());
    let note = match is_own {
        true => "neither `--yes` nor `--max-risk` approves that a volume has other data",
        false => "`--yes` does not approve risks",
    };
    NamedApproval {
        question: format!("Volume {key}: risk {risk}. Type its ID to approve: "),
        id: key.id.as_str(),
        problem: Diagnostic::error(Code::CliApprovalNeeded, message).note(note).help(format!(
            "add `--approve {}`",
            shell_quoted(format_args!("{risk}:{}/{}", key.namespace, key.id))
        )),
    }
}

/// Reports the volumes that `volume create` sends again or updates because they exist.
fn report_existing(context: &WorkflowContext<'_>, plan: &Plan) {
    for planned in &plan.volumes {
        let (Action::Update(update) | Action::Expand(update)) = &planned.action else {
            continue;
        };
        let step = match update.changes.is_empty() {
            true => "sending it again",
            false => "updating it",
        };
        let key = &planned.key;
        let line = format!("volume {key}: already exists, {step}");
        context.reporter.status(&line);
    }
}

/// Reports volumes that are as their files want them, and whose data is gone: no job can use them.
fn report_without_data(context: &WorkflowContext<'_>, count: usize) {
    let volumes = match count {
        1 => "1 volume is".to_owned(),
        count => format!("{count} volumes are"),
    };
    let line = format!("{volumes} registered without data: the provider does not have it any more");
    context.reporter.status(&line);
}

/// Returns the volumes of the files that are as desired now.
fn applied_volumes(plan: &Plan, outcomes: &[Outcome]) -> Vec<NamespacedId> {
    let volumes = plan.volumes.iter().zip(outcomes);
    volumes
        .filter(|(planned, outcome)| planned.spec.is_some() && outcome.status.is_success())
        .map(|(planned, _)| planned.key.clone())
        .collect()
}
