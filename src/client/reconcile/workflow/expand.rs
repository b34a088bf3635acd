//! `volume expand`: makes a volume larger, and changes nothing else.
//!
//! A server takes a new size only with all other fields, and depending on its version it clears the
//! fields that are left out. So the request is the volume as the server shows it, or as a file declares
//! it, with another size. If the server hides values that this would clear, the volume is not expanded
//! unless a file gives them or their loss is accepted. A set that owns the volume records the new size.

use tokio_util::sync::CancellationToken;

use super::context::WorkflowContext;
use super::error::{FailureKind, WorkflowError};
use super::ledger_access::{LedgerAccess, SetSelection};
use super::other_owners::{changed_without_set, owners_of};
use super::plan_execution::execute_plan;
use super::plan_request::{ChangeOptions, PlanRequest, PreparedPlan, ProviderCheck, Reading};
use super::prepare::prepare_plan;
use super::secret_lookup::look_up_secrets;
use super::set_lock::with_set_lock;
use super::specifications::Specifications;
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::ledger_writer::RecordedScope;
use crate::reconcile::outcome::Outcome;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap};
use nomad_csi_model::{
    HiddenField, NamespacedId, ServerVersion, SetName, Volume, one_line, shell_quoted,
};
use nomad_csi_plan::{Action, OmittedMap, PlanOptions, PlannedVolume, Policies};
use nomad_csi_spec::Purpose;

/// The field that has the mount flags.
const MOUNT_OPTIONS: &str = "mount_options";

/// A volume to expand.
pub struct ExpandRequest<'a> {
    /// The volume as it is.
    pub existing: &'a Volume,
    /// The volume with its new size.
    pub specifications: &'a Specifications,
    /// True if a file declares the volume, rather than only a new size being given.
    pub is_from_file: bool,
    /// Hidden values that may be lost.
    pub accepted_losses: &'a [HiddenField],
    /// The server's version, if it is given rather than read.
    pub server_version: Option<ServerVersion>,
    /// The policies that may forbid it.
    pub policies: Policies,
    /// The ledger whose sets may own the volume; `None` if the command uses none.
    pub ledger: Option<&'a LedgerAccess>,
    /// The set that may own the volume.
    pub set: Option<&'a SetSelection>,
    /// True if the set must own the volume.
    pub requires_set: bool,
}

/// Expands a volume. Returns `None` if the plan has no volume.
///
/// If the set owns the volume, the set records the new size, so it is not drift. A volume never joins a
/// set here, because not everything that a file declares is applied.
///
/// # Errors
/// If the volume cannot be expanded, or the server or the ledger cannot be used.
pub async fn expand_volume(
    context: &WorkflowContext<'_>,
    request: &ExpandRequest<'_>,
) -> Result<Option<Outcome>, WorkflowError> {
    let key = request.existing.key();
    let Some(selection) = request.set else {
        warn_of_owners(context, request, None).await?;
        return expand_in_set(context, request, None, context.interrupt).await;
    };
    let set = context.unless_interrupted(selection.open()).await??;
    if set.set().ownership(&key).is_none() {
        let (name, access) = (&selection.name, &selection.access);
        if request.requires_set {
            return Err(not_owned(name, &key, access).into());
        }
        let line = format!("volume {key}: not owned by set {name}, which does not record the size");
        context.reporter.status(&line);
        warn_of_owners(context, request, Some(name)).await?;
        return expand_in_set(context, request, None, context.interrupt).await;
    }
    with_set_lock(context, selection, async |set, stop| {
        let is_owned = set.set().ownership(&key).is_some();
        expand_in_set(context, request, is_owned.then_some(set), stop).await
    })
    .await
}

