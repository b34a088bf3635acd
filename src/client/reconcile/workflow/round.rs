//! One round of `reconcile`: read once, report drift, and reverse it if requested.
//!
//! Drift, plan and changes come from the same reading of the server, so nothing is changed whose drift
//! was not reported. A round that applies reads under the set's lock. It never asks: a change that is
//! blocked, unapproved or not permitted waits for a person, and the rest waits with it. A round that keeps going makes the
//! other changes, except those that depend on one that waits. Every round reports what it did not correct.

use std::collections::BTreeSet;

use tokio_util::sync::CancellationToken;

use super::applied_record::AppliedRecord;
use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::{LedgerAccess, SetSelection};
use super::other_owners::check_owners;
use super::plan_execution::execute_plan;
use super::plan_request::{ChangeOptions, PlanRequest, PreparedPlan, ProviderCheck, Reading};
use super::preflight::preflight_plan;
use super::prepare::prepare_plan;
use super::reporter::Reporter;
use super::secret_lookup::look_up_secrets;
use super::server_unreachable::fold_server_away;
use super::set_lock::with_set_lock;
use super::specifications::Specifications;
use crate::reconcile::drift::{DriftQuery, find_drift};
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::ledger_writer::RecordedScope;
use crate::reconcile::outcome::{Outcome, Status};
use crate::reconcile::permissions::Preflight;
use nomad_csi_model::diagnostic::{Code, Diagnostic, Diagnostics, SourceMap};
use nomad_csi_model::{NamespacedId, SetName, shell_quoted};
use nomad_csi_plan::{
    DriftInputs, Plan, PlannedVolume, Unapproved, VolumeDrift, detect_drift, has_unrecorded_data,
    ownership_changes,
};
use nomad_csi_spec::Purpose;

/// Reports what rounds find and do.
pub trait RoundReporter: Reporter {
    /// Reports the drift of every volume of a set.
    fn drift(&self, set: &str, volumes: &[VolumeDrift]);

    /// Reports what a round could not check. Empty if it checked everything.
    fn unchecked(&self, remarks: Vec<Diagnostic>);

    /// Reports what a person must resolve before anything is changed, or before these volumes are changed if the round
    /// `keeps_going`. Empty if nothing.
    fn blocked(&self, reasons: Vec<Diagnostic>, keeps_going: bool, sources: &SourceMap);

    /// Reports the volumes of a set that a round did not correct, at its end. Empty if none is left.
    fn uncorrected(&self, set: &str, volumes: &[Uncorrected]);

    /// Reports how the changes of a plan ended. Returns the failures.
    /// `server_unreachable` is the problem of a server that stopped responding.
    fn outcomes(
        &self,
        plan: &Plan,
        outcomes: &[Outcome],
        server_unreachable: Option<Diagnostic>,
    ) -> Diagnostics;
}

/// A volume that a round did not correct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncorrected {
    /// The volume.
    pub volume: NamespacedId,
    /// Why not.
    pub why: UncorrectedReason,
}

/// Why a round did not correct a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncorrectedReason {
    /// Its own change is blocked, waits for claims, or is not approved.
    Blocked,
    /// Its change can be made, and waits until the blocked ones are resolved.
    WaitsForOthers,
    /// Its change failed.
    Failed,
    /// Its change was not started: the round or the server ended before it.
    NotStarted,
}

impl UncorrectedReason {
    /// Its name in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::WaitsForOthers => "waits for the blocked volumes",
            Self::Failed => "failed",
            Self::NotStarted => "not started",
        }
    }
}

/// One round of `reconcile`.
pub struct RoundRequest<'a> {
    /// The specifications.
    pub specifications: &'a Specifications,
    /// The ledger that records the set; `None` if no ledger is used.
    pub ledger: Option<LedgerAccess>,
    /// Fields whose drift is ignored.
    pub ignore: &'a BTreeSet<String>,
    /// True if the providers are asked which volumes they have.
    pub asks_providers: bool,
    /// How drift is reversed; `None` if it is only reported.
    pub changes: Option<ChangeOptions>,
    /// True if a change that waits for a person does not stop the others.
    pub keeps_going: bool,
}

