//! `volume expand`: makes a volume larger, and changes nothing else.
//!
//! A server takes a new size only with all other fields, and depending on its version it clears the
//! fields that are left out. So the request is the volume as the server shows it, or as a file declares
//! it, with another size. If the server hides values that this would clear, the volume is not expanded
//! unless a file gives them or their loss is accepted. A set that owns the volume records the new size.

use tokio_util::sync::CancellationToken;

use super::context::WorkflowContext;
use super::error::{FailureKind, WorkflowError};
use super::expand_problems::expand_problems;
use super::expand_request::ExpandRequest;
use super::ledger_access::LedgerAccess;
use super::other_owners::{changed_without_set, owners_of};
use super::plan_execution::execute_plan;
use super::plan_request::{ChangeOptions, PlanRequest, ProviderCheck, Reading};
use super::prepare::prepare_plan;
use super::secret_lookup::look_up_secrets;
use super::set_lock::with_set_lock;
use crate::reconcile::ledger::SetLedger;
use crate::reconcile::outcome::Outcome;
use crate::reconcile::recorded_scope::RecordedScope;
use nomad_csi_model::diagnostic::{Code, Diagnostic, SourceMap};
use nomad_csi_model::{HiddenField, NamespacedId, SetName, one_line};
use nomad_csi_plan::{Action, PlanOptions};
use nomad_csi_spec::Purpose;

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