/// Warns of sets that own the volume and do not record its new size.
async fn warn_of_owners(
    context: &WorkflowContext<'_>,
    request: &ExpandRequest<'_>,
    except: Option<&SetName>,
) -> Result<(), WorkflowError> {
    let Some(access) = request.ledger else {
        return Ok(());
    };
    let key = request.existing.key();
    let owners = owners_of(context, access, &[key.clone()].into(), except).await?;
    let owners = owners.get(&key).into_iter().flatten();
    let warnings = owners.map(|owner| changed_without_set(&key, &owner.set, None, access));
    context.reporter.diagnostics(&warnings.collect(), &SourceMap::default());
    Ok(())
}

/// The set or the volume may be the wrong one.
fn not_owned(name: &SetName, key: &NamespacedId, access: &LedgerAccess) -> Diagnostic {
    let volume = one_line(&key.quoted());
    let message = format!("cannot expand volume {volume}: set `{name}` does not own it");
    Diagnostic::error(Code::SetNotOwned, message)
        .note(format!("the set was read from {}", access.ledger.name()))
        .help(format!(
            "run `nomad-csi set show {name}{}` to list the volumes of the set",
            access.flags
        ))
        .help("without `--set`, the volume is expanded and no set records it")
}

async fn expand_in_set(
    context: &WorkflowContext<'_>,
    request: &ExpandRequest<'_>,
    set: Option<&mut SetLedger>,
    stop: &CancellationToken,
) -> Result<Option<Outcome>, WorkflowError> {
    let key = request.existing.key();
    let accepted = request.accepted_losses.iter();
    let plan_options = PlanOptions {
        accept_loss: accepted.map(|field| (*field, key.clone())).collect(),
        policies: request.policies.clone(),
        ..PlanOptions::default()
    };
    let specifications = request.specifications;
    let plan_request = PlanRequest {
        specifications,
        purpose: Purpose::ByExternalId,
        options: ChangeOptions {
            server_version: request.server_version.clone(),
            plan: plan_options,
            ..ChangeOptions::default()
        },
        keeps_documents: true,
        reads_whole_set: false,
        provider_check: ProviderCheck::WhenRequired,
        set: set.as_deref().map(SetLedger::set),
        reading: Reading::Everything,
    };
    let prepared = prepare_plan(context, &plan_request).await?;
    let Some(planned) = prepared.plan.volumes.first() else {
        return Ok(None);
    };
    let reporter = context.reporter;
    let problems = expand_problems(request, &prepared, planned);
    if !problems.is_empty() {
        reporter.diagnostics(&problems.into_iter().collect(), &specifications.sources);
        return Err(WorkflowError::reported(FailureKind::Blocked));
    }
    let accepts_secrets = request.accepted_losses.contains(&HiddenField::Secrets);
    let warnings = planned
        .warnings
        .iter()
        .filter(|warning| warning.code != Code::PlanErasesSecrets || !accepts_secrets);
    reporter.diagnostics(&warnings.cloned().collect(), &specifications.sources);
    let resolved = look_up_secrets(context, specifications, &prepared.plan, None).await?;
    // Without a file, the other fields come from the server and were not applied.
    let records = request.is_from_file || planned.action != Action::Unchanged;
    let set = set.filter(|_| records);
    let scope = match request.is_from_file {
        true => RecordedScope::WholeRequest,
        false => RecordedScope::SizeOnly,
    };
    let mut outcomes = execute_plan(context, &prepared, &resolved, set, None, scope, stop).await?;
    Ok(outcomes.pop())
}