/// Runs one round. `reporter` is the context's reporter.
///
/// # Errors
/// If the server or the ledger cannot be used, or a change failed.
pub async fn run_round(
    context: &WorkflowContext<'_>,
    reporter: &dyn RoundReporter,
    request: RoundRequest<'_>,
) -> Result<(), WorkflowError> {
    let set_name = request.specifications.set.as_ref();
    let Some(options) = &request.changes else {
        let reading = report_drift(context, reporter, &request);
        return context.unless_interrupted(reading).await?;
    };
    let selection = SetSelection::new(request.ledger.clone(), set_name);
    let round =
        Round { context, reporter, request: &request, options, selection: selection.as_ref() };
    let Some(selection) = &selection else {
        return round.reverse_drift(None, context.interrupt).await;
    };
    with_set_lock(context, selection, async |set, stop| round.reverse_drift(Some(set), stop).await)
        .await
}

/// Reads the server and reports drift. Changes nothing.
async fn report_drift(
    context: &WorkflowContext<'_>,
    reporter: &dyn RoundReporter,
    request: &RoundRequest<'_>,
) -> Result<(), WorkflowError> {
    let set_name = request.specifications.set.as_ref();
    let record = AppliedRecord::read(request.ledger.as_ref(), set_name).await?;
    let query = DriftQuery {
        desired: &request.specifications.volumes,
        set: record.set(),
        ignore: request.ignore,
        asks_providers: request.asks_providers,
        parallelism: context.parallelism,
    };
    let found = find_drift(context.api, query).await?;
    reporter.drift(set_name.map_or("", SetName::as_str), &found.volumes);
    reporter.unchecked(unread_providers(found.warnings));
    Ok(())
}

/// A round that reverses drift.
struct Round<'a> {
    context: &'a WorkflowContext<'a>,
    reporter: &'a dyn RoundReporter,
    request: &'a RoundRequest<'a>,
    options: &'a ChangeOptions,
    selection: Option<&'a SetSelection>,
}

