//! Checks whether sets own the volumes that a command changes without them.
//!
//! Two sets that own one volume both remove it once their files stop naming it. A set does not see the
//! changes of a command without it. Both are warnings. A volume that a set owns and whose registration is
//! gone is not created without that set: the new volume would be empty, beside the recorded data.
//! A volume that a set protects is not removed without that set.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::timeout;

use super::context::WorkflowContext;
use super::error::WorkflowError;
use super::ledger_access::LedgerAccess;
use super::plan_request::PreparedPlan;
use super::removal_ownership::{block_protected_removals, read_sets};
use crate::reconcile::volume_owners::{Owner, owners_among};
use nomad_csi_model::diagnostic::{Code, Diagnostic, Span};
use nomad_csi_model::{NamespacedId, SetName};
use nomad_csi_plan::{Action, LedgerSet, PlannedVolume};

/// How long the sets are read at most.
const SETS_TIMEOUT: Duration = Duration::from_secs(10);

/// Checks the owners of the volumes that a plan changes or adds to the set. Warns of sets that own an
/// existing volume, and blocks the creation of a volume that a set owns and the removal of one that
/// another set protects.
///
/// The sets are read once, and only if a volume is concerned. A ledger that cannot be read is an error for a
/// removal, and neither a warning nor an error otherwise.
///
/// # Errors
/// If the user interrupts, or the plan removes a volume and the sets cannot be read.
pub async fn check_owners(
    context: &WorkflowContext<'_>,
    prepared: &mut PreparedPlan,
    set: Option<&LedgerSet>,
    access: &LedgerAccess,
) -> Result<(), WorkflowError> {
    let name = set.map(LedgerSet::name);
    let mut volumes = prepared.plan.volumes.iter();
    let sets = match volumes.any(|planned| planned.action.removes()) {
        true => Some(read_sets(context, access).await?),
        false => None,
    };
    if let Some(sets) = &sets {
        block_protected_removals(&mut prepared.plan, sets, name, access);
    }
    let existing = &prepared.observation.observed.volumes;
    let is_owned = |key| set.is_some_and(|set| set.ownership(key).is_some());
    let concerned = prepared.plan.volumes.iter().filter(|planned| {
        let joins = set.is_some() && existing.contains_key(&planned.key);
        planned.spec.is_some() && !is_owned(&planned.key) && (joins || is_change(planned))
    });
    let concerned: BTreeSet<NamespacedId> = concerned.map(|one| one.key.clone()).collect();
    let owners = match &sets {
        Some(sets) => owners_among(sets, &concerned, name),
        None => owners_of(context, access, &concerned, name).await?,
    };
    for planned in &mut prepared.plan.volumes {
        let Some(owners) = owners.get(&planned.key) else {
            continue;
        };
        if let (Action::Create(_), [owner, ..]) = (&planned.action, &owners[..]) {
            let refused = owned_elsewhere(&planned.key, owner, planned.span(), access);
            planned.block(vec![refused]);
            continue;
        }
        let span = planned.span();
        let key = &planned.key;
        let warnings = owners.iter().map(|owner| match name {
            Some(name) => two_owners(key, (&owner.set, name), span, access),
            None => changed_without_set(key, &owner.set, span, access),
        });
        planned.warnings.extend(warnings);
    }
    Ok(())
}

/// Returns the sets that own these volumes, except one. Empty if the ledger cannot be read in time.
///
/// # Errors
/// If the user interrupts.
pub(super) async fn owners_of(
    context: &WorkflowContext<'_>,
    access: &LedgerAccess,
    volumes: &BTreeSet<NamespacedId>,
    except: Option<&SetName>,
) -> Result<BTreeMap<NamespacedId, Vec<Owner>>, WorkflowError> {
    if volumes.is_empty() {
        return Ok(BTreeMap::new());
    }
    let reading = timeout(SETS_TIMEOUT, access.owners(volumes, except));
    match context.unless_interrupted(reading).await? {
        Ok(Ok(owners)) => Ok(owners),
        Ok(Err(error)) => {
            let (code, why) = (error.code.as_str(), &error.message);
            tracing::debug!(code, "the owners of volumes are unknown: {why}");
            Ok(BTreeMap::new())
        }
        Err(_) => {
            tracing::debug!("the owners of volumes are unknown: the ledger did not answer in time");
            Ok(BTreeMap::new())
        }
    }
}

fn is_change(planned: &PlannedVolume) -> bool {
    !planned.is_unchanged() && planned.action.reasons().is_empty()
}

fn two_owners(
    key: &NamespacedId,
    (other, set): (&SetName, &SetName),
    span: Option<Span>,
    access: &LedgerAccess,
) -> Diagnostic {
    let message = format!(
        "volume {key} belongs to set `{other}`: applying adds it to set `{set}` too",
        key = key.quoted()
    );
    let warning = Diagnostic::warning(Code::SetTwoOwners, message)
        .note("each set removes the volume with `--prune` once its own files stop naming it")
        .help(format!(
            "to move the volume to set `{set}`, run `{}`",
            access.forget_command(key, other)
        ))
        .help(format!("to keep it in set `{other}`, remove it from these files"));
    declared(warning, span)
}

/// Warns that a set owns a volume that a command changes without the set.
pub(super) fn changed_without_set(
    key: &NamespacedId,
    owner: &SetName,
    span: Option<Span>,
    access: &LedgerAccess,
) -> Diagnostic {
    let message = format!(
        "volume {key} belongs to set `{owner}`, which does not record this change",
        key = key.quoted()
    );
    let warning = Diagnostic::warning(Code::SetOwnsChanged, message)
        .note("for the set the change is drift, which its next apply reverses")
        .help(format!("to change the volume with its set, add `--set {owner}{}`", access.flags))
        .help(format!("to remove it from the set, run `{}`", access.forget_command(key, owner)));
    declared(warning, span)
}

/// Refuses to create a volume that a set owns and whose registration is gone.
fn owned_elsewhere(
    key: &NamespacedId,
    owner: &Owner,
    span: Option<Span>,
    access: &LedgerAccess,
) -> Diagnostic {
    let set = &owner.set;
    let message = format!(
        "cannot create volume {key}: set `{set}` owns it, and its registration is gone",
        key = key.quoted()
    );
    let data = match owner.data.identity() {
        Some(data) => format!("the set recorded {data}"),
        None => "the set did not record its external ID".to_owned(),
    };
    let problem = Diagnostic::error(Code::PlanDataUnconfirmed, message)
        .note(data)
        .note("the new volume would be empty, beside that data")
        .help(format!("to register the data again, add `--set {set}{}`", access.flags))
        .help(format!("to give up the data, run `{}`", access.forget_command(key, set)));
    declared(problem, span)
}

fn declared(diagnostic: Diagnostic, span: Option<Span>) -> Diagnostic {
    match span {
        Some(span) => diagnostic.label(span, "declared here"),
        None => diagnostic,
    }
}