/// Returns every reason why the volume cannot be expanded.
fn expand_problems(
    request: &ExpandRequest<'_>,
    prepared: &PreparedPlan,
    planned: &PlannedVolume,
) -> Vec<Diagnostic> {
    let key = &planned.key;
    let reasons = planned.action.reasons().iter().cloned();
    let mut problems: Vec<Diagnostic> = reasons
        .map(|reason| match reason.code {
            Code::PlanHiddenValue => hidden_flags(key, reason, request.is_from_file),
            _ => reason,
        })
        .collect();
    let accepts_flags = request.accepted_losses.contains(&HiddenField::MountFlags);
    if let Action::WaitingForClaims(wait) = &planned.action
        && let Some(problem) = problems.pop()
    {
        let claims = wait.claims.iter();
        problems.push(claims.fold(problem, |problem, claim| problem.note(claim.to_string())));
    }
    match &planned.action {
        Action::Update(update) | Action::Expand(update) => {
            let fields = update.changes.iter().map(|change| change.field);
            let others = fields.filter(|field| !field.starts_with("capacity"));
            // Without a file, the request is what the server shows, and only flags that it hides differ.
            let (flags, others): (Vec<_>, Vec<_>) =
                others.partition(|field| !request.is_from_file && field.starts_with(MOUNT_OPTIONS));
            if !flags.is_empty() && !accepts_flags {
                let reason = Diagnostic::error(Code::PlanHiddenValue, String::new());
                problems.push(hidden_flags(key, reason, false));
            }
            if !others.is_empty() {
                let message = format!(
                    "cannot expand volume {key}: the file changes other fields too: {}",
                    others.join(", "),
                    key = key.quoted()
                );
                let problem = Diagnostic::error(Code::PlanOtherChanges, message);
                problems.push(problem.help("run `nomad-csi apply` to apply the whole file"));
            }
        }
        Action::RegisterAgain(again) if again.replaces.is_some() => {
            let message = format!(
                "cannot expand volume {key}: the server has other data under this name",
                key = key.quoted()
            );
            let problem = Diagnostic::error(Code::PlanDataChanged, message);
            problems.push(problem.help("run `nomad-csi plan` to see which data"));
        }
        Action::Create(_)
        | Action::Register(_)
        | Action::RegisterAgain(_)
        | Action::Recreate(_)
        | Action::Replace(_) => {
            let message =
                format!("cannot expand volume {key}: it no longer exists", key = key.quoted());
            problems.push(Diagnostic::error(Code::PlanStale, message));
        }
        Action::Unchanged
        | Action::WaitingForClaims(_)
        | Action::Blocked(_)
        | Action::Deregister
        | Action::DeleteData => {}
    }
    let clears_secrets = prepared.rules.omitted_secrets == OmittedMap::Clear;
    let accepts_secrets = request.accepted_losses.contains(&HiddenField::Secrets);
    if !request.is_from_file && clears_secrets && !accepts_secrets {
        problems.push(unknown_secrets(key));
    }
    problems
}

/// Rewrites a plan's reason for a request that only changes the size.
fn hidden_flags(key: &NamespacedId, reason: Diagnostic, is_from_file: bool) -> Diagnostic {
    let message = format!(
        "cannot expand volume {key}: this would clear its mount flags, which the server hides",
        key = key.quoted()
    );
    let problem = Diagnostic::error(Code::PlanHiddenValue, message);
    let accept = "to clear the mount flags, add `--accept-loss mount_flags`";
    if !is_from_file {
        return problem.help(give_file(key)).help(accept);
    }
    Diagnostic {
        labels: reason.labels,
        ..problem.help("declare the mount flags in the file, or write `mount_options {}` for none")
    }
    .help(accept)
}

/// A file can declare that a volume has no secrets. The server does not show it (W20).
fn unknown_secrets(key: &NamespacedId) -> Diagnostic {
    let message = format!(
        "cannot expand volume {key}: this would clear its secrets, and the server hides whether it has any",
        key = key.quoted()
    );
    Diagnostic::error(Code::PlanHiddenValue, message)
        .note("Nomad replaces stored secrets even if the request has none")
        .help(give_file(key))
        .help("if the volume has no secrets, add `--accept-loss secrets`")
}

fn give_file(key: &NamespacedId) -> String {
    format!(
        "give the file that declares the volume: `nomad-csi volume expand {} -f FILE`",
        shell_quoted(&key.id)
    )
}