impl Round<'_> {
    /// Reports drift, and reverses it from the same reading of the server.
    async fn reverse_drift(
        &self,
        set: Option<&mut SetLedger>,
        stop: &CancellationToken,
    ) -> Result<(), WorkflowError> {
        let (context, reporter) = (self.context, self.reporter);
        let specifications = self.request.specifications;
        let plan_request = PlanRequest {
            specifications,
            purpose: Purpose::ByExternalId,
            options: self.options.clone(),
            keeps_documents: false,
            reads_whole_set: true,
            provider_check: ProviderCheck::Always,
            set: set.as_deref().map(SetLedger::set),
            reading: Reading::Everything,
        };
        let mut prepared = prepare_plan(context, &plan_request).await?;
        if let Some(access) = &self.request.ledger {
            let checked = check_owners(context, &mut prepared, plan_request.set, access).await;
            checked.inspect_err(|_| self.report_not_started(&prepared.plan))?;
        }
        self.report_drift_of(&prepared, set.as_deref());
        reporter.unchecked(unread_providers(prepared.plan.remarks.clone()));
        let keeps_going = self.request.keeps_going;
        let mut reasons = vec![];
        if keeps_going {
            reasons = self.block_what_waits(&mut prepared.plan);
        }
        let stopping = self.blocking_reasons(&prepared).await;
        let stopping = stopping.inspect_err(|_| self.report_not_started(&prepared.plan))?;
        let is_blocked = !stopping.is_empty();
        reasons.extend(stopping);
        reporter.blocked(reasons, !is_blocked, &specifications.sources);
        let plan = &prepared.plan;
        let set_name = specifications.set.as_ref().map_or("", SetName::as_str);
        let observed = &prepared.observation.observed;
        let changes_ownership = plan_request.set.is_some_and(|set| {
            !ownership_changes(plan, set).is_empty() || has_unrecorded_data(set, observed)
        });
        let changes_volumes = plan.counts().changes() > 0;
        if is_blocked || !changes_volumes && !changes_ownership {
            reporter.uncorrected(set_name, &left(plan, UncorrectedReason::WaitsForOthers));
            return Ok(());
        }
        if changes_volumes {
            // What blocks a volume is reported already.
            let warnings = plan.volumes.iter().flat_map(|planned| &planned.warnings);
            let warnings = plan.remarks.iter().chain(warnings).cloned().collect();
            reporter.diagnostics(&warnings, &specifications.sources);
        }
        let owner = set.as_deref().map(SetLedger::set);
        let resolved = look_up_secrets(context, specifications, plan, owner).await;
        let resolved = resolved.inspect_err(|_| self.report_not_started(plan))?;
        let scope = RecordedScope::WholeRequest;
        let outcomes = execute_plan(context, &prepared, &resolved, set, None, scope, stop).await;
        let mut outcomes = outcomes.inspect_err(|_| self.report_not_started(plan))?;
        let server_unreachable = fold_server_away(plan, &mut outcomes);
        let failures = reporter.outcomes(plan, &outcomes, server_unreachable);
        reporter.uncorrected(set_name, &not_corrected(plan, &outcomes));
        if failures.is_empty() {
            return Ok(());
        }
        Err(failures.into())
    }

    /// Reports what a round leaves as it is that ends with an error before its changes.
    fn report_not_started(&self, plan: &Plan) {
        let set = self.request.specifications.set.as_ref().map_or("", SetName::as_str);
        self.reporter.uncorrected(set, &left(plan, UncorrectedReason::NotStarted));
    }

    /// Returns why changes wait for a person, with their positions in the plan.
    fn reasons_of_volumes(&self, plan: &Plan) -> Vec<(usize, Vec<Diagnostic>)> {
        let mut of_volumes = vec![];
        for (position, planned) in plan.volumes.iter().enumerate() {
            let reasons = planned.action.reasons();
            if !reasons.is_empty() {
                of_volumes.push((position, reasons.to_vec()));
            }
        }
        for (position, planned) in plan.volumes.iter().enumerate() {
            if planned.action.requires_own_approval() {
                of_volumes.push((position, vec![only_by_a_person(planned)]));
            }
        }
        let missing = self.options.approvals.missing(plan);
        let missing = missing.iter().filter(|one| !one.is_own);
        of_volumes.extend(missing.map(|one| (one.position, vec![unapproved(one)])));
        of_volumes
    }

    /// Blocks the changes that wait for a person, and those that depend on one. Returns why they wait.
    fn block_what_waits(&self, plan: &mut Plan) -> Vec<Diagnostic> {
        let mut all = vec![];
        let mut waiting: BTreeSet<usize> = BTreeSet::new();
        for (position, reasons) in self.reasons_of_volumes(plan) {
            all.extend(reasons.iter().cloned());
            waiting.insert(position);
            if let Some(planned) = plan.volumes.get_mut(position)
                && planned.action.reasons().is_empty()
            {
                planned.block(reasons);
            }
        }
        // Each pass adds the dependents of those of the pass before.
        loop {
            let waits = |position: &usize| waiting.contains(position);
            let depends = |planned: &PlannedVolume| planned.depends_on.iter().any(waits);
            let changed = plan.volumes.iter().enumerate().filter(|(position, planned)| {
                !waits(position) && !planned.is_unchanged() && depends(planned)
            });
            let dependents: Vec<usize> = changed.map(|(position, _)| position).collect();
            if dependents.is_empty() {
                return all;
            }
            for position in dependents {
                waiting.insert(position);
                if let Some(planned) = plan.volumes.get_mut(position) {
                    let reason = depends_on_a_waiting_one(planned);
                    all.push(reason.clone());
                    planned.block(vec![reason]);
                }
            }
        }
    }

    fn report_drift_of(&self, prepared: &PreparedPlan, set: Option<&SetLedger>) {
        let specifications = self.request.specifications;
        let drift = detect_drift(&DriftInputs {
            desired: &specifications.volumes,
            // A set that was never applied does not record that a volume never existed.
            set: set.filter(|set| set.exists()).map(SetLedger::set),
            volumes: &prepared.observation.observed.volumes,
            rules: prepared.rules,
            provided: &prepared.observation.observed.provided,
            ignore: self.request.ignore,
        });
        let set_name = specifications.set.as_ref().map_or("", SetName::as_str);
        self.reporter.drift(set_name, &drift);
    }

    /// Returns what a person must resolve before anything is changed. Unhealthy plugins are not waited for: the next
    /// round checks them again.
    async fn blocking_reasons(
        &self,
        prepared: &PreparedPlan,
    ) -> Result<Vec<Diagnostic>, WorkflowError> {
        if !self.request.keeps_going {
            let reasons = self.reasons_of_volumes(&prepared.plan);
            if !reasons.is_empty() {
                return Ok(reasons.into_iter().flat_map(|(_, reasons)| reasons).collect());
            }
        }
        match preflight_plan(self.context, prepared, self.selection).await? {
            Preflight::Granted => Ok(vec![]),
            Preflight::Missing(missing) => Ok(vec![*missing]),
            Preflight::Unknown(why) => {
                let line = format!("the token's permissions are unknown: {why}; continuing");
                self.reporter.status(&line);
                Ok(vec![])
            }
        }
    }
}

/// Returns the volumes that a round without changes leaves as they are, and why those that are not blocked.
fn left(plan: &Plan, otherwise: UncorrectedReason) -> Vec<Uncorrected> {
    let changed = plan.volumes.iter().filter(|planned| !planned.is_unchanged());
    let uncorrected = changed.map(|planned| Uncorrected {
        volume: planned.key.clone(),
        why: match planned.action.reasons() {
            [] => otherwise,
            _ => UncorrectedReason::Blocked,
        },
    });
    uncorrected.collect()
}

/// Returns the volumes that are not as planned after the changes.
fn not_corrected(plan: &Plan, outcomes: &[Outcome]) -> Vec<Uncorrected> {
    let left = plan.volumes.iter().zip(outcomes).filter_map(|(planned, outcome)| {
        let why = match &outcome.status {
            Status::Unchanged | Status::Done(_) | Status::Removed => return None,
            Status::Blocked => UncorrectedReason::Blocked,
            Status::Stale(_) | Status::DependencyFailed(_) | Status::Failed(_) => {
                UncorrectedReason::Failed
            }
            Status::ServerUnreachable(_) | Status::NotStarted => UncorrectedReason::NotStarted,
        };
        Some(Uncorrected { volume: planned.key.clone(), why })
    });
    left.collect()
}

fn depends_on_a_waiting_one(planned: &PlannedVolume) -> Diagnostic {
    let message = format!(
        "volume {key} is not changed: a volume that it depends on is blocked",
        key = planned.key.quoted()
    );
    Diagnostic::error(Code::ApplyHeldBack, message)
        .help("resolve what blocks the other volume; the next round changes both")
}

fn unread_providers(remarks: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut remarks = remarks;
    remarks.retain(|remark| remark.code == Code::PlanProviderUnread);
    remarks
}

/// Explains that `reconcile` never puts other data in the place of a volume's data.
fn only_by_a_person(planned: &PlannedVolume) -> Diagnostic {
    let key = &planned.key;
    let message = format!(
        "volume {key}: `reconcile` never changes which data a volume has",
        key = key.quoted()
    );
    let mut problem = Diagnostic::error(Code::PlanDataUnconfirmed, message);
    for warning in &planned.warnings {
        problem = problem.note(warning.message.clone());
        problem.notes.extend(warning.notes.iter().cloned());
        problem.help.extend(warning.help.iter().cloned());
    }
    if let Some(impact) = &planned.impact {
        let risk = impact.risk;
        problem = problem.help(format!(
            "to change it, run `nomad-csi apply` with `--approve {}`",
            shell_quoted(format_args!("{risk}:{}/{}", key.namespace, key.id))
        ));
    }
    problem
}

fn unapproved(unapproved: &Unapproved) -> Diagnostic {
    let (key, risk) = (&unapproved.key, unapproved.risk);
    let message = format!("volume {key}: risk {risk} is not approved", key = key.quoted());
    Diagnostic::error(Code::CliApprovalNeeded, message).help(format!(
        "to approve it, add `--approve {}`",
        shell_quoted(format_args!("{risk}:{}/{}", key.namespace, key.id))
    ))
}
